"""Whether blocks of layers appear before or after the score rises, along the checkpoints of one training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import must
from ...findings.claims.claim import Claim, Quantity
from ...inference.estimate import quantile
from ...inference.scoring import standard_error
from ...randomness import generator

Array = NDArray[np.float64]

DRAWS = 2_000
# Within so many checkpoints nobody can see which of two came first.
RESOLUTION = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """
    When a block became certain and when the score rose, on the series of checkpoints.

    Places are counted in checkpoints from 0, and lie between two of them where a straight line does.

    Parameters
    ----------
    verdict : {"before", "with", "after", "inconclusive"}
        Whether the blocks came before, with or after the score. "With" says that the two lie within one
        checkpoint of each other, which is all that can be seen.
    reason : str, optional
        Why it is inconclusive.
    steps : tuple of int
    block, score : float
        From where on some block is certain, and half of the score's final gain is kept; NaN where never.
    difference, low, high : float
        Block minus score, in checkpoints, with its interval; an end is infinite where no block may be there
        at all.
    level : float
    """

    verdict: Literal["before", "with", "after", "inconclusive"]
    reason: str | None = None
    steps: tuple[int, ...]
    block: float = math.nan
    score: float = math.nan
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    level: float

    def claim(self, score: str) -> Claim:
        """Claim which came first, by the name of the score."""
        difference = Quantity(
            value=self.difference,
            low=self.low,
            high=self.high,
            level=self.level,
            unit="sentence and example of one training",
        )
        return Claim(
            kind="onset",
            verdict="inconclusive" if self.verdict == "inconclusive" else "holds",
            score=score,
            estimate=None if self.reason else difference,
            facts={
                "order": self.verdict,
                "reason": self.reason,
                "steps": list(self.steps),
                "block": self.block,
                "score": self.score,
            },
        )

    def document(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


def which_first(
    steps: Sequence[int],
    evidence: Array,
    block_errors: Array,
    scores: Array,
    score_errors: Array,
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Order:
    """
    Find out whether blocks appear before the score rises.

    A block is there from the checkpoint on from which the lower end of its margin stays positive. Both curves
    are simulated many times with errors that are shared by all checkpoints, as the sentences and the examples
    are; the two are taken as independent of each other.

    Parameters
    ----------
    steps : sequence of int
    evidence : ndarray of shape (steps,)
        Lower end of the margin of the best run.
    block_errors : ndarray of shape (steps, units)
        What each sentence adds to the error of each.
    scores : ndarray of shape (steps,)
        Higher is better.
    score_errors : ndarray of shape (steps, units)
        What each example adds.
    level : float
    draws : int
    seed : int

    Returns
    -------
    Order
    """
    count = len(steps)
    for name, values in (("evidence", evidence), ("scores", scores)):
        if np.shape(values) != (count,):
            raise must(name, f"one for each of {count} steps", np.shape(values))
    facts: dict[str, Any] = {"steps": tuple(int(step) for step in steps), "level": level}
    half = (scores[0] + scores[-1]) / 2
    reason = _undecidable(evidence, scores, score_errors, level)
    if reason is not None:
        return Order(verdict="inconclusive", reason=reason, **facts)
    block, score = _from(evidence), _from(scores - half)
    rng = generator(seed, "which came first")
    simulated = [
        values + _draw(errors, draws, rng)
        for values, errors in ((evidence, block_errors), (scores, score_errors))
    ]
    places = np.array(
        [
            _from(first, never=math.inf) - _from(second - (second[0] + second[-1]) / 2, never=math.inf)
            for first, second in zip(*simulated, strict=True)
        ]
    )
    # Infinite on both sides: neither happened in this draw, so it says nothing.
    places = np.sort(places[~np.isnan(places)])
    tail = (1 - level) / 2
    low = float(places[int(tail * (len(places) - 1))])
    high = float(places[math.ceil((1 - tail) * (len(places) - 1))])
    verdict = "before" if high < 0 else "after" if low > 0 else "inconclusive"
    return Order(
        verdict="with" if low >= -RESOLUTION and high <= RESOLUTION else verdict,
        block=block,
        score=score,
        difference=block - score,
        low=low,
        high=high,
        **facts,
    )


def _undecidable(evidence: Array, scores: Array, score_errors: Array, level: float) -> str | None:
    if len(scores) < 3:
        return "fewer than three checkpoints have no order to show"
    if not np.isfinite(evidence).all():
        return "blocks cannot be tested at some checkpoints"
    if not np.isfinite(scores).all():
        return "some checkpoints have no score"
    if evidence[-1] <= 0:
        return "no block is certain at the last checkpoint"
    se = standard_error(score_errors[-1] - score_errors[0])
    rises = scores[-1] - scores[0] - quantile(level) * se > 0
    return None if rises else "the score does not rise significantly"


def _draw(errors: Array, draws: int, rng: np.random.Generator) -> Array:
    """Errors of all checkpoints together, shape (draws, steps)."""
    count = errors.shape[1]
    normal = rng.standard_normal((draws, count)) @ errors.T * math.sqrt(count / (count - 1))
    # The spread of few groups is uncertain.
    return normal / np.sqrt(rng.chisquare(count - 1, (draws, 1)) / (count - 1))


def _from(values: Array, *, never: float = math.nan) -> float:
    """
    Find the place from which on values stay above 0, between checkpoints by a straight line.

    Examples
    --------
    >>> _from(np.array([-1.0, 2.0, -1.0, 1.0, 3.0]))
    2.5
    >>> _from(np.array([1.0, 2.0])), _from(np.array([1.0, -2.0]))
    (0.0, nan)
    """
    below = np.flatnonzero(values <= 0)
    if not len(below):
        return 0.0
    last = int(below[-1])
    if last == len(values) - 1:
        return never
    return last + float(values[last] / (values[last] - values[last + 1]))
