"""Confidence intervals of scores over examples.

A score is a smooth function of the weights of its examples, so leaving out each group of examples gives its
standard error; unlike a similarity of layers, it is not biased by that. The interval is computed on a scale
on which the score is unbounded (logit, Fisher's z or the logarithm) and uses t with one degree of freedom
less than the effective number of equal groups. A proportion of independent examples gets Wilson's interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, must
from ..scores.declare import Score
from ..scores.table import find_score
from .clusters import Clusters, cluster_sums
from .estimate import Estimate, Interval, quantile

Array = NDArray[np.float64]

TARGET = "score on other examples of the same kind"
_ROUNDING = 1e-12  # of a score: a smaller difference is rounding error of a mean
FEW_GROUPS = 20  # with fewer groups, the estimate of their spread is unreliable


def score_interval(
    score: str | Score | Iterable[str | Score],
    predictions: Any,
    targets: Any,
    labels: Sequence[str] = (),
    *,
    groups: Any = None,
    level: float = 0.95,
) -> Estimate:
    """
    Score predictions, with an interval for the score on other examples of the same kind.

    It does not cover models trained with other seeds: see `microtome.inference.seeds`.

    Parameters
    ----------
    score : str, Score or several
        Of several scores the mean is taken.
    predictions, targets : sequence, one entry per example
        In the form of the kind of task; see `microtome.tasks.items.Item`.
    labels : sequence of str
        Names of the task's labels.
    groups : sequence, optional
        The group of each example, where several share a text.
    level : float

    Returns
    -------
    Estimate
        An undefined score is 0 without an interval, and its first warning gives the reason. `details` has the
        standard error `se`, the number of `units`, and the value in `points`.

    Examples
    --------
    >>> found = score_interval("accuracy", [0, 1, 1, 0, 1], [0, 1, 1, 1, 1])
    >>> print(found)
    accuracy 0.8000 [0.3755, 0.9638] (95%, unit: example), n = 5
    """
    metric = find_score(score)
    _check_level(level)
    value = metric.compute(predictions, targets, labels)
    n = len(predictions)
    clusters = example_groups(groups, n)
    messages: list[str] = []
    interval, se = None, float("nan")
    reason = metric.undefined(predictions, targets, labels)
    units = n if clusters is None else len(clusters)
    if reason is not None:
        messages.append(f"{metric.name} is undefined and counts as 0: {reason}.")
    elif units < 2:
        messages.append(f"one {unit_of(clusters)} gives no interval.")
    else:
        psi = unit_influence(metric, predictions, targets, labels, clusters)
        se = standard_error(psi)
        if metric.counts and clusters is None:
            low, high = wilson(value, n, level)
            interval = _interval(low, high, level, "Wilson", clusters)
        else:
            interval = _on_scale(metric, value, se, (predictions, targets, labels), clusters, units, level)
        if interval is None:
            messages.append(f"every {unit_of(clusters)} has the same outcome, which gives no interval.")
        if clusters is not None and units < FEW_GROUPS:
            messages.append(f"{units} groups are few: the interval trusts their spread.")
    return Estimate(
        value=value,
        measure=metric.name,
        estimator=metric.title,
        n=n,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        interval=interval,
        warnings=tuple(messages),
        details=MappingProxyType({"se": se, "units": units, "points": metric.points * value}),
    )


def example_groups(groups: Any, n: int) -> Clusters | None:
    """Read the group of each example; None where every example is its own group."""
    if groups is None:
        return None
    if len(groups) != n:
        raise must("groups", f"one for each of the {n} examples", f"{len(groups)}")
    if len(set(np.asarray(groups).tolist())) < 2:
        raise InputError(f"groups must be at least 2 for an interval, but all {n} examples are in one.")
    clusters = Clusters.from_ids(groups, n, balanced=False)
    return None if clusters.single else clusters


def freedom(clusters: Clusters | None, n: int) -> float:
    """Degrees of freedom of a standard error over units, from the effective number of equal groups."""
    return float(n - 1 if clusters is None else max(1.0, n**2 / (clusters.sizes**2).sum() - 1))


def unit_of(clusters: Clusters | None) -> str:
    """Name of the independent unit."""
    return "example" if clusters is None else "group of examples"


def unit_influence(
    score: Score, predictions: Any, targets: Any, labels: Sequence[str], clusters: Clusters | None
) -> Array:
    """
    Influence of each unit on a score.

    Parameters
    ----------
    score : Score
    predictions, targets, labels
        As in `score_interval`.
    clusters : Clusters, optional
        Groups of examples.

    Returns
    -------
    ndarray, shape (units,)
        Sums to 0. From leaving out each unit where the score is a function of sums, else from its
        influence function.
    """
    if score.of:
        influences = [
            unit_influence(component, predictions, targets, labels, clusters) for component in score.of
        ]
        return np.mean(influences, axis=0)
    if score.parts is None or score.from_parts is None:
        if score.influence is None:
            raise InputError(f"{score.name} must have parts or an influence function, but has neither.")
        psi = score.influence(predictions, targets, labels)
        return psi if clusters is None else cluster_sums(psi, clusters.codes)
    parts = score.parts(predictions, targets, labels)
    if clusters is not None:
        parts = cluster_sums(parts.T, clusters.codes).T
    without = score.from_parts(parts.sum(axis=0) - parts)
    apart = without.mean() - without
    # Where no unit changes the score, the remainder is rounding error of the mean, not spread.
    apart[np.abs(apart) <= _ROUNDING * np.abs(without)] = 0.0
    return (len(without) - 1) / len(without) * apart


def standard_error(psi: Array) -> float:
    """Standard error from the influence of each unit."""
    count = len(psi)
    return float(np.sqrt(count / (count - 1) * (psi @ psi)))


def wilson(share: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """
    Wilson's interval for a proportion of independent examples.

    Examples
    --------
    >>> low, high = wilson(1.0, 70)
    >>> round(low, 3), high
    (0.948, 1.0)
    """
    z2 = quantile(level) ** 2
    center = (share + z2 / (2 * n)) / (1 + z2 / n)
    arm = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    low = 0.0 if share == 0 else max(0.0, center - arm)
    return float(low), float(1.0 if share == 1 else min(1.0, center + arm))


def past_the_end(
    score: Score, predictions: Any, targets: Any, labels: Sequence[str], units: int, extra: float
) -> float | None:
    """
    Score with `extra` more units that fail or, where all failed, that succeed.

    A score at an end of its range has no observed spread. There, Wilson's interval extends to the proportion
    with z squared more examples of the opposite outcome; so does this.

    Returns
    -------
    float or None
        None where the score does not define a failing unit.
    """
    if score.of:
        moved = [
            past_the_end(component, predictions, targets, labels, units, extra) for component in score.of
        ]
        return None if any(m is None for m in moved) else float(np.mean([m for m in moved if m is not None]))
    if score.parts is None or score.from_parts is None or score.extremes is None:
        return None
    parts = score.parts(predictions, targets, labels)
    sums, n = parts.sum(axis=0), len(parts)
    wrong, correct = score.extremes(sums, n)
    extra *= n / units  # a group fails as a whole
    middle = (score.range[0] + score.range[1]) / 2
    return float(score.from_parts(sums + extra * (wrong if score.from_parts(sums) > middle else correct)))


def _on_scale(
    score: Score,
    value: float,
    se: float,
    data: tuple[Any, Any, Sequence[str]],
    clusters: Clusters | None,
    units: int,
    level: float,
) -> Interval | None:
    reach = quantile(level, freedom(clusters, len(data[0])))
    bottom, top = score.range
    routes = [
        "jackknife" if component.influence is None else "influence function"
        for component in score.of or (score,)
    ]
    method = " and ".join(dict.fromkeys(routes))
    if any(abs(value - end) < 1e-12 for end in (bottom, top)):
        extreme = past_the_end(score, *data, units, reach**2)
        if extreme is None:
            return None
        return _interval(min(value, extreme), max(value, extreme), level, "Wilson, from its end", clusters)
    if np.isinf(top):
        low, high = (value * np.exp(sign * reach * se / value) for sign in (-1, 1))
        return _interval(max(low, bottom), high, level, f"{method}, t on the log scale", clusters)
    share = (value - bottom) / (top - bottom)
    arm = reach * se / ((top - bottom) * share * (1 - share))
    logit = np.log(share / (1 - share))
    low, high = (bottom + (top - bottom) / (1 + np.exp(-(logit + sign * arm))) for sign in (-1, 1))
    return _interval(low, high, level, f"{method}, t on the logit scale", clusters)


def _interval(low: float, high: float, level: float, method: str, clusters: Clusters | None) -> Interval:
    return Interval(
        low=float(low), high=float(high), level=level, method=method, unit=unit_of(clusters), target=TARGET
    )


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
