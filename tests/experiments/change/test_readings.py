"""What is read at checkpoints: blocks of layers, heads and linear probes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cats
from microtome.comparison.structure import find_blocks
from microtome.context import Context
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.experiments import layer_heads as headarms
from microtome.experiments.change.checkpoints import Checkpoint, find_checkpoints
from microtome.experiments.change.readings import (
    Reading,
    Scoring,
    find_checkpoint_blocks,
    plan_scoring,
    score_checkpoint,
)
from microtome.scores.table import find_score
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


def readings_of(
    checkpoints: Sequence[Checkpoint], task: Any, context: Context, **options: Any
) -> tuple[Scoring, list[Reading]]:
    scoring = plan_scoring(checkpoints, task, **options)
    return scoring, [score_checkpoint(scoring, each, each.open(context), context) for each in checkpoints]


def test_probes_of_a_model_that_tells_cats_from_tea_and_of_one_that_cannot(tmp_path: Path) -> None:
    place = saved(tmp_path / "m")
    steps = {1: parted(place, 1.0, alike=True), 2: load(place)}
    task, heard = cats.cats_task(80, 40), []
    found = find_checkpoints(steps)
    context = Context(store=tmp_path / "s", device="cpu")
    scoring, readings = readings_of(found, task, context.reporting(lambda what, *_: heard.append(what)))
    sees = readings[1]
    assert scoring.split.name == "validation"
    assert [one.step for one in readings] == [1, 2]
    assert sees.by == "linear probe"
    assert sees.probes is not None
    assert len(sees.probes) == 3
    assert sees.layer is not None
    assert sees.answers is sees.probes[sees.layer - 1]
    score = find_score(task.main)
    values = []
    for one in readings:
        assert one.answers is not None
        assert one.heads is None
        values.append(score.compute(one.answers.predictions[0], one.answers.targets, task.labels))
    assert values[0] < 0.75
    assert values[1] > 0.95
    assert heard
    # Fitted once, they are in the store; fewer examples are other probes.
    again = readings_of(found, task, context)[1]
    assert again[1].answers == sees.answers
    few = readings_of(found, task, context, train_size=10)[1]
    assert few[1].probes != sees.probes
    assert [len(one.learned) for one in (few[1], sees) if one.learned is not None] == [10, 80]
    assert few[1].notes == sees.notes == ()
    with pytest.raises(
        InputError, match="train_size must be a whole number between 1 and 80, the size of cats"
    ):
        plan_scoring(found, task, train_size=81)


def test_another_split_can_be_read(tmp_path: Path) -> None:
    place = saved(tmp_path / "m")
    found = find_checkpoints({1: load(place), 2: parted(place, 1.0)})
    task = cats.cats_task(40, 20)
    context = Context(store=tmp_path / "s", device="cpu")
    scoring, readings = readings_of(found, task, context, split="train")
    assert scoring.split.name == "train"
    assert readings[0].answers is not None
    assert len(readings[0].answers.ids) == 40
    with pytest.raises(KeyError, match="split of cats"):
        plan_scoring(found, task, split="hidden")


def test_examples_that_memory_leaves_out_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = saved(tmp_path / "m")
    found = find_checkpoints({1: load(place), 2: parted(place, 1.0)})
    monkeypatch.setattr(headarms, "MOST", {"cpu": 3 * 32 * 4 * 20})
    context = Context(store=tmp_path / "s", device="cpu")
    for one in readings_of(found, cats.cats_task(40, 20), context)[1]:
        assert one.notes == (
            "Linear probes were fitted on a random sample of 20 of 40 examples (seed 0): the vectors of more "
            "would not fit into memory.",
        )
        assert one.learned is not None
        assert len(one.learned) == 20
