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
from .clusters import Clusters
from .estimate import quantile
from .scoring import (
    example_groups,
    freedom,
    past_the_end,
    unit_influence,
    unit_of,
    wilson,
)
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
    metric, points, clusters = _read(score, points, level)
    estimates = [_score_point(metric, answers, labels, clusters, level) for answers in points]
    return _bands(estimates, points[0], clusters, level, seed, pair_seeds=pair_seeds)


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
    metric, aligned_answers, clusters = _read(score, [reference, *points], level)
    reference_answers, dof = aligned_answers[0], freedom(clusters, len(reference.ids))
    reference_terms = (
        _influence(metric, reference_answers, labels, clusters),
        _values(metric, reference_answers, labels),
    )
    estimates = [
        # The reference itself is not an estimate: it has no error and is left out of the band.
        _BandPoint(
            0.0,
            Spread.of_examples(0.0, dof),
            None,
            lambda *_: (0.0, 0.0),
            len(reference_answers.predictions),
            None,
        )
        if point is reference
        else _difference_point(
            metric,
            answers,
            reference_answers,
            reference_terms,
            labels,
            clusters,
            level,
            pair_seeds=pair_seeds,
        )
        for point, answers in zip(points, aligned_answers[1:], strict=True)
    ]
    return _bands(estimates, reference_answers, clusters, level, seed, pair_seeds=pair_seeds)


def _read(
    score: str | Score | Iterable[str | Score], points: Sequence[Answers], level: float
) -> tuple[Score, list[Answers], Clusters | None]:
    metric = find_score(score)
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    if not points:
        raise must("the number of points", "at least 1", 0)
    first = points[0]
    clusters = example_groups(first.groups, len(first.ids))
    if len(first.ids) < 2:
        raise must("the number of examples to compare on", "at least 2", len(first.ids))
    return metric, [_same_examples(first, answers) for answers in points], clusters


def _same_examples(first: Answers, answers: Answers) -> Answers:
    if answers is first or (answers.targets is first.targets and list(answers.ids) == list(first.ids)):
        return answers
    return aligned(first, answers)


def _values(score: Score, answers: Answers, labels: Sequence[str]) -> Array:
    return np.array(
        [score.compute(predictions, answers.targets, labels) for predictions in answers.predictions]
    )


def _influence(score: Score, answers: Answers, labels: Sequence[str], clusters: Clusters | None) -> Array:
    return np.stack(
        [
            unit_influence(score, predictions, answers.targets, labels, clusters)
            for predictions in answers.predictions
        ]
    )


def _undefined(score: Score, answers: Answers, labels: Sequence[str]) -> tuple[int, str | None]:
    """Number of seeds whose score is undefined, and the remark on them."""
    seed_reasons = [
        score.undefined(predictions, answers.targets, labels) for predictions in answers.predictions
    ]
    reasons = [reason for reason in seed_reasons if reason is not None]
    if not reasons:
        return 0, None
    where = "" if len(reasons) == len(seed_reasons) else f" for {len(reasons)} of {len(seed_reasons)} seeds"
    return len(reasons), f"{score.name} is undefined and counts as 0{where}: {reasons[0]}"


def _score_point(
    score: Score, answers: Answers, labels: Sequence[str], clusters: Clusters | None, level: float
) -> _BandPoint:
    values, psi = _values(score, answers, labels), _influence(score, answers, labels, clusters)
    value, error = float(values.mean()), spread([psi], [values], freedom(clusters, len(answers.ids)))
    units = psi.shape[1]
    count, reason = _undefined(score, answers, labels)
    share = score.counts and clusters is None and len(values) == 1
    if share:
        error = replace(error, dof=np.inf)

    def limits(arm: float, reach: float) -> tuple[float, float]:
        if share:
            return wilson(value, units, _level(reach))
        if error.se == 0 or any(abs(value - end) < _ROUNDING for end in score.range):
            arm = _unseen(score, answers, labels, units, reach)
            return _within(score.range, value - arm, value + arm)
        return _on_scale(score, value, arm)

    has_limits = count < len(values) and np.isfinite(_alone(limits, error, level)).all()
    if not has_limits and reason is None:
        reason = f"every {unit_of(clusters)} has the same outcome, which gives no interval"
    return _BandPoint(value, error, psi.mean(axis=0), limits if has_limits else None, len(values), reason)


