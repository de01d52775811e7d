"""Exact unconditional test of the difference of two paired shares, valid for any sample size.

Of n examples some are right only in the full model (lost), some only in the cut one (gained). The hypothesis
is that the share of right examples falls by `drop`. Intervals of the normal kind claim too much when few
examples disagree: with 230 examples and no disagreement that of Bonett and Price rules out one point at 5 %,
while a model that loses one point shows no disagreement on 230 examples in 10 % of cases.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import must

Array = NDArray[np.float64]
GAMMA = 1e-4  # what the interval for the share of disagreements may miss; added to p
POINTS = 101  # shares of disagreements that are tried


@lru_cache(maxsize=4096)
def exact_p(lost: int, gained: int, n: int, drop: float) -> float:
    """
    Find how likely so good an outcome is at most, where the share of right examples falls by `drop`.

    Parameters
    ----------
    lost, gained : int
        Examples that only the full, and only the cut model got right.
    n : int
        All examples.
    drop : float
        Between 0 and 1.

    Returns
    -------
    float
        One-sided p.

    Notes
    -----
    Outcomes are ordered by Tango's score statistic. Their probability also depends on the share of examples
    that disagree, which is not known: the largest one over an interval that holds it in all but `GAMMA` of
    cases is taken, and `GAMMA` is added (Berger and Boos 1994). So p is valid for every n.

    References
    ----------
    Tango (1998), Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design, Statistics in Medicine. Berger and Boos (1994), P values maximized over a
    confidence set for the nuisance parameter, Journal of the American Statistical Association.

    Examples
    --------
    >>> round(exact_p(0, 0, 299, 0.01), 4), round(0.99**299, 4)
    (0.0496, 0.0495)
    """
    from scipy.special import betainc, betaincinv, gammaln, xlog1py, xlogy

    if not 0 < drop < 1:
        raise must("drop", "between 0 and 1", drop)
    if min(lost, gained) < 0 or lost + gained > n:
        raise must("lost and gained examples", f"at least 0 and together at most {n}", (lost, gained))
    differ = lost + gained
    low = 0.0 if differ == 0 else float(betaincinv(differ, n - differ + 1, GAMMA / 2))
    high = 1.0 if differ == n else float(betaincinv(differ + 1, n - differ, 1 - GAMMA / 2))
    low = max(low, drop)
    if high < low:
        return GAMMA
    least = _least_gained(score_statistic(lost, gained, n, drop), n, drop)
    differing = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(differing + 1) - gammaln(n - differing + 1)
    best = 0.0
    for share in np.linspace(low, high, POINTS):
        weight = np.exp(ways + xlogy(differing, share) + xlog1py(n - differing, -share))
        used = (weight > 1e-15) & (least <= differing)
        needed = np.maximum(least[used], 1)
        tail = betainc(needed, differing[used] - needed + 1, (share - drop) / 2 / share)
        best = max(best, float(weight[used] @ np.where(least[used] == 0, 1.0, tail)))
    return min(1.0, best + GAMMA)


def score_statistic(lost: Any, gained: Any, n: int, drop: float) -> Array:
    """Tango's statistic: how far the loss is from `drop`, in standard errors under it; below 0 is better."""
    lost, gained = np.asarray(lost, dtype=np.float64), np.asarray(gained, dtype=np.float64)
    middle = -lost - gained + (2 * n - lost + gained) * drop
    under = np.maximum(middle**2 + 8 * n * gained * drop * (1 - drop), 0)
    share = (np.sqrt(under) - middle) / (4 * n)
    return (lost - gained - n * drop) / np.sqrt(n * (2 * share + drop * (1 - drop)))


def _least_gained(observed: Array, n: int, drop: float) -> NDArray[np.int64]:
    """For each number of disagreements, how many must be gains to be as good as what was observed."""
    differing = np.arange(n + 1)
    low, high = np.zeros(n + 1, dtype=np.int64), differing + 1
    while (low < high).any():
        middle = (low + high) // 2
        tried = np.minimum(middle, differing)
        good = score_statistic(differing - tried, tried, n, drop) <= observed + 1e-10
        open_ = low < high
        high = np.where(open_ & good, middle, high)
        low = np.where(open_ & ~good, middle + 1, low)
    return low
