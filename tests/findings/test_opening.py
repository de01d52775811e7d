"""`mt.open` reads whatever a verb wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import microtome as mt
from microtome.errors import InputError
from microtome.findings.record import Maps
from microtome.findings.results import Curve, Result
from microtome.findings.words import Unit


def result() -> Result:
    line = np.array([0.5, 0.75])
    curve = Curve(
        name="UNTUNED",
        axis="layers kept",
        x=(1, 2),
        values=line,
        low=line - 0.1,
        high=line + 0.1,
        band_low=line - 0.2,
        band_high=line + 0.2,
        level=0.95,
        unit=Unit("example"),
        n=40,
        seeds=(1, 1),
        reasons=(None, None),
    )
    return Result(
        experiment="truncation", model="m", task="t", split="validation", score="accuracy", curves=(curve,)
    )


def test_maps_and_results_are_told_apart(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    maps = mt.similarity_matrix([rng.normal(size=(40, 4)) for _ in range(2)], None, ["linear_cka"])
    maps.save(tmp_path / "maps")
    result().save(tmp_path / "result")
    assert isinstance(mt.open(tmp_path / "maps"), Maps)
    for place in (tmp_path / "result", tmp_path / "result" / "result.json"):
        found = mt.open(place)
        assert isinstance(found, Result)
        assert found["UNTUNED"].values.tolist() == [0.5, 0.75]


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"format": "other/1"}')
    with pytest.raises(InputError, match="format must be microtome/similarity/1"):
        mt.open(tmp_path)
    with pytest.raises(InputError, match=r"must be a readable result\.json"):
        mt.open(tmp_path / "absent")


def test_a_result_draws_itself(tmp_path: Path) -> None:
    figure = result().plot()
    assert figure.axes
