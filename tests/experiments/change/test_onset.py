"""The order of blocks and score is stated where it is known, and not where it is not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from microtome.errors import InputError
from microtome.experiments.change.onset import which_first
from microtome.findings.claims.render import evidence, headline
from microtome.randomness import generator

STEPS = (0, 10, 100, 1000, 10_000, 100_000)
RISE = np.array([0.5, 0.5, 0.5, 0.9, 0.9, 0.9])


def noise(size: float, units: int = 10, seed: int = 0) -> np.ndarray:
    """Errors of a standard error of about this size."""
    draws = generator(seed, "noise").standard_normal((len(STEPS), units))
    return size * draws / np.sqrt(units)


def told(evidence: Any, scores: Any = RISE, *, size: float = 0.02, **more: Any) -> Any:
    """As `which_first` on lower ends of margins, each less 0.5."""
    values = np.array(evidence, dtype=float) - 0.5
    return which_first(STEPS, values, noise(size), np.array(scores), noise(size / 2, 80, 1), **more)


def test_before_after_and_with() -> None:
    early, late = [0.1, 0.9, 1.0, 1.0, 1.1, 1.0], [0.1, 0.1, 0.1, 0.1, 0.1, 1.0]
    same = [0.1, 0.1, 0.1, 0.9, 1.0, 1.0]
    first = told(early)
    assert first.verdict == "before"
    assert first.block == pytest.approx(0.5)
    assert first.score == pytest.approx(2.5)
    assert first.difference == pytest.approx(-2.0)
    assert first.low <= first.difference <= first.high < 0
    claim = first.claim("accuracy")
    assert headline(claim) == "Blocks appear before the score rises."
    assert evidence(claim).startswith("A block is certain from between steps 0 and 10 on, and half of")
    assert told(late).verdict == "after"
    both = told(same)
    assert both.verdict == "with"
    assert "as far as the checkpoints can tell" in headline(both.claim("accuracy"))
    json.dumps(both.document(), allow_nan=False)
    assert told(early).document() == told(early).document()


def test_a_block_that_is_there_from_the_first_on_and_one_that_comes_and_goes() -> None:
    assert told([1.0] * 6).block == 0
    assert "certain from step 0 on" in evidence(told([1.0] * 6).claim("accuracy"))
    # What falls again is not there yet.
    assert told([1.0, 1.0, 0.1, 0.1, 0.1, 0.9]).block > 4


def test_wide_errors_leave_it_open() -> None:
    found = told([0.1, 0.1, 0.6, 0.7, 1.0, 1.2], size=0.25)
    assert found.verdict == "inconclusive"
    assert found.reason is None
    assert found.high - found.low > 1
    assert headline(found.claim("accuracy")).endswith("score rises is inconclusive.")


@pytest.mark.parametrize(
    ("evidence", "scores", "why"),
    [
        ([0.1] * 6, RISE, "no block is certain at the last checkpoint"),
        ([1.0] * 6, RISE[::-1], "the score does not rise significantly"),
        ([1.0] * 6, [0.5] * 6, "the score does not rise significantly"),
        ([np.nan] * 6, RISE, "blocks cannot be tested at some checkpoints"),
        ([1.0] * 6, [np.nan] * 6, "some checkpoints have no score"),
    ],
)
def test_what_is_not_there_has_no_order(evidence: Any, scores: Any, why: str) -> None:
    found = told(evidence, scores)
    assert found.verdict == "inconclusive"
    assert found.reason == why
    assert headline(found.claim("accuracy")).endswith(f"inconclusive: {why}.")


def test_two_checkpoints_and_other_shapes() -> None:
    two = np.array([0.1, 1.0]), np.zeros((2, 4)), np.array([0.1, 1.0]), np.zeros((2, 4))
    assert which_first((0, 1), *two).reason == "fewer than three checkpoints have no order to show"
    with pytest.raises(InputError, match="evidence must be one for each of 3 steps"):
        which_first((0, 1, 2), *two)


def test_the_interval_holds_as_often_as_it_promises() -> None:
    # Straight lines: the lower end is positive from place 2 on, and half of the gain is reached at 2.5.
    rng = generator(3, "coverage")
    evidence, scores = np.linspace(-0.4, 0.6, 6), np.linspace(0, 1, 6)
    hits, runs = 0, 200
    for run in range(runs):
        samples = [rng.standard_normal((n, 6)) * 0.25 + line for n, line in ((60, evidence), (60, scores))]
        means = [one.mean(0) for one in samples]
        errors = [(one - one.mean(0)).T / len(one) for one in samples]
        found = which_first(STEPS, means[0], errors[0], means[1], errors[1], draws=300, seed=run)
        hits += found.low <= -0.5 <= found.high
    assert 0.9 < hits / runs <= 1
