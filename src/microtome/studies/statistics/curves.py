"""Statistics of score curves and of costs of spans: scores, differences, extents and rank correlations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from ...findings.results import WEAK, Curve, Result, SpanMap
from .values import BASELINE, Coverage, NotMeasuredError, Value, difference

if TYPE_CHECKING:
    from ..results import StudyResult

MAJORITY = "majority baseline"
REDUCE = {
    "mean": (np.mean, "low", "high"),
    "min": (np.min, "band_low", "band_high"),
    "max": (np.max, "band_low", "band_high"),
}


def score(result: StudyResult, *, point: Mapping[str, Any]) -> Value:
    """The score of an arm at a point, in points."""
    content = result_of(result)
    curve, place = _point(content, point)
    ends = [content.points * float(line[place]) for line in (curve.values, curve.low, curve.high)]
    return value_of(result, ends, curve, place)


def score_difference(
    result: StudyResult, *, first: Mapping[str, Any], second: Mapping[str, Any], of: str = "points"
) -> Value:
    """
    The score of one point minus that of another.

    Parameters
    ----------
    result : StudyResult
    first, second : mapping
        An `arm`, which may have wildcards, `pick`, which of several ("first" or "last"), and `x`, a point: a
        negative number counts from the highest, a fraction is a share of it, and "last" is the highest.
    of : {"points", "score", "room"}
        Unit: points, or a share of the first score or of its excess over the majority baseline.
    """
    content = result_of(result)
    (one, i), (other, j) = _point(content, first), _point(content, second)
    a, b = float(one.values[i]), float(other.values[j])
    whole = {"points": 1 / content.points, "score": a, "room": a - content.lines.get(MAJORITY, math.nan)}[of]
    if not whole > 0:
        raise NotMeasuredError("the score is not above that of the majority baseline")
    # Of two intervals, the ends of the difference are never too narrow.
    ends = _paired(content, one, i, other, j) or (
        float(one.low[i] - other.high[j]),
        float(one.high[i] - other.low[j]),
    )
    return value_of(result, [end / whole for end in (a - b, *ends)], one, i)


def difference_beside(
    result: StudyResult,
    beside: StudyResult,
    *,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    of: str = "points",
) -> Value:
    """A score difference, as in `score_difference`, minus the same one of another experiment."""
    own, other = (score_difference(each, first=first, second=second, of=of) for each in (result, beside))
    return difference(own, other)


def arm_difference(result: StudyResult, *, first: str, second: str, reduce: str = "mean") -> Value:
    """The score of one arm minus that of another, over all points that both have: mean, least or most."""
    content = result_of(result)
    one, other = (_curve(content, {"arm": arm}) for arm in (first, second))
    common = [x for x in one.x if x in other.x]
    if not common:
        raise NotMeasuredError(f"{first} and {second} have no point in common")
    a, b = ([curve.x.index(x) for x in common] for curve in (one, other))
    combine, low, high = REDUCE[reduce]
    ends = [
        content.points * float(combine(left[a] - right[b]))
        for left, right in (
            (one.values, other.values),
            (getattr(one, low), getattr(other, high)),
            (getattr(one, high), getattr(other, low)),
        )
    ]
    return value_of(result, ends, one, 0)


def model_difference(result: StudyResult, *, arm: str = "*", reduce: str = "max") -> Value:
    """
    The best score of the other models of a probing minus that of the first, in points.

    Parameters
    ----------
    result : StudyResult
    arm : str
        Of their curves, with wildcards.
    reduce : {"max", "mean"}
        Over layers.
    """
    content = result_of(result)
    curves = [c for c in content.curves if c.role == "score" and fnmatchcase(c.name, arm)]
    curves = [c for c in curves if not c.name.startswith("random baseline")]
    if len(curves) < 2:
        raise NotMeasuredError("fewer than two models were probed")
    places = [int(np.nanargmax(c.values)) for c in curves]

    def ends(curve: Curve, place: int) -> list[float]:
        lines = (curve.values, curve.low, curve.high)
        return [content.points * float(line.mean() if reduce == "mean" else line[place]) for line in lines]

    first, *others = [value_of(result, ends(c, k), c, k) for c, k in zip(curves, places, strict=True)]
    mean = np.mean([[v.value, v.low, v.high] for v in others], axis=0)
    return difference(value_of(result, mean, curves[1], places[1]), first)


def removable(result: StudyResult, *, arm: str = "UNTUNED", margin: float = 1.0) -> Value:
    """The share of the layers that can be cut off the top at a cost of at most a margin in points."""
    content = result_of(result)
    curve = _curve(content, {"arm": arm})
    last, sign = len(curve.x) - 1, 1.0 if content.higher_is_better else -1.0

    def share(costs: np.ndarray) -> float:
        small = (costs * content.points <= margin)[::-1]
        return float(np.argmin(small) - 1 if not small.all() else last) / len(curve.x)

    def costs(line: np.ndarray, full: float) -> np.ndarray:
        return np.append(sign * (full - line[:last]), 0.0)

    band = content.more.get("cost") if arm == "UNTUNED" else None
    ends = [share(costs(curve.values, float(curve.values[-1]))), math.nan, math.nan]
    if band is not None:
        shares = [share(costs(numbers_of(band[name]), 0.0)) for name in ("band_low", "band_high")]
        ends[1:] = sorted(shares)
    return value_of(result, ends, curve, last)


def trend(
    result: StudyResult, *, arm: str, within: Sequence[float] = (0.0, 1.0), models: str = "first"
) -> Value:
    """
    The rank correlation of curves with their axis.

    Parameters
    ----------
    result : StudyResult
    arm : str
        Of the curves, with wildcards.
    within : pair of float
        Two shares of the axis.
    models : {"first", "others", "all"}
        Which curves: that of the first model, or the mean over others.
    """
    content = result_of(result)
    curves = _curves(content, arm)
    chosen = {"first": curves[:1], "others": curves[1:], "all": curves}[models]
    if not chosen:
        raise NotMeasuredError("the result has one model only")
    values = []
    for curve in chosen:
        part = slice(math.floor(within[0] * len(curve.x)), math.ceil(within[1] * len(curve.x)))
        x = np.asarray(curve.x[part], dtype=np.float64)
        values.append(rank_correlation(x, curve.values[part]))
    low, high = Coverage(curves[0].level).mean(values) if len(values) > 2 else (math.nan, math.nan)
    unit = "model" if len(values) > 2 else ""
    return replace(value_of(result, [float(np.mean(values)), low, high], chosen[0], None), unit=unit)


def agreement(
    result: StudyResult,
    beside: StudyResult,
    *,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    minus: Mapping[str, Any] | None = None,
) -> Value:
    """
    The rank correlation of a curve with one of another experiment, over the points that both have.

    Parameters
    ----------
    result, beside : StudyResult
    first, second : mapping
        Their curves: `arm` and `pick`, as in a score difference.
    minus : mapping
        Another curve of the first experiment, whose correlation is subtracted.
    """
    content, line = result_of(result), _curve(result_of(beside), second)

    def correlation(curve: Curve) -> float:
        x = [point for point in curve.x if point in line.x]
        places = [[c.x.index(point) for point in x] for c in (curve, line)]
        return rank_correlation(curve.values[places[0]], line.values[places[1]])

    curve = _curve(content, first)
    value = correlation(curve) - (0.0 if minus is None else correlation(_curve(content, minus)))
    return value_of(result, [value, math.nan, math.nan], curve, None)


def rank_correlation(x: Any, y: Any) -> float:
    """Spearman's correlation of the points that both have; NaN for fewer than three."""
    from scipy.stats import spearmanr

    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    defined = np.isfinite(a) & np.isfinite(b)
    if defined.sum() < 3 or min(np.ptp(a[defined]), np.ptp(b[defined])) == 0:
        return math.nan
    return float(spearmanr(a[defined], b[defined]).statistic)  # pyright: ignore[reportAttributeAccessIssue]


