"""Curves of runs: which runs are included, intervals over draws, and refusals before training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import cats
from microtome.context import Context
from microtome.errors import InputError
from microtome.experiments.run_curves import curves_of, curves_over_draws, failures, gather_points
from microtome.experiments.runs import Done, Run
from microtome.experiments.surgery.dropping import drop
from microtome.experiments.surgery.freezing import freeze
from microtome.experiments.surgery.permutation import permute
from microtome.experiments.surgery.reinitialization import reinit
from microtome.training.tuned import Failure

Encoders = Callable[..., Any]
TASK = cats.cats_task()
SPLIT = TASK.split("validation")


def done(x: int, seed: int, right: float, *, draw: int = 0, failure: Failure | None = None) -> Done:
    """A run that gets a share of examples right, always the same ones first."""
    known = round(right * len(SPLIT))
    answers = tuple(item.target if place < known else 1 - item.target for place, item in enumerate(SPLIT))
    return Done(
        run=Run(arm="arm", x=x, seed=seed, draw=draw),
        address=f"{x}/{draw}/{seed}",
        folder=Path(),
        answers=answers,
        score=known / len(SPLIT),
        failure=failure,
    )


def test_runs_with_one_answer_count_and_runs_that_diverged_do_not() -> None:
    same = Failure("collapsed", "every example of validation got the same answer")
    runs = [done(0, seed, 0.9, failure=same if seed == 1 else None) for seed in (1, 2)]
    runs += [done(1, 1, 0.5, failure=same), done(1, 2, 0.5, failure=same), done(1, 3, 0.8)]
    runs += [done(2, 1, 0.1, failure=Failure("diverged", "loss is nan at update 3")), done(2, 2, 0.7)]
    points = gather_points(runs, SPLIT, "arm")
    scores, differences = curves_of(
        points, TASK, points.at(0), axis="x", context=Context(), against="nothing"
    )
    np.testing.assert_allclose(scores.values, [0.9, 0.6, 0.7])
    np.testing.assert_allclose(differences.values, [0, -0.3, -0.2])
    assert "2 of 3 runs predict one class for every example, and are included" in str(scores.reasons[1])
    assert "1 of 2 runs was left out" in str(scores.reasons[2])
    told = failures(runs)
    assert told == (
        "arm 2, seed 1 is excluded: diverged: loss is nan at update 3.",
        "arm 0: 1 of 2 runs predicts one class for every example, and is included.",
        "arm 1: 2 of 3 runs predict one class for every example, and are included.",
    )


def test_more_seeds_do_not_narrow_what_few_draws_say() -> None:
    def curves(seeds: int) -> Any:
        runs = [done(0, seed, 0.9 + seed / 60) for seed in range(3)]
        shares = {1: 0.3, 2: 0.8}
        runs += [done(2, s, share, draw=d) for d, share in shares.items() for s in range(seeds)]
        points = gather_points(runs, SPLIT, "arm")
        found = curves_of(points, TASK, points.at(0), axis="x", context=Context(), against="nothing")
        return curves_over_draws(found, runs, TASK, "arm", 0)

    few, many = curves(1), curves(20)
    for one, other in zip(few, many, strict=True):
        assert other.unit == "example and draw"
        for name in ("values", "low", "high", "band_low", "band_high"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name))
    assert few[0].values[1] == pytest.approx(0.55)
    # Two draws that are far apart say next to nothing of their mean.
    assert few[0].high[1] - few[0].low[1] > 0.8
    assert few[1].values[0] == few[1].low[0] == 0


def test_bands_are_no_narrower_than_those_of_the_draws_alone() -> None:
    shares = {0: (0.9, 0.92, 0.95), 1: (0.7, 0.72, 0.78), 2: (0.3, 0.5, 0.8)}
    runs = [done(0, seed, share) for seed, share in enumerate(shares[0])]
    runs += [done(x, 0, share, draw=1 + d) for x in (1, 2) for d, share in enumerate(shares[x])]
    points = gather_points(runs, SPLIT, "arm")
    found = curves_of(points, TASK, points.at(0), axis="x", context=Context(), against="nothing")
    scores, _ = curves_over_draws(found, runs, TASK, "arm", 0)
    for x in (0, 1, 2):
        told = [one.score for one in runs if one.run.x == x]
        for level, low in ((0.975, scores.low), (1 - 0.025 / 3, scores.band_low)):
            assert low[x] <= max(0.0, np.mean(told) - stats.t.ppf(level, 2) * stats.sem(told)) + 1e-12


@pytest.mark.parametrize("experiment", [freeze, reinit, permute, drop])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"level": 95}, "level must be between 0 and 1, but got 95"),
        ({"seeds": 1.5}, r"seeds must be whole numbers, but got \(1\.5,\)"),
        ({"seeds": "12"}, r"seeds must be whole numbers, but got \('12',\)"),
    ],
)
def test_what_cannot_be_meant_is_refused_first(
    experiment: Any, given: Any, words: str, encoder_of: Encoders, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        experiment(encoder_of("bert"), TASK, store=tmp_path, **given)
    assert not list(tmp_path.iterdir())
