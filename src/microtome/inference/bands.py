"""Where do all points of a curve lie at once? Bands that hold every layer or span together, at one level.

An interval a point is right for that point alone: of 78 intervals of 95 %, four miss in the mean. A band
reaches as many standard errors to either side as the largest of all errors does, and never leaves the range
of the score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import must
from ..tasks.scores import find_score
from ..tasks.scores_declare import Score
from .answers import Answers, aligned
from .clusters import Clusters
from .scoring import (
    example_groups,
    freedom,
    past_the_end,
    quantile,
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
        An interval for each point alone; NaN where nothing tells the spread.
    band_low, band_high : ndarray of shape (points,)
        For all points at once.
    se, dof : ndarray of shape (points,)
        Standard errors on the plain scale, and the degrees of freedom with which t gives the intervals.
    critical : float
        Standard errors that the band reaches to either side, the most of all points; NaN where no point has
        one.
    level : float
    unit : str
        What was taken as independent.
    n : int
        Examples.
    seeds : tuple of int
        Seeds behind each point.
    reasons : tuple of (str or None)
        Why a point has no interval, or what a reader must know of it.
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


class _Point(NamedTuple):
    """One point: its error, what each unit adds to it (None: exact), and its limits by arm and reach."""

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
    Score several models, or cuts of one model, on the same examples, with a band over all of them.

    Parameters
    ----------
    score : str, Score or several
        Of several scores the mean is taken.
    points : sequence of Answers
        To the same examples, in any order. Their seeds may differ in number.
    labels : sequence of str
    level : float
    pair_seeds : bool
        Whether one seed runs through all points, as when one tuned model is cut in several places. False
        for models that were trained apart, whose errors from seeds are not shared.
    seed : int
        Of the drawn errors.

    Returns
    -------
    Bands

    Notes
    -----
    One seed: Wilson's interval for a share of independent examples; else t on the scale on which the score
    has no ends. Several seeds: V = V_seeds + V_examples - V_both, as in `compare_scores`. The band is laid
    on the same scale. It reaches as far as the largest of |t|, with the correlation of the points' influence;
    V_seeds of a point counts as no less than half of that of a typical one. See `band_arms`.

    Examples
    --------
    >>> ids, right = [str(i) for i in range(8)], [1] * 8
    >>> layers = [Answers(ids=ids, targets=right, predictions=[[1] * k + [0] * (8 - k)]) for k in (2, 4, 7)]
    >>> found = score_bands("accuracy", layers)
    >>> found.values.tolist(), found.low.round(2).tolist(), found.band_low.round(2).tolist()
    ([0.25, 0.5, 0.875], [0.07, 0.22, 0.53], [0.04, 0.14, 0.37])
    """
    asked, points, clusters = _read(score, points, level)
    found = [_score_point(asked, one, labels, clusters, level) for one in points]
    return _bands(found, points[0], clusters, level, seed, pair_seeds=pair_seeds)


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
        Whether a seed of a point belongs to the same seed of the reference, as with one tuned model and the
        same one cut. Seeds that only one of the two has are left out.
    seed : int
        Of the drawn errors.

    Returns
    -------
    Bands
        Intervals of each point as `compare_scores` gives them.
    """
    asked, read, clusters = _read(score, [reference, *points], level)
    whole, dof = read[0], freedom(clusters, len(reference.ids))
    known = (_influence(asked, whole, labels, clusters), _values(asked, whole, labels))
    found = [
        # The reference itself is no estimate of a difference: it has no error and takes no part in the band.
        _Point(0.0, Spread.of_examples(0.0, dof), None, lambda *_: (0.0, 0.0), len(whole.predictions), None)
        if given is reference
        else _difference_point(asked, one, whole, known, labels, clusters, level, pair_seeds=pair_seeds)
        for given, one in zip(points, read[1:], strict=True)
    ]
    return _bands(found, whole, clusters, level, seed, pair_seeds=pair_seeds)


def _read(
    score: str | Score | Iterable[str | Score], points: Sequence[Answers], level: float
) -> tuple[Score, list[Answers], Clusters | None]:
    asked = find_score(score)
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    if not points:
        raise must("the number of points", "at least 1", 0)
    first = points[0]
    clusters = example_groups(first.groups, len(first.ids))
    if len(first.ids) < 2:
        raise must("the number of examples to compare on", "at least 2", len(first.ids))
    return asked, [_same_examples(first, one) for one in points], clusters


def _same_examples(first: Answers, other: Answers) -> Answers:
    if other is first or (other.targets is first.targets and list(other.ids) == list(first.ids)):
        return other
    return aligned(first, other)


def _values(score: Score, one: Answers, labels: Sequence[str]) -> Array:
    return np.array([score.compute(each, one.targets, labels) for each in one.predictions])


def _influence(score: Score, one: Answers, labels: Sequence[str], clusters: Clusters | None) -> Array:
    return np.stack([unit_influence(score, each, one.targets, labels, clusters) for each in one.predictions])


def _undefined(score: Score, one: Answers, labels: Sequence[str]) -> tuple[int, str | None]:
    """How many seeds have no score, and what to say of them."""
    said = [score.undefined(each, one.targets, labels) for each in one.predictions]
    reasons = [reason for reason in said if reason is not None]
    if not reasons:
        return 0, None
    where = "" if len(reasons) == len(said) else f" for {len(reasons)} of {len(said)} seeds"
    return len(reasons), f"{score.name} is undefined and counts as 0{where}: {reasons[0]}"


def _score_point(
    score: Score, one: Answers, labels: Sequence[str], clusters: Clusters | None, level: float
) -> _Point:
    values, psi = _values(score, one, labels), _influence(score, one, labels, clusters)
    value, found = float(values.mean()), spread([psi], [values], freedom(clusters, len(one.ids)))
    units = psi.shape[1]
    count, reason = _undefined(score, one, labels)
    share = score.counts and clusters is None and len(values) == 1
    if share:
        found = replace(found, dof=np.inf)

    def limits(arm: float, reach: float) -> tuple[float, float]:
        if share:
            return wilson(value, units, _level(reach))
        if found.se == 0 or any(abs(value - end) < _ROUNDING for end in score.range):
            arm = _unseen(score, one, labels, units, reach)
            return _within(score.range, value - arm, value + arm)
        return _on_scale(score, value, arm)

    known = count < len(values) and np.isfinite(_alone(limits, found, level)).all()
    if not known and reason is None:
        reason = f"every {unit_of(clusters)} has the same outcome, which gives no interval"
    return _Point(value, found, psi.mean(axis=0), limits if known else None, len(values), reason)


def _difference_point(
    score: Score,
    one: Answers,
    reference: Answers,
    known: tuple[Array, Array],
    labels: Sequence[str],
    clusters: Clusters | None,
    level: float,
    *,
    pair_seeds: bool,
) -> _Point:
    if pair_seeds:
        ours, theirs = _pairs(one, reference)
        if not ours:
            reason = "no seed has both a sound run and its reference"
            return _Point(float("nan"), Spread.of_examples(float("nan"), np.inf), None, None, 0, reason)
        one, reference = _only(one, ours), _only(reference, theirs)
        known = known[0][theirs], known[1][theirs]
    psi = [_influence(score, one, labels, clusters), known[0]]
    values = [_values(score, one, labels), known[1]]
    found = spread(psi, values, freedom(clusters, len(one.ids)), pair_seeds=pair_seeds)
    value, units = float(values[0].mean() - values[1].mean()), psi[0].shape[1]
    _, reason = _undefined(score, one, labels)
    share = score.counts and clusters is None and max(map(len, values)) == 1
    center = value
    if share:
        center, se = _adjusted(score, one, reference, labels)
        found = Spread.of_examples(se, np.inf)
    widest = score.range[1] - score.range[0]

    def limits(arm: float, reach: float) -> tuple[float, float]:
        if found.se == 0 and value == 0:
            arm = _unseen(score, reference, labels, units, reach)
        return _within((-widest, widest), center - arm, center + arm)

    told = np.isfinite(_alone(limits, found, level)).all() and (found.se > 0 or value == 0)
    if not told and reason is None:
        reason = f"every {unit_of(clusters)} has the same outcome, which gives no interval"
    mean = psi[0].mean(axis=0) - psi[1].mean(axis=0)
    return _Point(value, found, mean, limits if told else None, min(map(len, values)), reason)


def _only(one: Answers, places: Sequence[int]) -> Answers:
    if len(places) == len(one.predictions) == 1:
        return one
    return replace(
        one, predictions=[one.predictions[p] for p in places], seeds=[one.seeds[p] for p in places]
    )


def _pairs(one: Answers, reference: Answers) -> tuple[list[int], list[int]]:
    """Places of the seeds that both sides have."""
    if len(one.predictions) == len(reference.predictions) == 1 and not (one.seeds and reference.seeds):
        return [0], [0]
    if not (len(one.seeds) and len(reference.seeds)):
        raise must("seeds to pair", "named on both sides", f"{list(one.seeds)} and {list(reference.seeds)}")
    theirs = {name: place for place, name in enumerate(reference.seeds)}
    both = [(place, theirs[name]) for place, name in enumerate(one.seeds) if name in theirs]
    return [ours for ours, _ in both], [other for _, other in both]


def _adjusted(score: Score, one: Answers, reference: Answers, labels: Sequence[str]) -> tuple[float, float]:
    """Center and standard error of the interval of Bonett and Price, as `compare_scores` has them."""
    assert score.parts is not None
    right = [score.parts(s.predictions[0], s.targets, labels)[:, 0] > 0 for s in (one, reference)]
    n = len(right[0])
    a, b = ((np.count_nonzero(x & ~y) + 1) / (n + 2) for x, y in (right, right[::-1]))
    return a - b, float(np.sqrt((a + b - (a - b) ** 2) / (n + 2)))


def _unseen(score: Score, one: Answers, labels: Sequence[str], units: int, reach: float) -> float:
    """How far a score may lie from one that shows no spread; NaN where it cannot say."""
    arms = []
    for predictions in one.predictions:
        other = past_the_end(score, predictions, one.targets, labels, units, reach**2)
        arms.append(np.nan if other is None else abs(score.compute(predictions, one.targets, labels) - other))
    return float(np.mean(arms))


def _on_scale(score: Score, value: float, arm: float) -> tuple[float, float]:
    """Lay an arm on the scale on which the score has no ends; see `microtome.inference.scoring`."""
    from scipy.special import expit, logit

    bottom, top = score.range
    if np.isinf(top):
        with np.errstate(over="ignore"):  # an interval without an end is one
            return max(bottom, value * float(np.exp(-arm / value))), value * float(np.exp(arm / value))
    share = (value - bottom) / (top - bottom)
    reach = arm / ((top - bottom) * share * (1 - share))
    low, high = (bottom + (top - bottom) * float(expit(logit(share) + sign * reach)) for sign in (-1, 1))
    return low, high


def _within(ends: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    """Cut an interval off at the ends of a range; NaN stays."""
    return float(np.clip(low, *ends)), float(np.clip(high, *ends))


def _alone(
    limits: Callable[[float, float], tuple[float, float]], found: Spread, level: float
) -> tuple[float, float]:
    """The interval of one point."""
    return limits(found.alone(level), quantile(level, found.dof))


def _level(reach: float) -> float:
    """Level of an interval that reaches so many standard errors; short of 1, which has no such number."""
    from scipy.special import erf

    return min(float(erf(reach / np.sqrt(2))), 1 - 1e-15)


def _bands(
    points: Sequence[_Point],
    first: Answers,
    clusters: Clusters | None,
    level: float,
    seed: int,
    *,
    pair_seeds: bool,
) -> Bands:
    nothing = (float("nan"), float("nan"))
    alone = [_alone(o.limits, o.spread, level) if o.limits else nothing for o in points]
    together = list(alone)
    drawn = [(place, o.psi) for place, o in enumerate(points) if o.limits is not None and o.psi is not None]
    critical = float("nan")
    if drawn:
        psi, found = np.stack([psi for _, psi in drawn]), [points[place].spread for place, _ in drawn]
        # Wilson's interval takes z, which is too short for the largest of many errors of few examples.
        most = np.inf if len(drawn) == 1 else freedom(clusters, len(first.ids))
        arms = band_arms(found, psi, level=level, pair_seeds=pair_seeds, most=most, seed=seed)
        least = min(most, *(each.dof for each in found))
        critical = reach = critical_value(psi, least, level=level, seed=seed)
        for (place, _), arm, each in zip(drawn, arms.tolist(), found, strict=True):
            limits = points[place].limits
            assert limits is not None
            together[place] = limits(arm, reach)
            critical = max(critical, arm / each.se) if each.se > 0 else critical
    unit = unit_of(clusters)
    return Bands(
        values=np.array([one.value for one in points]),
        low=np.array([low for low, _ in alone]),
        high=np.array([high for _, high in alone]),
        band_low=np.array([low for low, _ in together]),
        band_high=np.array([high for _, high in together]),
        se=np.array([one.spread.se for one in points]),
        dof=np.array([one.spread.freedom(level) for one in points]),
        critical=critical,
        level=level,
        unit=f"{unit} and seed" if max(one.seeds for one in points) > 1 else unit,
        n=len(first.ids),
        seeds=tuple(one.seeds for one in points),
        reasons=tuple(one.reason for one in points),
    )
