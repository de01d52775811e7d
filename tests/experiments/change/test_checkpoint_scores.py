"""A checkpoint is scored by its own head, or by the layer that training examples choose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import cats
from microtome.context import Context
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.experiments import layer_heads as headarms
from microtome.experiments.change.checkpoint_scores import Reading, Scoring, plan_scoring, score_checkpoint
from microtome.experiments.change.checkpoints import Checkpoint, find_checkpoints
from microtome.scores.table import find_score
from moving import parted, saved


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
            "Linear probes were fitted on 20 of 40 examples, sampled with seed 0: the vectors of more would "
            "not fit into memory.",
        )
        assert one.learned is not None
        assert len(one.learned) == 20
