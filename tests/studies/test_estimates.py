"""Estimates name the device that they are for, and follow the speed of fine-tunings in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cats
import microtome as mt
import tiny
from microtome.studies import estimates
from microtome.studies.estimates import START, _update_seconds


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A store with two fine-tunings, and the seconds of one update, their median."""
    place = tmp_path_factory.mktemp("estimates")
    model = tiny.save_checkpoint(place / "bert", "bert")
    settings: dict[str, Any] = {"store": place / "s", "device": "cpu", "steps": 4, "batch": 8, "longest": 16}
    runs = [mt.finetune(mt.load(model), cats.cats_task(), seed=seed, **settings) for seed in (1, 2)]
    return place / "s", sum(run.course["seconds"] / run.course["updates"] for run in runs) / 2


def planned(device: str, store: Path) -> Any:
    table = {
        "models": {"bert": {"source": "someone/bert", "blocks": 12, "width": 768}},
        "tasks": {"rte": {"examples": 2_000, "tokens": 60}},
        "finetune": {"seeds": [1], "set": {"steps": 1_000, "batch": 32}},
        "device": device,
    }
    return mt.study(table).plan(store).estimate


def test_fine_tunings_in_the_store_scale_what_follows_from_sizes(
    tuned: tuple[Path, float], tmp_path: Path
) -> None:
    store, seconds = tuned
    alone, scaled = planned("cpu", tmp_path / "new"), planned("cpu", store)
    assert (alone.timed, scaled.timed, scaled.measured) == (0, 2, 0)
    assert (alone.updates, scaled.updates) == (1_000, 1_000)
    # The tiny model is slower than its size says, and so will others be.
    slower = seconds / _update_seconds("cpu", 3, 32, 64 * 8)
    assert scaled.hours / alone.hours == pytest.approx(slower, rel=1e-3)
    assert 3600 * alone.hours > START + 1_000 * _update_seconds("cpu", 12, 768, 60 * 32)
    assert "from sizes alone" in alone.sentence
    assert "from sizes and the speed of 2 fine-tunings here" in scaled.sentence


def test_those_of_another_device_are_left_out(tuned: tuple[Path, float], tmp_path: Path) -> None:
    assert planned("cuda", tuned[0]) == planned("cuda", tmp_path / "new")


GPU = {"gpus": 0.5}
ASSUMED = "(assumed, as the study names no device; from sizes alone)"


@pytest.mark.parametrize(
    ("more", "driver", "words"),
    [
        ({"device": "cpu"}, True, "of one CPU (from sizes alone)"),
        ({"device": "cuda"}, False, "of one GPU (from sizes alone)"),
        ({}, False, f"of one CPU {ASSUMED}"),
        ({}, True, f"of one GPU {ASSUMED}"),
        ({"resources": {"localize": GPU}}, False, f"of one GPU {ASSUMED}"),
    ],
)
def test_the_device_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], driver: bool, words: str
) -> None:
    monkeypatch.setattr(estimates, "DRIVER", tmp_path / ("." if driver else "version"))
    table = {"models": ["zoo:masked"], "experiments": {"localize": {"on": "hub:texts"}}, **more}
    estimate = mt.study(table).plan(tmp_path / "s").estimate
    assert words in estimate.sentence
    assert estimate.document()["device"] == ("cuda" if "GPU" in words else "cpu")
