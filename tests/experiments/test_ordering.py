"""The order of border and score is told where it is known, and not where it is not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from microtome.errors import InputError
from microtome.experiments.ordering import which_first
from microtome.randomness import generator

STEPS = (0, 10, 100, 1000, 10_000, 100_000)
RISE = np.array([0.5, 0.5, 0.5, 0.9, 0.9, 0.9])


def noise(size: float, units: int = 10, seed: int = 0) -> np.ndarray:
    """Errors of a standard error of about this size."""
    draws = generator(seed, "noise").standard_normal((len(STEPS), units))
    return size * draws / np.sqrt(units)


def told(contrasts: Any, scores: Any = RISE, *, size: float = 0.02, **more: Any) -> Any:
    values = np.array(contrasts, dtype=float)
    return which_first(STEPS, values, noise(size), np.array(scores), noise(size / 2, 80, 1), **more)


def test_before_after_and_with() -> None:
    early, late = [0.1, 0.9, 1.0, 1.0, 1.1, 1.0], [0.1, 0.1, 0.1, 0.1, 0.1, 1.0]
    same = [0.1, 0.1, 0.1, 0.9, 1.0, 1.0]
    first = told(early)
    assert first.verdict == "before"
    assert first.border == pytest.approx(0.5)
    assert first.score == pytest.approx(2.5)
    assert first.difference == pytest.approx(-2.0)
    assert first.low <= first.difference <= first.high < 0
    assert (
        "The border came before the score: the border stands from between steps 0 and 10 on"
        in first.sentence()
    )
    assert told(late).verdict == "after"
    both = told(same)
    assert both.verdict == "with"
    assert "as far as the checkpoints can tell" in both.sentence()
    json.dumps(both.document(), allow_nan=False)
    assert told(early).document() == told(early).document()


def test_a_border_that_stands_from_the_first_on_and_one_that_comes_and_goes() -> None:
    assert told([1.0] * 6).border == 0
    assert "stands from step 0 on" in told([1.0] * 6).sentence()
    # What falls again does not stand yet.
    assert told([1.0, 1.0, 0.1, 0.1, 0.1, 0.9]).border > 4


def test_wide_errors_leave_it_open() -> None:
    found = told([0.1, 0.1, 0.6, 0.7, 1.0, 1.2], size=0.25)
    assert found.verdict == "cannot be told"
    assert found.reason is None
    assert found.high - found.low > 1
    assert "cannot be told: the border stands from" in found.sentence()


@pytest.mark.parametrize(
    ("contrasts", "scores", "why"),
    [
        ([0.1] * 6, RISE, "no border stands at the last checkpoint"),
        ([1.0] * 6, RISE[::-1], "that the score rises at all is not sure"),
        ([1.0] * 6, [0.5] * 6, "that the score rises at all is not sure"),
        ([np.nan] * 6, RISE, "no border can be tested at some checkpoints"),
        ([1.0] * 6, [np.nan] * 6, "some checkpoints have no score"),
    ],
)
def test_what_is_not_there_has_no_order(contrasts: Any, scores: Any, why: str) -> None:
    found = told(contrasts, scores)
    assert found.verdict == "cannot be told"
    assert found.reason == why
    assert found.sentence().endswith(f"cannot be told: {why}.")


def test_a_large_contrast_with_larger_doubt_is_no_border() -> None:
    assert told([0.8] * 6, size=0.8).reason == "no border stands at the last checkpoint"


def test_two_checkpoints_and_other_shapes() -> None:
    two = np.array([0.1, 1.0]), np.zeros((2, 4)), np.array([0.1, 1.0]), np.zeros((2, 4))
    assert which_first((0, 1), *two).reason == "fewer than three checkpoints have no order to show"
    with pytest.raises(InputError, match="contrasts must be one for each of 3 steps"):
        which_first((0, 1, 2), *two)


def test_the_interval_holds_as_often_as_it_promises() -> None:
    # Straight lines: the border crosses the rule at place 2, and half of the gain is reached at 2.5.
    rng = generator(3, "coverage")
    contrasts, scores = np.linspace(0.1, 1.1, 6), np.linspace(0, 1, 6)
    hits, runs = 0, 200
    for run in range(runs):
        samples = [rng.standard_normal((n, 6)) * 0.25 + line for n, line in ((60, contrasts), (60, scores))]
        means = [one.mean(0) for one in samples]
        errors = [(one - one.mean(0)).T / len(one) for one in samples]
        found = which_first(STEPS, means[0], errors[0], means[1], errors[1], draws=300, seed=run)
        hits += found.low <= -0.5 <= found.high
    assert 0.9 < hits / runs <= 1
