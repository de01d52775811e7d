"""Simultaneous confidence bands for the scores of all points of a curve.

A pointwise interval holds for its point only: of 78 intervals at the 95 % level, four miss on average. A band
extends to either side by a quantile of the largest of all standardized errors, and never leaves the range of
the score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import must
from ..scores.declare import Score
from ..scores.table import find_score
from .answers import Answers, aligned
from .estimate import Confidence
from .pairing import bonett_price, correct_examples
from .scoring import ScoredExamples, example_groups, wilson
from .simultaneous import Spread, band_arms, critical_value, spread

Array = NDArray[np.float64]

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bands:
    """
    Scores, or differences of scores, at several points, with intervals and a band.

    Parameters
    ----------
    values : ndarray of shape (points,)
        Means over seeds.
    low, high : ndarray of shape (points,)
        Pointwise intervals; NaN where the spread cannot be estimated.
    band_low, band_high : ndarray of shape (points,)
        Simultaneous band over all points.
    se, dof : ndarray of shape (points,)
        Standard errors on the scale of the score, and the degrees of freedom of the t intervals.
    critical : float
        Half-width of the band in standard errors, the largest of all points; NaN where no point has one.
    level : float
    unit : str
        What was treated as independent.
    n : int
        Number of examples.
    seeds : tuple of int
        Number of seeds of each point.
    reasons : tuple of (str or None)
        Why a point has no interval, or a remark about it.
    """

    values: Array
    low: Array
    high: Array
    band_low: Array
    band_high: Array
    se: Array
    dof: Array
    critical: float
    level: float
    unit: str
    n: int
    seeds: tuple[int, ...]
    reasons: tuple[str | None, ...]


class _BandPoint(NamedTuple):
    """One point: its error, the influence of each unit (None: exact), and its limits by arm and reach."""

    value: float
    spread: Spread
    psi: Array | None
    limits: Callable[[float, float], tuple[float, float]] | None
    seeds: int
    reason: str | None


def score_bands(
    score: str | Score | Iterable[str | Score],
    points: Sequence[Answers],
    labels: Sequence[str] = (),
    *,
    level: float = 0.95,
    pair_seeds: bool = True,
    seed: int = 0,
) -> Bands:
    """
    Score several models, or truncations of one model, on the same examples, with a band over all of them.

    Parameters
    ----------
    score : str, Score or several
        Of several scores the mean is taken.
    points : sequence of Answers
        To the same examples, in any order. Their seeds may differ in number.
    labels : sequence of str
    level : float
    pair_seeds : bool
        Whether all points share their seeds, as when one tuned model is truncated at several layers. False
        for models that were trained separately, whose errors from seeds are not shared.
    seed : int
        Of the simulated errors.

    Returns
    -------
    Bands

    Notes
    -----
    One seed: Wilson's interval for a proportion of independent examples; otherwise t on a scale on which the
    score is unbounded. Several seeds: V = V_seeds + V_examples - V_both, as in `compare_scores`. The band
    uses the same scale. Its critical value is a quantile of the largest |t|, with the correlation of the
    points' influence; V_seeds of a point counts as no less than half of that of a typical one. See
    `band_arms`.

    Examples
    --------
    >>> ids, right = [str(i) for i in range(8)], [1] * 8
    >>> layers = [Answers(ids=ids, targets=right, predictions=[[1] * k + [0] * (8 - k)]) for k in (2, 4, 7)]
    >>> found = score_bands("accuracy", layers)
    >>> found.values.tolist(), found.low.round(2).tolist(), found.band_low.round(2).tolist()
    ([0.25, 0.5, 0.875], [0.07, 0.22, 0.53], [0.04, 0.14, 0.37])
    """
    confidence = Confidence(level=level, pair_seeds=pair_seeds, seed=seed)
    examples, points = _read(score, points, labels)
    return _bands(examples, [_score_point(examples, answers, confidence) for answers in points], confidence)


def difference_bands(
    score: str | Score | Iterable[str | Score],
    points: Sequence[Answers],
    reference: Answers,
    labels: Sequence[str] = (),
    *,
    level: float = 0.95,
    pair_seeds: bool = True,
    seed: int = 0,
) -> Bands:
    """
    Subtract the score of one reference from the scores of several points, with a band over all of them.

    Parameters
    ----------
    score : str, Score or several
        Of several scores the mean is taken.
    points : sequence of Answers
        To the same examples as those of the reference, in any order. A point that is the reference itself
        differs by exactly 0.
    reference : Answers
    labels : sequence of str
    level : float
    pair_seeds : bool
        Whether a seed of a point is paired with the same seed of the reference, as with a tuned model and
        its truncation. Seeds that only one of the two has are left out.
    seed : int
        Of the simulated errors.

    Returns
    -------
    Bands
        Pointwise intervals are those of `compare_scores`.
    """
    confidence = Confidence(level=level, pair_seeds=pair_seeds, seed=seed)
    examples, (first, *others) = _read(score, [reference, *points], labels)
    side = _Reference(first, examples.influences_of(first), examples.values_of(first))
    estimates = [
        # The reference itself is not an estimate: it has no error and is left out of the band.
        _BandPoint(
            0.0, Spread.of_examples(0.0, examples.dof), None, lambda *_: (0.0, 0.0), len(side.values), None
        )
        if point is reference
        else _difference_point(examples, answers, side, confidence)
        for point, answers in zip(points, others, strict=True)
    ]
    return _bands(examples, estimates, confidence)


def _read(
    score: str | Score | Iterable[str | Score], points: Sequence[Answers], labels: Sequence[str]
) -> tuple[ScoredExamples, list[Answers]]:
    metric = find_score(score)
    if not points:
        raise must("the number of points", "at least 1", 0)
    first = points[0]
    n = len(first.ids)
    examples = ScoredExamples(score=metric, labels=labels, n=n, clusters=example_groups(first.groups, n))
    if n < 2:
        raise must("the number of examples to compare on", "at least 2", n)
    return examples, [_same_examples(first, answers) for answers in points]


def _same_examples(first: Answers, answers: Answers) -> Answers:
    if answers is first or (answers.targets is first.targets and list(answers.ids) == list(first.ids)):
        return answers
    return aligned(first, answers)


def _undefined(examples: ScoredExamples, answers: Answers) -> tuple[int, str | None]:
    """Number of seeds whose score is undefined, and the remark on them."""
    reasons, seeds = examples.undefined_in(answers), len(answers.predictions)
    if not reasons:
        return 0, None
    where = "" if len(reasons) == seeds else f" for {len(reasons)} of {seeds} seeds"
    return len(reasons), f"{examples.score.name} is undefined and counts as 0{where}: {reasons[0]}"


def _score_point(examples: ScoredExamples, answers: Answers, confidence: Confidence) -> _BandPoint:
    score, values, psi = examples.score, examples.values_of(answers), examples.influences_of(answers)
    value, error = float(values.mean()), spread([psi], [values], examples.dof)
    count, reason = _undefined(examples, answers)
    share = examples.shares and len(values) == 1
    if share:
        error = replace(error, dof=np.inf)

    def limits(arm: float, reach: float) -> tuple[float, float]:
        if share:
            return wilson(value, examples.units, _level(reach))
        if error.se == 0 or any(abs(value - end) < _ROUNDING for end in score.range):
            arm = _unseen(examples, answers, reach)
            return _within(score.range, value - arm, value + arm)
        return _on_scale(score, value, arm)

    has_limits = count < len(values) and np.isfinite(_alone(limits, error, confidence)).all()
    if not has_limits and reason is None:
        reason = f"every {examples.unit} has the same outcome, which gives no interval"
    return _BandPoint(value, error, psi.mean(axis=0), limits if has_limits else None, len(values), reason)


class _Reference(NamedTuple):
    """The answers of a reference, the influence of the units on its scores, and the scores."""

    answers: Answers
    psi: Array
    values: Array

    def take(self, seeds: Sequence[int]) -> _Reference:
        """Some of its seeds."""
        return _Reference(self.answers.take(seeds), self.psi[seeds], self.values[seeds])


def _difference_point(
    examples: ScoredExamples, answers: Answers, reference: _Reference, confidence: Confidence
) -> _BandPoint:
    score = examples.score
    if confidence.pair_seeds:
        point_seeds, reference_seeds = _pairs(answers, reference.answers)
        if not point_seeds:
            reason = "no seed has both a sound run and its reference"
            return _BandPoint(float("nan"), Spread.of_examples(float("nan"), np.inf), None, None, 0, reason)
        answers, reference = answers.take(point_seeds), reference.take(reference_seeds)
    psi = [examples.influences_of(answers), reference.psi]
    values = [examples.values_of(answers), reference.values]
    error = spread(psi, values, examples.dof, pair_seeds=confidence.pair_seeds)
    value = center = float(values[0].mean() - values[1].mean())
    _, reason = _undefined(examples, answers)
    if examples.shares and max(map(len, values)) == 1:
        sides = (answers, reference.answers)
        center, se = bonett_price([correct_examples(examples, side) for side in sides])
        error = Spread.of_examples(se, np.inf)
    widest = score.range[1] - score.range[0]

    def limits(arm: float, reach: float) -> tuple[float, float]:
        if error.se == 0 and value == 0:
            arm = _unseen(examples, reference.answers, reach)
        return _within((-widest, widest), center - arm, center + arm)

    has_limits = np.isfinite(_alone(limits, error, confidence)).all() and (error.se > 0 or value == 0)
    if not has_limits and reason is None:
        reason = f"every {examples.unit} has the same outcome, which gives no interval"
    mean = psi[0].mean(axis=0) - psi[1].mean(axis=0)
    return _BandPoint(value, error, mean, limits if has_limits else None, min(map(len, values)), reason)


def _pairs(answers: Answers, reference: Answers) -> tuple[list[int], list[int]]:
    """Indices of the seeds that both sides have."""
    if len(answers.predictions) == len(reference.predictions) == 1 and not (
        answers.seeds and reference.seeds
    ):
        return [0], [0]
    if not (len(answers.seeds) and len(reference.seeds)):
        raise must(
            "seeds to pair", "named on both sides", f"{list(answers.seeds)} and {list(reference.seeds)}"
        )
    reference_positions = {name: index for index, name in enumerate(reference.seeds)}
    pairs = [
        (index, reference_positions[name])
        for index, name in enumerate(answers.seeds)
        if name in reference_positions
    ]
    return [index for index, _ in pairs], [reference_index for _, reference_index in pairs]


def _unseen(examples: ScoredExamples, answers: Answers, reach: float) -> float:
    """Half-width of the interval of a score without observed spread; NaN where it is not defined."""
    targets = answers.targets
    extremes = [examples.past_the_end(seed, targets, reach) for seed in answers.predictions]
    return float(np.mean(np.abs(examples.values_of(answers) - extremes)))


def _on_scale(score: Score, value: float, arm: float) -> tuple[float, float]:
    """Apply an arm on the scale on which the score is unbounded; see `microtome.inference.scoring`."""
    from scipy.special import expit, logit

    bottom, top = score.range
    if np.isinf(top):
        with np.errstate(over="ignore"):  # an unbounded interval is valid
            return max(bottom, value * float(np.exp(-arm / value))), value * float(np.exp(arm / value))
    share = (value - bottom) / (top - bottom)
    reach = arm / ((top - bottom) * share * (1 - share))
    low, high = (bottom + (top - bottom) * float(expit(logit(share) + sign * reach)) for sign in (-1, 1))
    return low, high


def _within(ends: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    """Clip an interval to a range; NaN is kept."""
    return float(np.clip(low, *ends)), float(np.clip(high, *ends))


def _alone(
    limits: Callable[[float, float], tuple[float, float]], error: Spread, confidence: Confidence
) -> tuple[float, float]:
    """Pointwise interval of one point."""
    return limits(error.arm(confidence.reach), confidence.reach(error.dof))


def _level(reach: float) -> float:
    """Level of a normal interval of the given number of standard errors, below 1."""
    from scipy.special import erf

    return min(float(erf(reach / np.sqrt(2))), 1 - 1e-15)


def _bands(examples: ScoredExamples, points: Sequence[_BandPoint], confidence: Confidence) -> Bands:
    undefined = (float("nan"), float("nan"))
    intervals = [
        _alone(point.limits, point.spread, confidence) if point.limits else undefined for point in points
    ]
    bands = list(intervals)
    varying = [
        (index, point.psi)
        for index, point in enumerate(points)
        if point.limits is not None and point.psi is not None
    ]
    critical = float("nan")
    if varying:
        psi, errors = np.stack([psi for _, psi in varying]), [points[index].spread for index, _ in varying]
        # Wilson's interval uses z, which is too small for the largest of many errors on few examples.
        most = np.inf if len(varying) == 1 else examples.dof
        arms = band_arms(errors, psi, confidence, most=most)
        least = min(most, *(error.dof for error in errors))
        critical = reach = critical_value(psi, least, confidence)
        for (index, _), arm, error in zip(varying, arms.tolist(), errors, strict=True):
            limits = points[index].limits
            assert limits is not None
            bands[index] = limits(arm, reach)
            critical = max(critical, arm / error.se) if error.se > 0 else critical
    ends = np.array(intervals), np.array(bands)
    return Bands(
        values=np.array([point.value for point in points]),
        low=ends[0][:, 0],
        high=ends[0][:, 1],
        band_low=ends[1][:, 0],
        band_high=ends[1][:, 1],
        se=np.array([point.spread.se for point in points]),
        dof=np.array([point.spread.freedom(confidence) for point in points]),
        critical=critical,
        level=confidence.level,
        unit=f"{examples.unit} and seed" if max(point.seeds for point in points) > 1 else examples.unit,
        n=examples.n,
        seeds=tuple(point.seeds for point in points),
        reasons=tuple(point.reason for point in points),
    )
