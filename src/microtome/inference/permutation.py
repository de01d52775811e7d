"""Nulls of unrelated layers: closed forms, Wachter's law, permutation plans and the max statistic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError, must
from ..randomness import generator
from .clusters import Clusters

# Gauss-Legendre in the angle: 1e-9 relative even where the law touches 0 or 1.
NODES = 256


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Null:
    """
    Mean and standard deviation over all permutations of the rows of one side.

    They hold for independent rows. With rows in clusters they are far too small: permute whole clusters
    there.

    Parameters
    ----------
    mean, sd : ndarray of float
    """

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]


def frob2_null(
    T: ArrayLike, T2: ArrayLike, S2: ArrayLike, T_: ArrayLike, T2_: ArrayLike, S2_: ArrayLike, n: int
) -> Null:
    """
    Null of the squared Frobenius norm of X'Y, in closed form and exact.

    Arguments broadcast: pass those of the left side as (L, 1) and those of the right as (1, R).

    Parameters
    ----------
    T, T2, S2 : array_like
        Of X with centered columns: trace of X'X, its squared Frobenius norm, and the sum over rows of the
        fourth power of the row norm.
    T_, T2_, S2_ : array_like
        The same of Y.
    n : int
        Rows, at least 4.
    """
    if n < 4:
        raise must("the number of rows", "at least 4", n)
    T, T2, S2, T_, T2_, S2_ = (np.asarray(a, dtype=np.float64) for a in (T, T2, S2, T_, T2_, S2_))
    spread = ((n - 1) * T2 - T**2) * ((n - 1) * T2_ - T_**2)
    rows = n * (n + 1) * S2 - (n - 1) * (T**2 + 2 * T2)
    rows_ = n * (n + 1) * S2_ - (n - 1) * (T_**2 + 2 * T2_)
    variance = 2 * spread / ((n - 1) ** 2 * (n + 1) * (n - 2))
    variance = variance + rows * rows_ / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))
    # A variance of exactly 0 (a side whose rows are all equal) may be negative by rounding.
    return Null(mean=np.asarray(T * T_ / (n - 1)), sd=np.sqrt(np.maximum(variance, 0.0)))


def cka_null(
    T: ArrayLike, T2: ArrayLike, S2: ArrayLike, T_: ArrayLike, T2_: ArrayLike, S2_: ArrayLike, n: int
) -> Null:
    """
    Null of linear CKA, in closed form and exact; arguments as in `frob2_null`.

    The mean is the geometric mean of the participation ratios of both sides over n - 1.
    """
    # In units of |X'X| and |Y'Y|, as CKA is: products of both sides' numbers may leave the range of float64.
    return frob2_null(*_in_units_of_norm(T, T2, S2), *_in_units_of_norm(T_, T2_, S2_), n)


def _in_units_of_norm(
    T: ArrayLike, T2: ArrayLike, S2: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    squared = np.asarray(T2, dtype=np.float64)
    squared = np.where(squared > 0, squared, np.nan)
    return np.asarray(T) / np.sqrt(squared), squared / squared, np.asarray(S2) / squared


def debiased_null(n: int) -> Null:
    """
    Null of debiased CKA: mean 0 and variance 2 / (n (n - 3)), whatever the data.

    Examples
    --------
    >>> round(float(debiased_null(5).sd ** 2), 12)
    0.2
    """
    if n < 4:
        raise must("the number of rows", "at least 4", n)
    return Null(mean=np.asarray(0.0), sd=np.asarray(np.sqrt(2 / (n * (n - 3)))))


def r2_null(rank: ArrayLike, n: int) -> NDArray[np.float64]:
    """Mean over row permutations of R2 predicted from a side of this rank: rank / (n - 1), exact."""
    return np.asarray(rank, dtype=np.float64) / (n - 1)


def rho2_null(p: ArrayLike, q: ArrayLike, n: int) -> NDArray[np.float64]:
    """
    Mean over row permutations of the mean squared canonical correlation, exact: max(p, q) / (n - 1).

    The correlations of sides of rank p and q number min(p, q), and the permutation mean of the sum of
    their squares is p q / (n - 1).
    """
    return np.maximum(p, q) / np.float64(n - 1)


def z_score(value: ArrayLike, null: Null) -> NDArray[np.float64]:
    """Distance from the null mean in null standard deviations; NaN where those are 0."""
    sd = np.where(null.sd > 0, null.sd, np.nan)
    return (np.asarray(value, dtype=np.float64) - null.mean) / sd


def gamma_p(value: ArrayLike, null: Null, like: Null | None = None) -> NDArray[np.float64]:
    """
    One-sided p-value from a gamma law with the mean and variance of the null.

    A screen at the 5 % level; several times too liberal at 0.1 %, where rows should be permuted instead.

    Parameters
    ----------
    value : array_like
    null : Null
        Of the value.
    like : Null, optional
        Source of the shape of the law. A debiased value has mean 0, which no gamma law has, but its null
        has the shape of that of the biased value shifted to 0: pass `cka_null` here.

    Returns
    -------
    ndarray
    """
    from scipy.special import gammaincc

    like = null if like is None else like
    shape = np.where(like.sd > 0, like.mean / np.where(like.sd > 0, like.sd, 1.0), np.nan) ** 2
    at = np.maximum(shape + np.sqrt(shape) * z_score(value, null), 0.0)
    return gammaincc(shape, at)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PermutationPlan:
    """
    Which rows are permuted, and how.

    Parameters
    ----------
    rows : ndarray of int, shape (kept,)
        Rows used, ascending, for the observed and for the permuted values.
    permutations : ndarray of int, shape (B, kept)
        `x[rows]` is to be compared with `y[rows][permutation]`.
    left_out : float
        Share of the rows that are left out because no other cluster has the size of theirs.
    """

    rows: NDArray[np.int64]
    permutations: NDArray[np.int64]
    left_out: float


def permutation_plan(clusters: Clusters | int, replicates: int, seed: int) -> PermutationPlan:
    """
    Draw permutations of independent rows, or of whole clusters among those of the same size.

    Parameters
    ----------
    clusters : Clusters or int
        The clusters, or the number of independent rows.
    replicates : int
        How many permutations, B.
    seed : int
    """
    if replicates < 1:
        raise must("replicates", "at least 1", replicates)
    if not isinstance(clusters, Clusters):
        clusters = Clusters.singletons(clusters)
    of_size = np.bincount(clusters.sizes)
    rows = clusters.rows(of_size[clusters.sizes] >= 2)
    if len(rows) == 0:
        raise InputError("Clusters must come in equal sizes to be permuted, but no two have the same size.")
    position = np.full(clusters.n, -1, dtype=np.int64)
    position[rows] = np.arange(len(rows))
    rng = generator(seed, "inference", "permutation")
    permutations = np.empty((replicates, len(rows)), dtype=np.int64)
    for size in np.flatnonzero(of_size >= 2):
        starts = clusters.starts[clusters.sizes == size]
        members = position[clusters.order[starts[:, None] + np.arange(size)]]
        shuffles = rng.permuted(np.tile(np.arange(len(members)), (replicates, 1)), axis=1)
        permutations[:, members.ravel()] = members[shuffles].reshape(replicates, -1)
    return PermutationPlan(rows=rows, permutations=permutations, left_out=1 - len(rows) / clusters.n)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaxStatistic:
    """
    Permutation p-values of each cell of a map, pointwise and familywise.

    Parameters
    ----------
    p : ndarray of float, shape of the map
        Pointwise p-value of the cell.
    familywise : ndarray of float, shape of the map
        Probability that unrelated sides give any cell as extreme as this one.
    """

    p: NDArray[np.float64]
    familywise: NDArray[np.float64]


def max_statistic(observed: ArrayLike, permuted: ArrayLike) -> MaxStatistic:
    """
    Compare a map with its permuted copies, cell by cell and by the largest cell of each.

    Cells are standardized by their own mean and deviation over all B + 1 maps before the maximum is taken.

    Parameters
    ----------
    observed : array_like, shape (...)
        Undefined (NaN) cells, and cells undefined in any permuted map, are left out and stay NaN.
    permuted : array_like, shape (B, ...)
        The same map under each permutation.

    Returns
    -------
    MaxStatistic
    """
    observed, permuted = np.asarray(observed, dtype=np.float64), np.asarray(permuted, dtype=np.float64)
    if permuted.shape[1:] != observed.shape or len(permuted) < 1:
        raise must("permuted", f"of shape (permutations, *{observed.shape})", permuted.shape)
    maps = np.concatenate([observed[None], permuted])
    defined = np.isfinite(maps).all(axis=0)
    maps = np.where(defined, maps, 0.0)
    # The observed map is one of the B + 1: leaving it out would make it extreme by construction.
    mean, sd = maps.mean(axis=0), maps.std(axis=0)
    # Where every permutation gives the same value, the deviation is only rounding error.
    moving = defined & (sd > 1e-12 * np.abs(mean))
    scores = np.where(moving, maps - mean, 0.0) / np.where(moving, sd, 1.0)
    # A permutation that changes nothing must count as a tie in spite of rounding.
    slack = 1e-9 * np.maximum(1.0, np.abs(scores[0]))
    count = len(permuted)
    p = (1 + (scores[1:] >= scores[0] - slack).sum(axis=0)) / (count + 1)
    largest = np.where(defined, scores[1:], -np.inf).reshape(count, -1).max(axis=1, initial=-np.inf)
    at_least = count - np.searchsorted(np.sort(largest), (scores[0] - slack).ravel(), side="left")
    familywise = ((1 + at_least) / (count + 1)).reshape(observed.shape)
    p, familywise = (np.where(defined, a, np.nan) for a in (p, familywise))
    return MaxStatistic(p=p, familywise=familywise)


@cache
def _nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.special import roots_legendre

    points, weights = roots_legendre(NODES)
    angle = np.pi * (points + 1) / 2
    return np.cos(angle), np.pi / 2 * weights * np.sin(angle) ** 2


def mean_rho(p: ArrayLike, q: ArrayLike, n: int) -> NDArray[np.float64]:
    """
    Mean canonical correlation of unrelated sides, over the min(p, q) of them.

    It approximates the mean over row permutations of CCA and SVCCA without permuting anything. The law
    is a limit for many dimensions: about 5 % too high at 2 dimensions, 2 % at 5 to 10, 1 % at 20. For one
    dimension against q the exact mean is used.

    Parameters
    ----------
    p, q : array_like of int, broadcast
        Dimensions compared on each side, at most n - 1; the mean is NaN where one of them is 0.
    n : int
        Rows.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> round(float(mean_rho(64, 64, 500)), 3)
    0.308
    """
    from scipy.special import gammaln

    small, large, dof = _sides(p, q, n)
    # The squared correlation of a single direction with q others is Beta(q/2, (dof - q)/2).
    exact = np.exp(gammaln((large + 1) / 2) - gammaln(large / 2) + gammaln(dof / 2) - gammaln((dof + 1) / 2))
    return np.where(small == 1, exact, power_mean(p, q, n, 0.5))


def power_mean(p: ArrayLike, q: ArrayLike, n: int, power: float) -> NDArray[np.float64]:
    """
    Mean of (rho^2)^power under Wachter's law.

    Parameters
    ----------
    p, q : array_like of int, broadcast
        Dimensions of the two sides.
    n : int
        Rows. Centering takes one degree of freedom. Where p + q exceeds n - 1, p + q - (n - 1) of the
        correlations are 1 whatever the data.
    power : float
        1/2 for the mean of rho, 1 for that of rho^2.

    Returns
    -------
    ndarray

    References
    ----------
    Wachter (1980), The limiting empirical measure of multiple discriminant ratios, Annals of Statistics.
    """
    small, large, dof = _sides(p, q, n)
    alpha, beta = small / dof, large / dof
    a, b = np.sqrt(alpha * (1 - beta)), np.sqrt(beta * (1 - alpha))
    # The support of the law is [(a - b)^2, (a + b)^2]; x = center + radius cos(angle) removes the square
    # roots at its ends.
    center, radius = a**2 + b**2, 2 * a * b
    cosine, weight = _nodes()
    x = center[..., None] + radius[..., None] * cosine
    # With as many dimensions as degrees of freedom the law is a single atom, and x could be 0.
    x = np.where(radius[..., None] > 0, x, 0.5)
    integral = (weight * x ** (power - 1) / (1 - x)).sum(-1) * radius**2
    ones = np.maximum(small + large - dof, 0.0)
    return (ones + dof / (2 * np.pi) * integral) / small


def _sides(p: ArrayLike, q: ArrayLike, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    p, q = np.broadcast_arrays(np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64))
    if n < 2 or (np.maximum(p, q) > n - 1).any() or (np.minimum(p, q) < 0).any():
        worst = int(max(p.max(), q.max()))
        raise InputError(f"Dimensions must be between 0 and n - 1 = {n - 1}, but got up to {worst}.")
    positive = (p > 0) & (q > 0)
    return np.where(positive, np.minimum(p, q), np.nan), np.where(positive, np.maximum(p, q), np.nan), n - 1