def _difference_point(
    score: Score,
    answers: Answers,
    reference: Answers,
    reference_terms: tuple[Array, Array],
    labels: Sequence[str],
    clusters: Clusters | None,
    level: float,
    *,
    pair_seeds: bool,
) -> _BandPoint:
    if pair_seeds:
        point_seeds, reference_seeds = _pairs(answers, reference)
        if not point_seeds:
            reason = "no seed has both a sound run and its reference"
            return _BandPoint(float("nan"), Spread.of_examples(float("nan"), np.inf), None, None, 0, reason)
        answers, reference = _only(answers, point_seeds), _only(reference, reference_seeds)
        reference_terms = reference_terms[0][reference_seeds], reference_terms[1][reference_seeds]
    psi = [_influence(score, answers, labels, clusters), reference_terms[0]]
    values = [_values(score, answers, labels), reference_terms[1]]
    error = spread(psi, values, freedom(clusters, len(answers.ids)), pair_seeds=pair_seeds)
    value, units = float(values[0].mean() - values[1].mean()), psi[0].shape[1]
    _, reason = _undefined(score, answers, labels)
    share = score.counts and clusters is None and max(map(len, values)) == 1
    center = value
    if share:
        center, se = _adjusted(score, answers, reference, labels)
        error = Spread.of_examples(se, np.inf)
    widest = score.range[1] - score.range[0]

    def limits(arm: float, reach: float) -> tuple[float, float]:
        if error.se == 0 and value == 0:
            arm = _unseen(score, reference, labels, units, reach)
        return _within((-widest, widest), center - arm, center + arm)

    has_limits = np.isfinite(_alone(limits, error, level)).all() and (error.se > 0 or value == 0)
    if not has_limits and reason is None:
        reason = f"every {unit_of(clusters)} has the same outcome, which gives no interval"
    mean = psi[0].mean(axis=0) - psi[1].mean(axis=0)
    return _BandPoint(value, error, mean, limits if has_limits else None, min(map(len, values)), reason)


def _only(answers: Answers, indices: Sequence[int]) -> Answers:
    if len(indices) == len(answers.predictions) == 1:
        return answers
    return replace(
        answers,
        predictions=[answers.predictions[p] for p in indices],
        seeds=[answers.seeds[p] for p in indices],
    )


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


def _adjusted(
    score: Score, answers: Answers, reference: Answers, labels: Sequence[str]
) -> tuple[float, float]:
    """Center and standard error of the interval of Bonett and Price, as in `compare_scores`."""
    assert score.parts is not None
    correct = [score.parts(s.predictions[0], s.targets, labels)[:, 0] > 0 for s in (answers, reference)]
    n = len(correct[0])
    a, b = ((np.count_nonzero(x & ~y) + 1) / (n + 2) for x, y in (correct, correct[::-1]))
    return a - b, float(np.sqrt((a + b - (a - b) ** 2) / (n + 2)))


def _unseen(score: Score, answers: Answers, labels: Sequence[str], units: int, reach: float) -> float:
    """Half-width of the interval of a score without observed spread; NaN where it is not defined."""
    arms = []
    for predictions in answers.predictions:
        extreme = past_the_end(score, predictions, answers.targets, labels, units, reach**2)
        arms.append(
            np.nan if extreme is None else abs(score.compute(predictions, answers.targets, labels) - extreme)
        )
    return float(np.mean(arms))


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
    limits: Callable[[float, float], tuple[float, float]], error: Spread, level: float
) -> tuple[float, float]:
    """Pointwise interval of one point."""
    return limits(error.alone(level), quantile(level, error.dof))


def _level(reach: float) -> float:
    """Level of a normal interval of the given number of standard errors, below 1."""
    from scipy.special import erf

    return min(float(erf(reach / np.sqrt(2))), 1 - 1e-15)


def _bands(
    points: Sequence[_BandPoint],
    first: Answers,
    clusters: Clusters | None,
    level: float,
    seed: int,
    *,
    pair_seeds: bool,
) -> Bands:
    undefined = (float("nan"), float("nan"))
    intervals = [_alone(point.limits, point.spread, level) if point.limits else undefined for point in points]
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
        most = np.inf if len(varying) == 1 else freedom(clusters, len(first.ids))
        arms = band_arms(errors, psi, level=level, pair_seeds=pair_seeds, most=most, seed=seed)
        least = min(most, *(error.dof for error in errors))
        critical = reach = critical_value(psi, least, level=level, seed=seed)
        for (index, _), arm, error in zip(varying, arms.tolist(), errors, strict=True):
            limits = points[index].limits
            assert limits is not None
            bands[index] = limits(arm, reach)
            critical = max(critical, arm / error.se) if error.se > 0 else critical
    unit = unit_of(clusters)
    return Bands(
        values=np.array([point.value for point in points]),
        low=np.array([low for low, _ in intervals]),
        high=np.array([high for _, high in intervals]),
        band_low=np.array([low for low, _ in bands]),
        band_high=np.array([high for _, high in bands]),
        se=np.array([point.spread.se for point in points]),
        dof=np.array([point.spread.freedom(level) for point in points]),
        critical=critical,
        level=level,
        unit=f"{unit} and seed" if max(point.seeds for point in points) > 1 else unit,
        n=len(first.ids),
        seeds=tuple(point.seeds for point in points),
        reasons=tuple(point.reason for point in points),
    )
