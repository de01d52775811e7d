"""Does freezing say what frozen blocks cost and save, with plain fine-tuning as its zero?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cats
from microtome.context import Context
from microtome.errors import InputError, UnknownNameError
from microtome.experiments.runs import Run
from microtome.experiments.surgery.freezing import Freezing, _saving_claims, freeze, freezing_costs
from microtome.findings.claims.render import headline
from microtome.findings.results import open_result
from microtome.interventions.blocks import Freeze
from microtome.training.request import ask

Encoders = Callable[..., Any]


def test_curves_against_plain_fine_tuning(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), cats.cats_task()
    given: dict[str, Any] = {
        "store": tmp_path / "s",
        "repeats": 1,
        "seeds": (1, 2),
        "ks": 2,
        **cats.QUICK,
    }
    found = freeze(encoder, task, command="microtome freeze", **given)
    assert [curve.name for curve in found.curves] == ["bottom", "difference bottom", "top", "difference top"]
    bottom, difference = found.curves[:2]
    assert bottom.x == (0, 2)
    assert bottom.values[0] > 0.9
    assert difference.values[0] == difference.band_low[0] == 0
    np.testing.assert_allclose(difference.values[1], bottom.values[1] - bottom.values[0])
    plain = ask(encoder, task, "wu2020", seed=1, **cats.QUICK).address
    zeros = {row["address"] for row in found.rows if row["x"] == 0 and row["seed"] == 1}
    assert zeros == {plain}
    assert len(found.rows) == 8
    assert found.provenance["runs"] == 6
    assert "tea" not in found.methods
    assert "wu2020" in found.methods
    assert any("@inproceedings{merchant2020" in entry for entry in found.references)
    assert found.lines["majority baseline"] == pytest.approx(0.5, abs=0.1)
    # Everything is in the store by now, the measured times too.
    heard: list[str] = []
    again = freeze(encoder, task, progress=lambda what, *_: heard.append(what), **given)
    assert not any("training" in what for what in heard)
    assert again.more["cost"] == found.more["cost"]
    assert again.findings == found.findings
    found.save(tmp_path / "out")
    assert open_result(tmp_path / "out").findings == found.findings


def test_a_frozen_bottom_saves_and_a_frozen_top_hardly(encoder_of: Encoders, tmp_path: Path) -> None:
    cases = {"none": None, "bottom 2": Freeze(bottom=2), "bottom 3": Freeze(bottom=3), "top 2": Freeze(top=2)}
    found = freezing_costs(
        encoder_of("bert"),
        cats.cats_task(),
        cases,
        recipe="wu2020",
        repeats=3,
        context=Context(store=tmp_path, device="cpu"),
        **cats.QUICK,
    )
    cost = {one["case"]: one for one in found}
    assert cost["none"]["memory_ratio"] == cost["none"]["backward_ratio"] == 1
    memory = [cost[name]["memory_ratio"] for name in ("top 2", "bottom 2", "bottom 3")]
    assert memory == sorted(memory, reverse=True)
    assert memory[0] > 0.7
    assert memory[1] < 0.5
    # The head alone is left.
    assert memory[2] < 0.1
    assert cost["bottom 3"]["learning"] < cost["bottom 2"]["learning"] < cost["none"]["learning"]
    assert cost["bottom 3"]["backward_seconds"] < cost["none"]["backward_seconds"]


def test_runs_that_diverge_are_counted_and_left_out(encoder_of: Encoders, tmp_path: Path) -> None:
    given: dict[str, Any] = {**cats.QUICK, "steps": 12, "rate": 1e30, "clip": None}
    found = freeze(
        encoder_of("bert"),
        cats.cats_task(),
        ks=(1,),
        parts="bottom",
        seeds=1,
        measure_time=False,
        store=tmp_path,
        **given,
    )
    assert np.isnan(found["bottom"].values).all()
    assert len(found.warnings) == 2
    assert all("is excluded" in said for said in found.warnings)
    assert found.findings == (
        "Nothing is concluded about freezing: all runs of the model that it is compared with diverged.",
    )


def test_or_more_is_claimed_only_where_it_holds() -> None:
    def saves(*ratios: float) -> list[str]:
        records = [
            {"part": "bottom", "blocks": k, "backward_ratio": ratio, "memory_ratio": 1.0}
            for k, ratio in enumerate((1.0, *ratios))
        ]
        return [headline(claim) for claim in _saving_claims(records, 3)[1:]]

    half = "frozen, the backward pass takes half of its time or less."
    assert saves(0.9, 0.4, 0.3) == [f"With the bottom 2 of 3 blocks, or more, {half}"]
    assert saves(0.4, 0.9, 0.3) == [f"With the bottom 1 of 3 blocks {half}"]
    assert _saving_claims([], 3) == []


def runs_of(encoder: Any, **options: Any) -> list[Run]:
    return Freezing(model=encoder, task=cats.cats_task(), **options).grid(encoder)


def test_the_plan(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")
    every = runs_of(encoder, seeds=(1, 2))
    assert len(every) == 16
    assert {run.x for run in every} == {0, 1, 2, 3}
    assert all(not run.interventions for run in every if run.x == 0)
    kept = runs_of(encoder, seeds=1, cached=True)
    assert [run.x for run in kept if run.options.get("cached")] == [1, 2, 3]
    assert all(run.arm == "bottom" for run in kept if run.options.get("cached"))
    assert not any(run.options for run in runs_of(encoder, seeds=1, cached=True, embeddings=False))
    assert [run.x for run in runs_of(encoder_of("albert"), ks=(3,), parts="bottom", seeds=1)] == [0, 3]


def test_what_cannot_be_asked(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")
    with pytest.raises(InputError, match="ks must be numbers of blocks between 0 and 3, but got 4"):
        runs_of(encoder, ks=(4,))
    half: Any = (1.5,)
    with pytest.raises(InputError, match=r"ks must be whole numbers or None, but got \(1\.5,\)"):
        runs_of(encoder, ks=half)
    first: Any = np.arange(2)
    assert [run.x for run in runs_of(encoder, ks=first, parts="top", seeds=1)] == [0, 1]
    with pytest.raises(InputError, match="repeats must be at least 1, but got 0"):
        freeze(encoder, cats.cats_task(), repeats=0)
    with pytest.raises(UnknownNameError, match="parts must be one of bottom, top, but got 'middle'"):
        runs_of(encoder, parts="middle")
    with pytest.raises(InputError, match="seeds must be one or more, each once"):
        runs_of(encoder, seeds=(1, 1))
    with pytest.raises(InputError, match="ks must be 0 or 3 for ALBERT, whose layers share their weights"):
        runs_of(encoder_of("albert"))
