"""Is the mean of seeds that of the sound ones, with the interval that grids give the same runs?"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from microtome.errors import InputError
from microtome.findings.scorecurves import score_curve
from microtome.randomness import generator
from microtome.tasks.task import Item, Split, Task
from microtome.training.cut_store import as_answers
from microtome.training.evaluating import score_answers
from microtome.training.tuned import Failure, over_seeds


def task_of(n: int = 80) -> Task:
    items = tuple(Item(id=str(k), texts=("a",), target=k % 2) for k in range(n))
    splits = {"validation": Split(name="validation", items=items)}
    return Task(
        name="mine",
        title="Mine",
        kind="classification",
        labels=("no", "yes"),
        scores=("accuracy",),
        main=("accuracy",),
        readers={name: partial(splits.__getitem__, name) for name in splits},
        source="memory",
    )


def runs_of(task: Any, *shares: float) -> list[Any]:
    split = task.split("validation")
    runs = []
    for seed, share in enumerate(shares):
        wrong = set(generator(seed, "wrong").permutation(len(split))[round(share * len(split)) :].tolist())
        answers = tuple(1 - item.target if k in wrong else item.target for k, item in enumerate(split))
        evaluation = score_answers(task, split, answers)
        runs.append(
            SimpleNamespace(
                evaluation=evaluation,
                predictions=answers,
                score=evaluation.score,
                seeds=SimpleNamespace(order=seed),
                failure=None,
                task=task.name,
            )
        )
    return runs


def test_the_interval_is_that_of_a_curve_of_the_same_runs() -> None:
    task = task_of()
    runs, split = runs_of(task, 0.8, 0.9, 0.85), task.split("validation")
    points = [as_answers(split, [run.predictions for run in runs], (0, 1, 2))]
    curve = score_curve("bottom", (0,), points, task.main, task.labels, axis="blocks frozen", level=0.9)
    mean = over_seeds(runs, level=0.9)
    assert (mean.value, mean.low, mean.high) == (curve.values[0], curve.low[0], curve.high[0])
    assert mean.interval is not None
    assert (mean.interval.unit, mean.interval.level, mean.n) == (curve.unit, 0.9, 80)
    assert mean.interval.unit == "example and seed"
    assert mean.value == pytest.approx(0.85)


def test_one_seed_has_the_interval_of_its_own_score() -> None:
    [run] = runs_of(task_of(), 0.8)
    mean = over_seeds([run])
    assert (mean.low, mean.high) == pytest.approx((run.score.low, run.score.high))


def test_failed_runs_are_left_out_and_named() -> None:
    runs = runs_of(task_of(), 0.8, 0.9, 0.5)
    runs[2].failure = Failure("collapsed", "one answer")
    mean = over_seeds(runs)
    assert mean.value == pytest.approx(0.85)
    assert mean.warnings == ("1 of 3 runs was left out: seed 2 (collapsed: one answer).",)
    for run in runs:
        run.failure = Failure("collapsed", "one answer")
    mean = over_seeds(runs)
    assert np.isnan(mean.value)
    assert str(mean) == "accuracy undefined: all 3 runs failed"


def test_one_example_gives_a_mean_without_an_interval() -> None:
    mean = over_seeds(runs_of(task_of(1), 1.0, 1.0))
    assert (mean.value, mean.interval) == (1.0, None)


def test_runs_on_other_examples_have_no_mean() -> None:
    with pytest.raises(InputError, match="runs must be scored on the same examples"):
        over_seeds([*runs_of(task_of(), 0.8), *runs_of(task_of(60), 0.8)])
