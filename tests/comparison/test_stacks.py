"""A comparison with certainty tells of each model whether its layers fall into blocks, and what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import microtome as mt
import tiny
from microtome.randomness import generator

WORDS = ["the", "cat", "sleeps", "on", "every", "mat", "don't", "reader", "likes", "long", "books"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    tiny.save_checkpoint(place / "deep", "bert", num_hidden_layers=7)
    tiny.save_checkpoint(place / "flat", "bert")
    # As `finetune` leaves it beside the weights.
    told = {"model": "deep", "task": "rte", "seeds": {"init": 1, "order": 1, "subset": 0}}
    tiny.save_checkpoint(place / "tuned", "bert", seed=1)
    (place / "tuned" / "run.json").write_text(json.dumps(told))
    rng = generator(0, "corpus")
    lines = [" ".join(rng.choice(WORDS, size=int(rng.integers(3, 9)))) for _ in range(40)]
    (place / "lines.txt").write_text("\n".join(lines) + "\n")
    return place


def compared(folder: Path, *names: str, **more: Any) -> Any:
    models = [mt.load(folder / name, name=name) for name in names]
    options = {"store": folder / "store", "certainty": True, "halves": 4, **more}
    return mt.compare(models, on=str(folder / "lines.txt"), **options)


def test_blocks_are_those_of_the_recorded_rows(folder: Path, tmp_path: Path) -> None:
    found = compared(folder, "deep", "flat")
    one, small = found.blocks
    assert (small.stack, small.finding.layers) == ("flat", 4)
    assert (one.stack, one.measure) == ("deep", "debiased_cka")
    assert one.names == tuple(f"deep/{k}" for k in range(8))
    acts = mt.extract(
        mt.load(folder / "deep", name="deep"), str(folder / "lines.txt"), store=folder / "store"
    )
    expected = mt.analysis.find_blocks(list(acts.layers), clusters=acts.rows.clusters)
    assert one.finding.best is not None
    assert expected.best is not None
    assert one.finding.best.margin == pytest.approx(expected.best.margin)
    assert [(b.first, b.last) for b in one.finding.certain] == [(b.first, b.last) for b in expected.certain]
    assert one.finding.best.interval is not None
    assert one.finding.best.interval.unit == "sentence"
    assert any(text.startswith("deep: ") for text in found.findings)
    found.save(tmp_path)
    back = mt.open(tmp_path).blocks[0]
    assert back.finding.sentence(back.names) == one.finding.sentence(one.names)
    assert back.names == one.names


@pytest.mark.parametrize("more", [{"certainty": False}, {"measures": "linear_cka"}])
def test_nothing_is_tested_that_was_not_asked_for(folder: Path, more: dict[str, Any]) -> None:
    found = compared(folder, "deep", **more)
    assert found.blocks == ()
    document = json.loads((_saved(found, folder / "plain") / "result.json").read_text())
    assert "blocks" not in document


def test_spectra_and_what_a_model_was_tuned_on_are_kept(folder: Path) -> None:
    found = compared(folder, "flat", "tuned", certainty=False)["debiased_cka"]
    assert [one["tuned"] for one in found.provenance["models"]] == [
        None,
        {"model": "deep", "task": "rte", "seed": 1},
    ]
    assert np.nansum(found.layers.left["spectrum"], axis=1) == pytest.approx(1.0, abs=1e-4)
    (folder / "tuned" / "run.json").write_text("{")
    again = compared(folder, "tuned", certainty=False)["debiased_cka"]
    assert again.provenance["models"][0]["tuned"] is None


def test_rows_that_are_let_go_leave_their_spectra(folder: Path) -> None:
    shared = {"certainty": False, "measures": "linear_cka"}
    kept, gone = (compared(folder, "flat", keep=keep, **shared)["linear_cka"] for keep in (True, False))
    np.testing.assert_allclose(gone.layers.left["spectrum"], kept.layers.left["spectrum"], atol=1e-5)


def _saved(found: Any, place: Path) -> Path:
    found.save(place)
    return place
