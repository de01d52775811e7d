"""How far may many errors reach at once? Spread over examples and seeds, and the largest of many errors.

Variances over a few seeds and over many examples add up, but what each of them is worth does not: each
counts with its own degrees of freedom. Points that share examples err together. What each example adds to
the error of each point tells how much they do; correlated errors are drawn many times, and the largest of
each draw is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..randomness import generator
from .scoring import quantile, standard_error

Array = NDArray[np.float64]

DRAWS = 5_000
_ROUNDING = 1e-12
_LUCK = 0.5  # of a typical variance over seeds: what a smaller one counts as in a band; by simulation
_LEAST = 1e-150  # a probability below this one is 0; the square of a t with 1 degree of freedom still has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """
    What the error of a value is made of.

    Parameters
    ----------
    examples : float
        Variance of the value on other examples, with the same seeds.
    rest : float
        What of it the variance over seeds does not hold already.
    dof : float
        Degrees of freedom of these two.
    seeds : tuple of (float, float)
        Variance with other seeds, and its degrees of freedom, for each side that was trained several times.

    Notes
    -----
    An interval reaches to either side sqrt(sum of t(dof)^2 V) over its parts, and no less than examples
    alone would make it reach. Whatever the shares of the parts, it covers its level or more (Banerjee). A
    single t for their sum cannot: Satterthwaite's degrees of freedom are estimated from the same few seeds,
    and seem many where these agree by luck.

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
        """The spread of a value that speaks of these seeds alone."""
        return cls(examples=se**2, rest=se**2, dof=dof)

    @property
    def se(self) -> float:
        """Standard error of the value."""
        return math.sqrt(max(self.examples, sum(variance for variance, _ in self.seeds) + self.rest))

    def arm(
        self, reach: Callable[[float], float], over_seeds: Callable[[float], float] | None = None
    ) -> float:
        """
        How far an interval reaches to either side.

        Parameters
        ----------
        reach : callable
            From degrees of freedom to standard errors.
        over_seeds : callable, optional
            The same for variances over seeds.
        """
        own, other = reach(self.dof) ** 2, over_seeds or reach
        total = sum(other(dof) ** 2 * variance for variance, dof in self.seeds) + own * self.rest
        return math.sqrt(max(own * self.examples, total))

    def alone(self, level: float) -> float:
        """How far the interval of this level reaches to either side."""
        return self.arm(lambda dof: quantile(level, dof))

    def freedom(self, level: float) -> float:
        """Degrees of freedom with which t times the standard error reaches as far at this level."""
        from scipy.special import stdtridf

        if not self.seeds or not self.se > 0:
            return self.dof
        reach = self.alone(level) / self.se
        every = [self.dof, *(dof for _, dof in self.seeds)]
        if reach <= quantile(level, max(every)) * (1 + _ROUNDING):
            return max(every)
        return float(np.clip(stdtridf((1 + level) / 2, reach), min(every), max(every)))

    def p(self, value: float) -> float:
        """Two-sided probability of a value so far from 0: 1 - level of the interval that ends at 0."""
        from scipy.optimize import brentq
        from scipy.special import ndtr, ndtri, stdtr, stdtrit

        if not self.se > 0:
            return float("nan")
        if not self.seeds:
            t = -abs(value) / self.se
            return 2 * float(ndtr(t) if np.isinf(self.dof) else stdtr(self.dof, t))

        def beyond(log: float) -> float:
            """How far past the value the interval reaches of which this is the logarithm of 1 - level."""
            tail = math.exp(log) / 2
            return self.arm(lambda dof: -float(ndtri(tail) if np.isinf(dof) else stdtrit(dof, tail))) - far

        far, least = abs(value), math.log(_LEAST)
        if far == 0 or beyond(least) <= 0:
            return float(far == 0)
        return math.exp(brentq(beyond, least, 0.0))  # pyright: ignore[reportArgumentType] - no full output


def spread(psi: Sequence[Array], values: Sequence[Array], dof: float, *, pair_seeds: bool = True) -> Spread:
    """
    Find the error of a mean over seeds, or of the difference of two, on other examples and seeds.

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
        With V_seeds for each side and V_examples - V_both for the rest: what each seed answers on each
        example is in both.
    """
    units = psi[0].shape[1]
    means = [side.mean(axis=0) for side in psi]
    se = standard_error(means[0] if len(means) == 1 else means[0] - means[1])
    if len(psi) == 2 and pair_seeds:
        psi, values = [psi[0] - psi[1]], [values[0] - values[1]]
    known = [place for place, scores in enumerate(values) if len(scores) > 1]
    if not known:
        return Spread.of_examples(se, dof)
    seeds, both = [], 0.0
    for place, scores in enumerate(values):
        # A side with one seed borrows the spread of the other: none would be a claim that it has none. It
        # borrows the degrees of freedom too, and no more come of it.
        source = place if len(scores) > 1 else known[0]
        seeds.append((float(values[source].var(ddof=1)) / len(scores), len(values[source]) - 1.0))
        both += units / (units - 1) * float(psi[source].var(axis=0, ddof=1).sum()) / len(scores)
    return Spread(examples=se**2, rest=max(se**2 - both, 0.0), dof=dof, seeds=tuple(seeds))


