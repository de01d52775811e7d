"""Confidence intervals of scores over examples.

A score is a smooth function of the weights of its examples, so leaving out each group of examples gives its
standard error; unlike a similarity of layers, it is not biased by that. The interval is computed on a scale
on which the score is unbounded (logit, Fisher's z or the logarithm) and uses t with one degree of freedom
less than the effective number of equal groups. A proportion of independent examples gets Wilson's interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check_level
from ..errors import InputError, must
from ..scores.declare import Score
from ..scores.table import find_score
from .answers import Answers
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
        In the form of the kind of task; see `microtome.tasks.task.Item`.
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
    accuracy 0.8000 [0.3755, 0.9638] (95 %, over examples), n = 5
    """
    metric = find_score(score)
    check_level(level)
    value = metric.compute(predictions, targets, labels)
    n = len(predictions)
    examples = ScoredExamples(score=metric, labels=labels, n=n, clusters=example_groups(groups, n))
    messages: list[str] = []
    interval, se = None, float("nan")
    reason = metric.undefined(predictions, targets, labels)
    if reason is not None:
        messages.append(f"{metric.name} is undefined and counts as 0: {reason}.")
    elif examples.units < 2:
        messages.append(f"one {examples.unit} gives no interval.")
    else:
        se = standard_error(examples.influence(predictions, targets))
        if examples.shares:
            ends = (*wilson(value, n, level), "Wilson")
        else:
            ends = _ends(examples, value, se, (predictions, targets), quantile(level, examples.dof))
        if ends is None:
            messages.append(f"every {examples.unit} has the same outcome, which gives no interval.")
        else:
            low, high, method = float(ends[0]), float(ends[1]), ends[2]
            interval = Interval(
                low=low, high=high, level=level, method=method, unit=examples.unit, target=TARGET
            )
        if examples.clusters is not None and examples.units < FEW_GROUPS:
            messages.append(f"{examples.units} groups are few: the interval trusts their spread.")
    return Estimate(
        value=value,
        measure=metric.name,
        estimator=metric.title,
        n=n,
        interval=interval,
        warnings=tuple(messages),
        details=MappingProxyType({"se": se, "units": examples.units, "points": metric.points * value}),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredExamples:
    """
    A score on given examples, and which of these are independent.

    Parameters
    ----------
    score : Score
    labels : sequence of str
    n : int
    clusters : Clusters or None
        Groups of examples; None where every example is independent.
    """

    score: Score
    labels: Sequence[str]
    n: int
    clusters: Clusters | None

    @property
    def units(self) -> int:
        """Number of independent units."""
        return self.n if self.clusters is None else len(self.clusters)

    @property
    def unit(self) -> str:
        """Name of the independent unit."""
        return "example" if self.clusters is None else "group of examples"

    @property
    def dof(self) -> float:
        """Degrees of freedom of a standard error over the units."""
        return freedom(self.clusters, self.n)

    @property
    def shares(self) -> bool:
        """Whether the score is a proportion of independent examples."""
        return self.score.counts and self.clusters is None

    def influence(self, predictions: Any, targets: Any) -> Array:
        """
        Influence of each unit on the score.

        Parameters
        ----------
        predictions, targets
            As in `score_interval`.

        Returns
        -------
        ndarray, shape (units,)
            Sums to 0. From leaving out each unit where the score is a function of sums, else from its
            influence function.
        """
        score = self.score
        if score.of:
            return np.mean([part.influence(predictions, targets) for part in self._averaged()], axis=0)
        if score.parts is None or score.from_parts is None:
            if score.influence is None:
                raise InputError(f"{score.name} must have parts or an influence function, but has neither.")
            psi = score.influence(predictions, targets, self.labels)
            return psi if self.clusters is None else cluster_sums(psi, self.clusters.codes)
        parts = score.parts(predictions, targets, self.labels)
        if self.clusters is not None:
            parts = cluster_sums(parts.T, self.clusters.codes).T
        without = score.from_parts(parts.sum(axis=0) - parts)
        apart = without.mean() - without
        # Where no unit changes the score, the remainder is rounding error of the mean, not spread.
        apart[np.abs(apart) <= _ROUNDING * np.abs(without)] = 0.0
        return (len(without) - 1) / len(without) * apart

    def values_of(self, answers: Answers) -> Array:
        """The score of each seed."""
        seeds = answers.predictions
        return np.array([self.score.compute(seed, answers.targets, self.labels) for seed in seeds])

    def influences_of(self, answers: Answers) -> Array:
        """Influence of each unit on the score of each seed, shape (seeds, units)."""
        return np.stack([self.influence(seed, answers.targets) for seed in answers.predictions])

    def undefined_in(self, answers: Answers) -> list[str]:
        """Why the score is undefined, for each seed for which it is."""
        reasons = (self.score.undefined(seed, answers.targets, self.labels) for seed in answers.predictions)
        return [reason for reason in reasons if reason is not None]

    def past_the_end(self, predictions: Any, targets: Any, reach: float) -> float:
        """
        Score with the square of `reach` more units that fail or, where all failed, that succeed.

        A score at an end of its range has no observed spread. There, Wilson's interval extends to the
        proportion with z squared more examples of the opposite outcome; so does this. NaN where the score
        does not define a failing unit.
        """
        score = self.score
        if score.of:
            moved = [part.past_the_end(predictions, targets, reach) for part in self._averaged()]
            return float(np.mean(moved))
        if score.parts is None or score.from_parts is None or score.extremes is None:
            return float("nan")
        sums = score.parts(predictions, targets, self.labels).sum(axis=0)
        wrong, correct = score.extremes(sums, self.n)
        extra = reach**2 * (self.n / self.units)  # a group fails as a whole
        middle = (score.range[0] + score.range[1]) / 2
        return float(score.from_parts(sums + extra * (wrong if score.from_parts(sums) > middle else correct)))

    def _averaged(self) -> list[ScoredExamples]:
        """The same examples with each of the scores whose mean this score is."""
        return [replace(self, score=score) for score in self.score.of]


def several_groups(groups: Sequence[Any] | None) -> Sequence[Any] | None:
    """Groups of examples; None where all examples are in one group, or each in its own."""
    return groups if groups is not None and 1 < len(set(groups)) < len(groups) else None


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


def _ends(
    examples: ScoredExamples, value: float, se: float, data: tuple[Any, Any], reach: float
) -> tuple[float, float, str] | None:
    """Ends and method of an interval of `reach` standard errors, on a scale without bounds."""
    score = examples.score
    bottom, top = score.range
    routes = [
        "jackknife" if component.influence is None else "influence function"
        for component in score.of or (score,)
    ]
    method = " and ".join(dict.fromkeys(routes))
    if any(abs(value - end) < 1e-12 for end in (bottom, top)):
        extreme = examples.past_the_end(*data, reach)
        if np.isnan(extreme):
            return None
        return min(value, extreme), max(value, extreme), "Wilson, from its end"
    if np.isinf(top):
        low, high = (value * np.exp(sign * reach * se / value) for sign in (-1, 1))
        return max(low, bottom), high, f"{method}, t on the log scale"
    share = (value - bottom) / (top - bottom)
    arm = reach * se / ((top - bottom) * share * (1 - share))
    logit = np.log(share / (1 - share))
    low, high = (bottom + (top - bottom) / (1 + np.exp(-(logit + sign * arm))) for sign in (-1, 1))
    return low, high, f"{method}, t on the logit scale"
