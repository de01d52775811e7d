"""Tuning methods are brought to one score, and each changes the layers that it can change."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cats
from microtome.encoders.loading import load
from microtome.errors import InputError, MissingExtraError
from microtome.experiments.change.learning_rates import MATCHED
from microtome.experiments.change.tuning_methods import tuning_methods
from microtome.findings.results import open_result
from moving import saved

RATES = {"full": [3e-3], "lora": [2e-2], "bitfit": [1e-2], "head": [1e-2]}


def test_each_way_changes_what_it_can(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    base, task = load(saved(tmp_path / "m")), cats.cats_task(validation=70)
    heard: list[str] = []
    given: dict[str, Any] = {
        "rates": RATES,
        "seeds": (1, 2),
        "store": tmp_path / "s",
        "progress": lambda what, *_: heard.append(what),
        **cats.QUICK,
    }
    found = tuning_methods(base, task, command="microtome tuning-methods", **given)
    curves = {one.name.removeprefix("debiased_cka: "): one for one in found.curves}
    assert list(curves) == ["full", "lora", "bitfit", "head"]
    # A head leaves the encoder as it is; adapters stand in the blocks, and the bias of the embeddings moves
    # all rows alike, which no similarity of centered rows sees.
    np.testing.assert_array_equal(curves["head"].values, 1)
    for way in ("lora", "bitfit"):
        assert curves[way].values[0] == 1
        assert (curves[way].values[1:] < 1).all()
    assert (curves["full"].values < 1).all()
    ways = found.more["ways"]
    assert ways["head"]["change"]["debiased_cka"]["center"] is None
    assert ways["full"]["apart"] is None
    assert ways["lora"]["apart"]["from"] == "full"
    for way in ("full", "lora", "bitfit"):
        told = ways[way]["change"]["debiased_cka"]
        assert told["center"]["low"] < told["center"]["value"] < told["center"]["high"]
        assert ways[way]["score"] == pytest.approx(np.mean(list(ways[way]["scores"].values())))
    assert ways["lora"]["change"]["debiased_cka"]["center_apart"]["from"] == "full"
    scores = [one["score"] for one in ways.values()]
    assert max(scores) - min(scores) > MATCHED
    matched = found.claims[0]
    assert matched.estimate is not None
    assert (matched.kind, matched.verdict) == ("matched scores", "does not hold")
    assert matched.estimate.value == pytest.approx(max(scores) - min(scores))
    centers = {claim.facts["method"]: claim for claim in found.claims if claim.kind == "change center"}
    assert list(centers) == ["full", "lora", "bitfit", "head"]
    assert centers["head"].facts["reason"] == "no layer changed"
    assert len(found.rows) == 8
    assert found.task == "cats"
    json.dumps(found.document(), allow_nan=False)
    found.save(tmp_path / "out")
    assert open_result(tmp_path / "out").findings == found.findings
    # Everything is in the store by now.
    heard.clear()
    again = tuning_methods(base, task, **given)
    assert not any("training" in what for what in heard)
    assert again.findings == found.findings


def test_one_seed_says_nothing_of_others_and_bad_input_is_told(tmp_path: Path) -> None:
    base, task = load(saved(tmp_path / "m")), cats.cats_task(32, 64)
    given: dict[str, Any] = {"store": tmp_path / "s", **cats.QUICK, "steps": 4}
    found = tuning_methods(
        base, task, methods=("full", "head"), rates={"full": [1e-3], "head": [1e-2]}, seeds=3, **given
    )
    assert "Nothing can be said about other seeds: there is one model per method." in found.warnings
    assert found.curves[0].unit == "sentence"
    with pytest.raises(InputError, match="match must be 'weakest', 'best' or a score in points"):
        tuning_methods(base, task, match="worst", **given)
    with pytest.raises(InputError, match="trial_seeds must be at most the number of seeds, 1, but got 99"):
        tuning_methods(base, task, **{**given, "seeds": (1,), "trial_seeds": 99})
    with pytest.raises(InputError, match="all of them diverged"):
        tuning_methods(
            base, task, methods="full", rates={"full": [1e30]}, seeds=1, clip=None, **{**given, "steps": 12}
        )


def test_adapters_are_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    heard: list[str] = []
    given: dict[str, Any] = {"store": tmp_path / "s", "progress": lambda what, *_: heard.append(what)}
    with pytest.raises(MissingExtraError, match="the method lora must find peft"):
        tuning_methods(load(saved(tmp_path / "m")), cats.cats_task(32, 64), **given)
    assert not heard
