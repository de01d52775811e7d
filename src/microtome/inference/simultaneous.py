"""How far may many errors reach at once? Standard errors over examples and seeds, and the largest of many.

Points that share examples err together. What each example adds to the error of each point tells how much
they do; correlated errors are drawn many times, and the largest of each draw is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..randomness import generator
from .scoring import quantile, standard_error

Array = NDArray[np.float64]

DRAWS = 5_000
_ROUNDING = 1e-12


class Spread(NamedTuple):
    """Standard error, its degrees of freedom, and the share of the variance that the examples give."""

    se: float
    dof: float
    examples: float


def spread(psi: Sequence[Array], values: Sequence[Array], dof: float, *, pair_seeds: bool = True) -> Spread:
    """
    Find the standard error of a mean over seeds, or of the difference of two, on other examples and seeds.

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
    """
    units = psi[0].shape[1]
    means = [side.mean(axis=0) for side in psi]
    over_examples = standard_error(means[0] if len(means) == 1 else means[0] - means[1]) ** 2
    if len(psi) == 2 and pair_seeds:
        psi, values = [psi[0] - psi[1]], [values[0] - values[1]]
    known = [place for place, scores in enumerate(values) if len(scores) > 1]
    if not known:
        return Spread(float(np.sqrt(over_examples)), dof, 1.0)
    over_seeds, shares, both = 0.0, over_examples**2 / dof, 0.0
    for place, scores in enumerate(values):
        # A side with one seed borrows the spread of the other: none would be a claim that it has none.
        source = place if len(scores) > 1 else known[0]
        variance = float(values[source].var(ddof=1)) / len(scores)
        over_seeds += variance
        shares += variance**2 / (len(values[source]) - 1)
        both += units / (units - 1) * float(psi[source].var(axis=0, ddof=1).sum()) / len(scores)
    total = max(over_seeds + over_examples - both, over_seeds, over_examples)
    if total == 0:
        return Spread(0.0, dof, 1.0)
    return Spread(float(np.sqrt(total)), float(max(1.0, total**2 / shares)), over_examples / total)


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
