"""Holm's correction for multiple tests."""

from __future__ import annotations

import math
from collections.abc import Sequence


def holm(p: Sequence[float]) -> list[float]:
    """
    Adjust the p-values of several tests by Holm's method.

    Parameters
    ----------
    p : sequence of float
        NaN where there is no test.

    Returns
    -------
    list of float

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    out = [math.nan] * len(p)
    order = sorted(
        (index for index, probability in enumerate(p) if not math.isnan(probability)),
        key=lambda index: p[index],
    )
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p[index]))
        out[index] = largest
    return out
