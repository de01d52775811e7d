"""Checkpoints of a training are found in the order of their steps, however they are handed over."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cats
import tiny
from microtome.context import Context
from microtome.encoders.loading import load
from microtome.encoders.series import series
from microtome.errors import InputError
from microtome.experiments.change.checkpoints import find_checkpoints, missing_checkpoints
from microtome.experiments.change.trajectory import trajectory
from microtome.training.finetuning import finetune
from microtome.zoo.designs import find_design
from microtome.zoo.pretraining import pretrain
from microtome.zoo.text import read_text
from zoo.test_text import written

Encoders = Callable[..., Any]
CPU = Context(device="cpu")


def test_a_folder_of_steps_as_pretraining_leaves_it(tmp_path: Path) -> None:
    for step in (20, 5):
        tiny.save_checkpoint(tmp_path / f"step-{step}", "bert", seed=step)
    found = find_checkpoints(tmp_path)
    assert [one.step for one in found] == [5, 20]
    assert [one.name for one in found] == ["step 5", "step 20"]
    assert not any(one.tuned for one in found)
    tiny.save_checkpoint(tmp_path, "bert", seed=40)
    (tmp_path / "pretraining.json").write_text(json.dumps({"updates": 40}))
    last = find_checkpoints(tmp_path)[-1]
    assert last.step == 40
    assert last.open(CPU).digest == load(tmp_path).digest
    first = find_checkpoints(tmp_path, start=tmp_path / "step-5")[0]
    assert (first.step, first.open(CPU).digest) == (0, found[0].open(CPU).digest)
    # The last state may be among the steps already.
    (tmp_path / "pretraining.json").write_text(json.dumps({"updates": 20}))
    assert [one.step for one in find_checkpoints(tmp_path)] == [5, 20]
    assert [one.step for one in find_checkpoints(series(tmp_path))] == [5, 20]


@pytest.mark.parametrize("updates", [None, "x", float("inf"), float("nan"), {}, [3], 2.5])
def test_a_record_of_pretraining_that_was_changed(tmp_path: Path, updates: Any) -> None:
    tiny.save_checkpoint(tmp_path / "step-5", "bert")
    tiny.save_checkpoint(tmp_path, "bert")
    for record in ({"updates": updates}, {"loss": 3}):
        (tmp_path / "pretraining.json").write_text(json.dumps(record))
        with pytest.raises(InputError, match=r"pretraining\.json must be as microtome wrote it"):
            find_checkpoints(tmp_path)


def test_what_pretraining_wrote(tmp_path: Path) -> None:
    text = read_text(written(tmp_path), vocabulary=60)
    shape = {"layers": 2, "width": 32, "heads": 2, "inner": 64, "length": 24, "batch": 4, "steps": 6}
    run = pretrain(find_design("masked", **shape), text, tmp_path / "run", checkpoints=[2, 4])
    found = find_checkpoints(run.folder)
    assert [one.step for one in found] == [2, 4, 6]
    assert len({one.open(CPU).digest for one in found}) == 3
    result = trajectory(run.folder, ["the red cat runs", "a blue dog", "never"] * 25, store=tmp_path / "s")
    assert result.more["steps"] == [2, 4, 6]
    assert result.model == "run"
    assert result.curves[0].values[0] == 1 > result.curves[0].values[-1]


def test_a_fine_tuning_that_kept_checkpoints(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), cats.cats_task(32, 20)
    given: dict[str, Any] = {**cats.QUICK, "steps": 6, "store": tmp_path / "s"}
    tuned, store = (
        finetune(encoder, task, "wu2020", checkpoints=[2, 4], **given),
        Context(store=tmp_path / "s"),
    )
    for handed in (tuned, tuned.folder):
        found = find_checkpoints(handed, store, start=encoder)
        assert [one.step for one in found] == [0, 2, 4, 6]
        assert [one.tuned for one in found] == [False, True, True, True]
        assert len({one.open(CPU).digest for one in found}) == 4
    with pytest.raises(InputError, match="must be in the store"):
        find_checkpoints(tuned.folder, Context(store=tmp_path / "elsewhere"))


@pytest.mark.parametrize(("kept", "lost", "left"), [
    ([2, 4, 5], [0], "those of step 2"),
    ([2, 4, 5], [0, 2], "those of steps 2, 5"),
    ("epochs", [1], "those of step 4"),
])  # fmt: skip
def test_checkpoints_that_are_gone_are_named(
    encoder_of: Encoders, tmp_path: Path, kept: Any, lost: list[int], left: str
) -> None:
    given: dict[str, Any] = {**cats.QUICK, "steps": 6, "store": tmp_path / "s"}
    tuned = finetune(encoder_of("bert"), cats.cats_task(32, 20), "wu2020", checkpoints=kept, **given)
    store = Context(store=tmp_path / "s")
    assert missing_checkpoints(tuned.folder, store) == ()
    for place in lost:
        shutil.rmtree(tuned.checkpoints[place])
    for handed in (tuned, tuned.folder):
        (said,) = missing_checkpoints(handed, store)
        assert said.endswith(f"left out: {left}.")
        found = [one.step for one in find_checkpoints(handed, store)]
        assert len(found) == len(tuned.checkpoints) + (kept != "epochs") - len(lost)
    result = trajectory(tuned, ["the red cat runs", "a blue dog", "never"] * 25, store=tmp_path / "s")
    assert result.warnings[0] == said


def test_the_start_stands_for_step_0_alone(encoder_of: Encoders, tmp_path: Path) -> None:
    one = encoder_of("bert")
    with pytest.raises(InputError, match="start must be left out where a checkpoint is of step 0"):
        find_checkpoints({0: one, 3: one}, start=one)
    assert missing_checkpoints({0: one, 3: one}) == missing_checkpoints(tmp_path) == ()


def test_encoders_by_their_steps(encoder_of: Encoders) -> None:
    one = encoder_of("bert")
    assert [each.step for each in find_checkpoints({7: one, 3: one})] == [3, 7]
    with pytest.raises(InputError, match="at least two checkpoints, but got '1 in dict'"):
        find_checkpoints({3: one})
    with pytest.raises(InputError, match="a step must be a whole number of at least 0, but got 'a'"):
        find_checkpoints({"a": one, "b": one})
    with pytest.raises(InputError, match="checkpoints must be a folder"):
        find_checkpoints(3)
