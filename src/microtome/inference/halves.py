"""Half-sampling intervals for the value of another sample of the same size."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import must
from ..randomness import generator
from .clusters import Clusters
from .jackknife import Band, student_band

ANOTHER_SAMPLE = "value of another sample of the same size"


def half_plan(clusters: Clusters | int, replicates: int, seed: int) -> list[NDArray[np.int64]]:
    """
    Draw half of the clusters without replacement, repeatedly.

    Drawing with replacement would pair a row with its own copy, which every similarity mistakes for
    agreement. The draws are independent of each other and ignore the clusters' sizes.

    Parameters
    ----------
    clusters : Clusters or int
        The clusters, or the number of independent rows.
    replicates : int
        At least 2.
    seed : int

    Returns
    -------
    list of ndarray of int
        Ascending row numbers of each half: S // 2 whole clusters.
    """
    if not isinstance(clusters, Clusters):
        clusters = Clusters.singletons(clusters)
    units = len(clusters)
    if units < 4:
        raise must("the number of rows or clusters", "at least 4 to be halved", units)
    if replicates < 2:
        raise must("replicates", "at least 2", replicates)
    rng = generator(seed, "inference", "halves")
    return [clusters.rows(rng.permutation(units)[: units // 2]) for _ in range(replicates)]


def half_interval(
    value: ArrayLike,
    replicates: ArrayLike,
    level: float = 0.95,
    *,
    units: int,
    unit: str,
    target: str = ANOTHER_SAMPLE,
) -> Band:
    """
    Turn the values of half-samples into an interval, for one number or for every cell of a map.

    It covers the value of another sample of the same size. For a measure with a bias that shrinks with n
    (SVCCA, CCA, neuron matching) that is not the population value.

    Parameters
    ----------
    value : array_like, shape (...)
        From all rows.
    replicates : array_like, shape (B, ...)
        From the halves of `half_plan`.
    level : float
    units : int
        How many clusters (or independent rows) were halved.
    unit : str
        "row" or "cluster".
    target : str
        As in `Interval`.

    Returns
    -------
    Band
    """
    value, replicates = np.asarray(value, dtype=np.float64), np.asarray(replicates, dtype=np.float64)
    count = len(replicates)
    if replicates.shape[1:] != value.shape:
        raise must("replicates", f"of shape (replicates, *{value.shape})", replicates.shape)
    if count < 2:
        raise must("replicates", "at least 2", count)
    if units < 4:
        raise must("the number of rows or clusters", "at least 4 to be halved", units)
    half = units // 2
    # Given the sample, a mean over m of n units has variance s^2 (n - m) / (m n); that of the mean over
    # all n is s^2 / n. The factor is 1 for exact halves.
    factor = half / (units - half)
    se = np.sqrt(factor * replicates.var(axis=0, ddof=1))
    # The squared error is noisy twice. Given the sample, the B values are independent draws, so their
    # variance has B - 1 degrees of freedom; over all halves it would still be s^2 / n, with n - 1. For a
    # product of two such variances the reciprocals add: close to B - 1 with many units, n - 1 with few.
    dof = 1 / (1 / (count - 1) + 1 / (units - 1))
    return student_band(value, se, dof=dof, level=level, method="half-sampling", unit=unit, target=target)