def band_arms(
    found: Sequence[Spread],
    psi: Array,
    *,
    level: float = 0.95,
    pair_seeds: bool = True,
    most: float = np.inf,
    seed: int = 0,
) -> Array:
    """
    Find how far a band reaches to either side of each of its points.

    Parameters
    ----------
    found : sequence of Spread
    psi : ndarray of shape (points, units)
        What each unit adds to the error of each point.
    level : float
    pair_seeds : bool
        Whether what seeds add is as alike between points as what units add; else it is independent.
    most : float
        Degrees of freedom that no point has more of.
    seed : int
        Of the drawn errors.

    Returns
    -------
    ndarray of shape (points,)
        As `Spread.arm`, with the largest of all errors in the place of t. That takes one draw of seeds for
        all points, so the variance of a point's seeds counts as no less than half of that of a typical
        point: seeds that agree by luck at one point do not make its error small. A value without any spread
        has no arm.
    """

    @cache
    def over_units(dof: float) -> float:
        return critical_value(psi, min(dof, most), level=level, seed=seed)

    @cache
    def over_seeds(dof: float) -> float:
        shares = None if pair_seeds else np.zeros(len(psi))
        return critical_value(psi, min(dof, most), level=level, examples=shares, seed=seed)

    moving = [one for one in found if one.se > 0]
    sides = max((len(one.seeds) for one in moving), default=0)
    least = [_typical([one.seeds[k] for one in moving if k < len(one.seeds)]) for k in range(sides)]
    arms = np.zeros(len(found))
    for place, one in enumerate(found):
        if one.se > 0:
            widened = tuple((max(v, _LUCK * least[k]), dof) for k, (v, dof) in enumerate(one.seeds))
            arms[place] = replace(one, seeds=widened).arm(over_units, over_seeds)
    return arms


def _typical(seeds: Sequence[tuple[float, float]]) -> float:
    """
    A typical one of variances with few degrees of freedom, in which no large one outweighs the others.

    It is their geometric mean, divided by what estimates with so many degrees of freedom have for one where
    the truth is 1.
    """
    from scipy.special import digamma

    logs = [
        math.log(variance) - (float(digamma(dof / 2)) - math.log(dof / 2))
        for variance, dof in seeds
        if variance > 0
    ]
    return math.exp(sum(logs) / len(logs)) if logs else 0.0


def critical_value(
    psi: Array,
    dof: float,
    *,
    level: float = 0.95,
    examples: Array | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> float:
    """
    Find how many standard errors hold the errors of all points at once.

    Parameters
    ----------
    psi : ndarray of shape (points, units)
        What each unit adds to the error of each point. A point to which none adds is taken as independent.
    dof : float
        Degrees of freedom of the standard errors.
    level : float
    examples : ndarray of shape (points,), optional
        Share of each point's variance that the units give; the rest is independent between points.
    draws : int
    seed : int

    Returns
    -------
    float
        Quantile of the largest |t|; between that of one point and that of as many independent ones as
        Bonferroni's inequality allows for.

    Examples
    --------
    >>> same = np.ones((12, 1)) * np.tile([1.0, -1.0], 100)
    >>> round(critical_value(same, np.inf), 2)
    1.96
    """
    points = len(psi)
    least, most = (quantile(1 - (1 - level) / count, dof) for count in (1, max(1, points)))
    if points < 2:
        return least
    rng = generator(seed, "bands")
    drawn = _errors(psi, examples, draws, rng)
    largest = np.abs(drawn).max(axis=1)
    if np.isfinite(dof):
        largest /= np.sqrt(rng.chisquare(dof, draws) / dof)
    return float(np.clip(np.quantile(largest, level), least, most))


def _errors(psi: Array, examples: Array | None, draws: int, rng: np.random.Generator) -> Array:
    """Normal errors of all points, standardized, with the correlation of their influence: (draws, points)."""
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
    common = np.where(still, 0.0, 1.0 if examples is None else np.clip(examples, 0, 1))
    errors = (rng.standard_normal((draws, root.shape[1])) @ root.T) * np.sqrt(common)
    if (common < 1).any():
        errors += rng.standard_normal((draws, points)) * np.sqrt(1 - common)
    return errors
