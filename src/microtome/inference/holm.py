"""Which of several tests hold when they are judged together? Holm's correction of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence


def holm(p: Sequence[float]) -> list[float]:
    """
    Adjust probabilities of several tests by Holm's method.

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
    order = sorted((place for place, one in enumerate(p) if not math.isnan(one)), key=lambda place: p[place])
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p[place]))
        out[place] = largest
    return out
