"""Blocks of a checkpoint are those of `find_blocks`, with errors that checkpoints share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from microtome.comparison.structure import find_blocks
from microtome.encoders.loading import load
from microtome.experiments.change.checkpoint_blocks import find_checkpoint_blocks
from moving import parted, recorded_on, saved, sentences


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("base"), depth=8)


def test_planted_blocks_are_those_of_find_blocks(place: Path, tmp_path: Path) -> None:
    models = {"flat": parted(place, 1.0), "parted": parted(place, 30.0)}
    recorded = recorded_on(models, sentences(100), tmp_path)
    flat, high = (find_checkpoint_blocks(recorded, name) for name in models)
    assert not flat.finding.certain
    assert [(block.first, block.last) for block in high.finding.certain] == [(5, 8)]
    assert high.margin > 0 > flat.margin
    assert high.evidence > 0 > flat.evidence
    blocks = find_blocks(recorded.stack("parted"), clusters=recorded.clusters)
    assert blocks.best is not None
    assert high.margin == blocks.best.margin
    # One error a sentence: with their standard error the lower end follows for the binding pair.
    assert len(high.errors) == 100
    assert abs(high.errors.sum()) < 1e-6
    assert high.map.shape == (9, 9)
    # Rows of the first token have no layer 0, and layers keep their numbers.
    alone = recorded_on(models, sentences(100), tmp_path, rows="cls")
    assert alone.layers[0] == 1
    found = find_checkpoint_blocks(alone, "parted")
    assert [(block.first, block.last) for block in found.finding.certain][-1:] == [(5, 8)]
    assert found.finding.used == tuple(range(1, 9))


def test_what_cannot_be_tested_says_why(place: Path, tmp_path: Path) -> None:
    shallow = load(saved(tmp_path / "m"))
    small = recorded_on({"a": shallow}, sentences(60), tmp_path / "s", rows="cls")
    found = find_checkpoint_blocks(small, "a")
    assert found.finding.reason == "they need at least 4 layers with defined similarities, not 3"
    assert np.isnan(found.margin)
    assert np.isnan(found.evidence)
    assert found.map.shape == (3, 3)


def test_few_sentences_leave_blocks_uncertain(place: Path, tmp_path: Path) -> None:
    few = recorded_on({"a": parted(place, 30.0)}, sentences(4), tmp_path / "s")
    assert not find_checkpoint_blocks(few, "a").finding.certain


def test_layers_that_do_nothing_form_no_blocks(place: Path, tmp_path: Path) -> None:
    still = parted(place, 1.0)
    for part in (still.base.embeddings.LayerNorm, *still.blocks):
        for name, parameter in part.named_parameters():
            parameter.data[:] = 1.0 if name in ("weight",) or name.endswith("LayerNorm.weight") else 0.0
    recorded = recorded_on({"still": still}, sentences(60), tmp_path)
    found = find_checkpoint_blocks(recorded, "still")
    assert found.finding.blocks == ()
    assert found.margin == pytest.approx(0, abs=1e-6)
