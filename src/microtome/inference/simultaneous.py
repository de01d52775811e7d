"""Variance components over examples and seeds, and critical values of simultaneous bands.

Variances over a few seeds and over many examples add up, but each has its own degrees of freedom. The errors
of points that share examples are correlated. The influence of each example on each point gives the
correlation; correlated errors are simulated many times, and the critical value is a quantile of the largest
error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..randomness import generator
from .estimate import AT_95, Confidence, quantile
from .scoring import standard_error

Array = NDArray[np.float64]

DRAWS = 5_000
_ROUNDING = 1e-12
_LUCK = 0.5  # of a typical variance over seeds: lower bound of a variance in a band; set by simulation
_LEAST = 1e-150  # a smaller p-value counts as 0; the square of a t with 1 degree of freedom still has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """
    Variance components of the error of a value.

    Parameters
    ----------
    examples : float
        Variance of the value on other examples, with the same seeds.
    rest : float
        The part of it that the variance over seeds does not already include.
    dof : float
        Degrees of freedom of these two.
    seeds : tuple of (float, float)
        Variance with other seeds, and its degrees of freedom, for each side that was trained several times.

    Notes
    -----
    The half-width of an interval is sqrt(sum of t(dof)^2 V) over the components, and no less than that of the
    examples alone. Whatever the shares of the components, its coverage is at least its level (Banerjee). A
    single t for their sum has no such guarantee: Satterthwaite's degrees of freedom are estimated from the
    same few seeds, and are too large where these agree by chance.

    References
    ----------
    Banerjee (1960), Approximate confidence interval for linear functions of means of k populations when the
    population variances are not equal, Sankhya 22.
    """

    examples: float
    rest: float
    dof: float
    seeds: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of_examples(cls, se: float, dof: float) -> Spread:
        """Build the spread of a value for fixed seeds."""
        return cls(examples=se**2, rest=se**2, dof=dof)

    @property
    def se(self) -> float:
        """Standard error of the value."""
        return math.sqrt(max(self.examples, sum(variance for variance, _ in self.seeds) + self.rest))

    def arm(
        self, reach: Callable[[float], float], over_seeds: Callable[[float], float] | None = None
    ) -> float:
        """
        Half-width of an interval.

        Parameters
        ----------
        reach : callable
            Maps degrees of freedom to a number of standard errors.
        over_seeds : callable, optional
            The same for variances over seeds.
        """
        squared_reach, seed_reach = reach(self.dof) ** 2, over_seeds or reach
        total = (
            sum(seed_reach(dof) ** 2 * variance for variance, dof in self.seeds) + squared_reach * self.rest
        )
        return math.sqrt(max(squared_reach * self.examples, total))

    def freedom(self, confidence: Confidence) -> float:
        """Degrees of freedom for which t times the standard error gives the half-width of the interval."""
        from scipy.special import stdtridf

        if not self.seeds or not self.se > 0:
            return self.dof
        reach = self.arm(confidence.reach) / self.se
        dofs = [self.dof, *(dof for _, dof in self.seeds)]
        if reach <= confidence.reach(max(dofs)) * (1 + _ROUNDING):
            return max(dofs)
        return float(np.clip(stdtridf((1 + confidence.level) / 2, reach), min(dofs), max(dofs)))

    def p(self, value: float) -> float:
        """Two-sided p-value of a value against 0: 1 - level of the interval that ends at 0."""
        from scipy.optimize import brentq
        from scipy.special import ndtr, ndtri, stdtr, stdtrit

        if not self.se > 0:
            return float("nan")
        if not self.seeds:
            t = -abs(value) / self.se
            return 2 * float(ndtr(t) if np.isinf(self.dof) else stdtr(self.dof, t))

        def beyond(log: float) -> float:
            """Half-width of the interval whose logarithm of 1 - level is given, minus the distance from 0."""
            tail = math.exp(log) / 2
            return self.arm(lambda dof: -float(ndtri(tail) if np.isinf(dof) else stdtrit(dof, tail))) - far

        far, least = abs(value), math.log(_LEAST)
        if far == 0 or beyond(least) <= 0:
            return float(far == 0)
        return math.exp(brentq(beyond, least, 0.0))  # pyright: ignore[reportArgumentType] - no full output


def spread(psi: Sequence[Array], values: Sequence[Array], dof: float, *, pair_seeds: bool = True) -> Spread:
    """
    Compute the error of a mean over seeds, or of a difference of two means, on other examples and seeds.

    Parameters
    ----------
    psi : sequence of one or two ndarrays of shape (seeds, units)
        Influence of the units on one side, or on two that are subtracted.
    values : sequence of as many ndarrays of shape (seeds,)
    dof : float
        Degrees of freedom of a standard error over the units.
    pair_seeds : bool
        Whether seeds of the two sides are pairs.

    Returns
    -------
    Spread
        With V_seeds for each side and V_examples - V_both for the rest: the interaction of seeds and examples
        is in both.
    """
    units = psi[0].shape[1]
    means = [side.mean(axis=0) for side in psi]
    se = standard_error(means[0] if len(means) == 1 else means[0] - means[1])
    if len(psi) == 2 and pair_seeds:
        psi, values = [psi[0] - psi[1]], [values[0] - values[1]]
    replicated = [index for index, scores in enumerate(values) if len(scores) > 1]
    if not replicated:
        return Spread.of_examples(se, dof)
    seeds, shared = [], 0.0
    for index, scores in enumerate(values):
        # A side with one seed takes the variance of the other side, since 0 would claim that it has none. It
        # takes the degrees of freedom too, and adds none.
        source = index if len(scores) > 1 else replicated[0]
        seeds.append((float(values[source].var(ddof=1)) / len(scores), len(values[source]) - 1.0))
        shared += units / (units - 1) * float(psi[source].var(axis=0, ddof=1).sum()) / len(scores)
    return Spread(examples=se**2, rest=max(se**2 - shared, 0.0), dof=dof, seeds=tuple(seeds))


def band_arms(
    spreads: Sequence[Spread],
    psi: Array,
    confidence: Confidence = AT_95,
    *,
    most: float = np.inf,
) -> Array:
    """
    Compute the half-width of a band at each of its points.

    Parameters
    ----------
    spreads : sequence of Spread
    psi : ndarray of shape (points, units)
        Influence of each unit on each point.
    confidence : Confidence
        Errors from seeds are as correlated between points as errors from units where seeds are paired.
    most : float
        Upper bound of the degrees of freedom of all points.

    Returns
    -------
    ndarray of shape (points,)
        As `Spread.arm`, with a quantile of the largest error instead of t. That assumes the same seeds for
        all points, so the variance over seeds of a point counts as no less than half of that of a typical
        point: seeds that agree by chance at one point do not make its error small. A value without any spread
        has a half-width of 0.
    """

    @cache
    def over_units(dof: float) -> float:
        return critical_value(psi, min(dof, most), confidence)

    @cache
    def over_seeds(dof: float) -> float:
        return critical_value(psi, min(dof, most), confidence, shared=confidence.pair_seeds)

    moving = [error for error in spreads if error.se > 0]
    sides = max((len(error.seeds) for error in moving), default=0)
    least = [_typical([error.seeds[k] for error in moving if k < len(error.seeds)]) for k in range(sides)]
    arms = np.zeros(len(spreads))
    for index, error in enumerate(spreads):
        if error.se > 0:
            widened = tuple((max(v, _LUCK * least[k]), dof) for k, (v, dof) in enumerate(error.seeds))
            arms[index] = replace(error, seeds=widened).arm(over_units, over_seeds)
    return arms


def _typical(seeds: Sequence[tuple[float, float]]) -> float:
    """
    Typical variance among estimates with few degrees of freedom, robust to large ones.

    It is their geometric mean, divided by the expected one of such estimates of a variance of 1.
    """
    from scipy.special import digamma

    logs = [
        math.log(variance) - (float(digamma(dof / 2)) - math.log(dof / 2))
        for variance, dof in seeds
        if variance > 0
    ]
    return math.exp(sum(logs) / len(logs)) if logs else 0.0


def critical_value(psi: Array, dof: float, confidence: Confidence = AT_95, *, shared: bool = True) -> float:
    """
    Compute the critical value of a simultaneous band, in standard errors.

    Parameters
    ----------
    psi : ndarray of shape (points, units)
        Influence of each unit on each point. A point without any influence is treated as independent.
    dof : float
        Degrees of freedom of the standard errors.
    confidence : Confidence
    shared : bool
        Whether the errors are those of the units; otherwise they are independent between points.

    Returns
    -------
    float
        Quantile of the largest |t|; between that of one point and that of Bonferroni's correction.

    Examples
    --------
    >>> same = np.ones((12, 1)) * np.tile([1.0, -1.0], 100)
    >>> round(critical_value(same, np.inf), 2)
    1.96
    """
    points, level = len(psi), confidence.level
    least, most = (quantile(1 - (1 - level) / count, dof) for count in (1, max(1, points)))
    if points < 2:
        return least
    rng = generator(confidence.seed, "bands")
    errors = _errors(psi, shared, rng)
    largest = np.abs(errors).max(axis=1)
    if np.isfinite(dof):
        largest /= np.sqrt(rng.chisquare(dof, DRAWS) / dof)
    return float(np.clip(np.quantile(largest, level), least, most))


def _errors(psi: Array, shared: bool, rng: np.random.Generator) -> Array:
    """Simulate standardized normal errors with the correlation of the influence, shape (draws, points)."""
    points, units = psi.shape
    norms = np.linalg.norm(psi, axis=1)
    still = norms <= _ROUNDING * max(1.0, float(norms.max(initial=0)))
    scaled = psi / np.where(still, 1, norms)[:, None]
    scaled[still] = 0
    if units < points:  # multipliers for units, else for principal directions of the points: the same law
        root = scaled
    else:
        weights, directions = np.linalg.eigh(scaled @ scaled.T)
        root = directions * np.sqrt(np.maximum(weights, 0))
    common = np.where(still, 0.0, float(shared))
    errors = (rng.standard_normal((DRAWS, root.shape[1])) @ root.T) * np.sqrt(common)
    if (common < 1).any():
        errors += rng.standard_normal((DRAWS, points)) * np.sqrt(1 - common)
    return errors
