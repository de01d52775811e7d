"""A rate is chosen for its score, and not for spoiling the training down to it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cats
from microtome.context import Context
from microtome.errors import InputError, UnknownNameError
from microtome.experiments.change.learning_rates import (
    check_match,
    check_methods,
    choose_rates,
    compare_methods,
    rates_of,
)
from microtome.experiments.change.tuning_methods import TuningMethods
from microtome.experiments.runs import Done, Run
from microtome.findings.claims.render import evidence, headline
from microtome.training.tuned import Failure


def done(way: str, rate: float, score: float, failure: str | None = None) -> Done:
    run = Run(arm=way, x=rate, seed=1)
    why = None if failure is None else Failure(failure)
    return Done(run=run, address=f"{way}{rate}", folder=Path(), answers=(), score=score, failure=why)


def test_the_rate_nearest_to_the_best_of_the_weakest_way() -> None:
    task = cats.cats_task()
    tried = [
        done("full", 1e-5, 0.6),
        done("full", 1e-4, 0.72),
        done("full", 1e-3, 0.9),
        # Above the best rate, and so no match however near it comes.
        done("full", 1e-2, 0.7),
        done("head", 1e-2, 0.65),
        done("head", 1e-1, 0.7),
        done("lora", 1e-3, 0.7, "collapsed: every example got the same answer"),
        done("lora", 1e-4, 0.8),
        done("bitfit", 1e-3, float("nan"), "diverged: the loss is no number"),
    ]
    found = choose_rates(tried, task)
    assert {name: way.rate for name, way in found.items() if way.tried} == {
        "full": 1e-4,
        "head": 1e-1,
        "lora": 1e-4,
    }
    assert found["full"].target == found["lora"].target == pytest.approx(70)
    assert found["bitfit"].tried == {}
    best = choose_rates(tried, task, "best")
    assert (best["full"].rate, best["full"].target) == (1e-3, pytest.approx(90))
    assert choose_rates(tried, task, 61)["full"].rate == 1e-5


def test_rates_are_multiples_of_the_recipe_unless_given() -> None:
    experiment = TuningMethods(
        model="m",
        task="t",
        methods=("full", "head"),
        rates={"head": [1.0]},
        seeds=(4, 5, 6),
        trial_seeds=2,
        changes={"rate": 2e-5},
    )
    runs = experiment.grid(None)
    assert [(run.arm, run.x, run.seed) for run in runs] == [
        # The rate that all seeds are trained with is not known yet.
        *(("full", 2e-5 * 0.25, seed) for seed in (4, 5, 6)),
        *(("full", 2e-5 * times, seed) for times in (0.5, 1.0) for seed in (4, 5)),
        *(("head", 1.0, seed) for seed in (4, 5, 6)),
    ]
    assert runs[0].options["method"] == "full"
    with pytest.raises(UnknownNameError, match="methods must be one of bitfit, full, head, lora"):
        TuningMethods(model="m", task="t", methods="prefix")
    with pytest.raises(InputError, match="rates of full must be numbers above 0, but got 0"):
        rates_of("full", {"full": [0]}, 1e-5)
    with pytest.raises(InputError, match="methods must be one or more, each once"):
        check_methods(("full", "full"), {})
    with pytest.raises(UnknownNameError, match="method of rates"):
        check_methods(("full",), {"lora": [1.0]})


def test_where_every_rate_collapsed_one_is_taken_all_the_same() -> None:
    tried = [
        done("lora", 1e-3, 0.5, "collapsed: one answer"),
        done("lora", 1e-4, 0.4, "collapsed: one answer"),
    ]
    assert choose_rates(tried, cats.cats_task())["lora"].rate == 1e-3


def test_scores_that_stay_apart_are_told() -> None:
    task = cats.cats_task()
    right = [item.target for item in task.split("validation")]
    wrong = [1 - each for each in right]
    ways: dict[str, Any] = choose_rates([done("full", 1e-3, 1.0), done("head", 1e-2, 0.5)], task)

    def answered(name: str, answers: list[int], score: float) -> Any:
        run = Run(arm=name, x=1.0, seed=1)
        return Done(run=run, address=name, folder=Path(), answers=tuple(answers), score=score)

    half = [*right[:30], *wrong[30:]]
    found = {
        "full": replace(ways["full"], done=(answered("full", right, 1.0),)),
        "head": replace(ways["head"], done=(answered("head", half, 0.5),)),
        "lora": replace(ways["head"], name="lora", done=()),
    }
    told, matched = compare_methods(task, found, Context())
    assert told["full"]["apart"] is None
    assert told["head"]["apart"]["value"] == pytest.approx(-50)
    assert told["head"]["apart"]["high"] < 0
    assert math.isnan(told["lora"]["score"])
    n = len(right)
    assert (matched.kind, matched.verdict, matched.n) == ("matched scores", "does not hold", n)
    assert matched.estimate is not None
    assert matched.estimate.value == pytest.approx(50)
    assert list(matched.beside) == [
        "full at rate 0.001",
        "head at rate 0.01",
        "head minus full",
        "majority baseline",
    ]
    assert matched.beside["majority baseline"].value == pytest.approx(100 * 29 / 60)
    assert headline(matched).endswith(
        "not matched, they lie 50.0 points of accuracy apart: what differs between full and head may be due "
        "to the score."
    )
    assert evidence(matched).startswith(
        "Largest difference: 50.0 points, without an interval; full at rate 0.001: 1.000 ["
    )
    # Wilson's interval of half of them, by hand.
    z = 1.959964
    arm = 100 * z * math.sqrt(0.25 / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    assert told["head"]["low"] == pytest.approx(50 - arm, abs=0.01)
    assert told["head"]["high"] == pytest.approx(50 + arm, abs=0.01)
    assert told["lora"]["low"] is None
    assert matched.beside["head minus full"].value == pytest.approx(-50)
    few = [*right[:20], *wrong[20:]]
    poor = {name: replace(found[name], done=(answered(name, few, 20 / 60),)) for name in ("full", "head")}
    matched = compare_methods(task, poor, Context())[1]
    assert (matched.verdict, matched.facts["learned"]) == ("holds", False)
    assert headline(matched).startswith("No tuning method scores above the majority baseline: nothing was")


def test_what_scores_are_matched_to() -> None:
    assert check_match("weakest") == "weakest"
    assert check_match(80) == 80
    for bad in ("worst", True, math.nan, None):
        with pytest.raises(InputError, match="match must be 'weakest', 'best' or a score in points"):
            check_match(bad)
