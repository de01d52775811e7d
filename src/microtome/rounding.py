"""Bounds and intervals as text: every end is rounded outward, so that text never claims more than its number.

A lower bound is rounded down and an upper bound up. Values that are no bound are rounded to the nearest by
`microtome.findings.words.number`; JSON and tables in files keep full precision.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

_NOISE = 10  # decimals beyond which the ends of an interval are noise of arithmetic


def at_least(value: float, digits: int = 2, *, signed: bool = False) -> str:
    """
    Write a lower bound, rounded down.

    Examples
    --------
    >>> at_least(0.938), at_least(-0.004), at_least(0.93), at_least(0.938, signed=True)
    ('0.93', '-0.01', '0.93', '+0.93')
    """
    return _rounded(value, digits, ROUND_FLOOR, signed=signed)


def at_most(value: float, digits: int = 2, *, signed: bool = False) -> str:
    """
    Write an upper bound, rounded up.

    Examples
    --------
    >>> at_most(0.7801), at_most(-0.001), at_most(0.8, 1)
    ('0.79', '0.00', '0.8')
    """
    return _rounded(value, digits, ROUND_CEILING, signed=signed)


def between(low: float, high: float, digits: int = 2, *, signed: bool = False) -> str:
    """
    Write an interval, each end rounded outward.

    Parameters
    ----------
    low, high : float
    digits : int
        Decimals.
    signed : bool
        Whether ends above 0 carry a plus sign, as differences in a table do.

    Examples
    --------
    >>> between(-3.163, 5.221), between(-3.163, 5.221, 1, signed=True)
    ('[-3.17, 5.23]', '[-3.2, +5.3]')
    """
    # 100 times 0.035 is 3.5000000000000004, which is no reason to write 3.51.
    low, high = round(low, _NOISE), round(high, _NOISE)
    return f"[{at_least(low, digits, signed=signed)}, {at_most(high, digits, signed=signed)}]"


def _rounded(value: float, digits: int, direction: str, *, signed: bool) -> str:
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    rounded = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), rounding=direction)
    # Zero has no minus sign.
    return f"{rounded if rounded else abs(rounded):{'+' if signed else ''}f}"