def result_of(result: StudyResult) -> Result:
    """What an experiment with curves or spans has found."""
    if not isinstance(result.content, Result):
        raise NotMeasuredError(f"results of {result.verb} have no curves")
    return result.content


def _curves(content: Result, arm: str) -> list[Curve]:
    """Score curves of an arm; not those of models that do not beat the majority baseline."""
    curves = [c for c in content.curves if c.role == "score"]
    named = [c for c in curves if arm in (c.name, c.arm)]
    named = named or [c for c in curves if fnmatchcase(c.name, arm)]
    if not named:
        raise NotMeasuredError(f"the result has no curve {arm!r}")
    weak = set(content.more.get(WEAK, ()))
    sound = [c for c in named if not weak & {d.name for d in content.curves if d.arm == c.arm or d in curves}]
    if not sound:
        raise NotMeasuredError(BASELINE)
    return sound


def _curve(content: Result, point: Mapping[str, Any]) -> Curve:
    return _curves(content, point["arm"])[-1 if point.get("pick") == "last" else 0]


def _point(content: Result, point: Mapping[str, Any]) -> tuple[Curve, int]:
    """A curve and the index of a point of it."""
    curve = _curve(content, point)
    return curve, _place(curve, point.get("x", "last"))


def _place(curve: Curve, x: Any) -> int:
    """Index of a point."""
    if x == "last":
        x = max(curve.x)
    elif isinstance(x, int | float) and not isinstance(x, bool):
        most = max(float(point) for point in curve.x)
        x = round(x * most) if isinstance(x, float) and abs(x) < 1 else x
        x = most + x if x < 0 else x
    if x not in curve.x:
        raise NotMeasuredError(f"{curve.name} has no point {x} of {curve.axis}")
    return curve.x.index(x)


def _paired(content: Result, one: Curve, i: int, other: Curve, j: int) -> tuple[float, float] | None:
    """Ends of the paired interval of the first point minus the second, where the result has it."""
    last = len(one.x) - 1
    if one.name == other.name == "UNTUNED" and "cost" in content.more and last in (i, j):
        # These are the scores of cuts minus that of the whole model.
        low, high = (numbers_of(content.more["cost"][name]) for name in ("low", "high"))
        return (float(low[i]), float(high[i])) if j == last else (-float(high[j]), -float(low[j]))
    for line in content.curves:
        if line.role != "difference" or line.arm != one.arm or line.x != one.x:
            continue
        zero = [k for k in range(len(line.x)) if 0.0 == line.values[k] == line.low[k] == line.high[k]]
        if (line.against == other.name and one.x[i] == other.x[j]) or (one.name == other.name and j in zero):
            return float(line.low[i]), float(line.high[i])
        if one.name == other.name and i in zero:
            return -float(line.high[j]), -float(line.low[j])
    return None


def numbers_of(values: Any) -> np.ndarray:
    """Numbers from JSON, in which NaN is None."""
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def value_of(
    result: StudyResult,
    ends: Sequence[float],
    of: Curve | SpanMap,
    place: int | None,
    by_seed: Mapping[int, float] | None = None,
) -> Value:
    """A value with the ends of its interval, and the facts of the curve or spans that it is of."""
    value, low, high = ends
    seeds = of.seeds if isinstance(of.seeds, int) else of.seeds[place or 0]
    return Value(
        value=value,
        low=low,
        high=high,
        level=of.level,
        unit=str(of.unit),
        task=result.task,
        n=of.n,
        seeds=seeds,
        by_seed=by_seed or {},
    )
