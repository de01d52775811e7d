"""When are seeds too few for a useful interval? Then what each of them gave is said instead."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..findings.words import number

# With so few seeds or fewer an interval over seeds can be wider than anything that could be measured.
FEW = 3
# In points of 100: an interval wider than this, which does not even tell the sign, tells nothing.
WIDE = 20.0


def too_few(least: float, most: float, seeds: int, unit: str, points: float) -> bool:
    """
    Say whether an interval of a difference tells nothing for want of seeds.

    Parameters
    ----------
    least, most : float
        Ends of the interval, in points.
    seeds : int
        Behind it.
    unit : str
        What it takes as independent.
    points : float
        What one unit of the score is worth; scores that are not counted in points keep their intervals.

    Examples
    --------
    >>> too_few(-100, 100, 2, "example and seed", 100), too_few(4, 96, 2, "example and seed", 100)
    (True, False)
    """
    return least <= 0 <= most and wide_for_seeds(least, most, seeds, unit, points)


def wide_for_seeds(least: float, most: float, seeds: int, unit: str, points: float) -> bool:
    """Say whether an interval is wide, and has few seeds behind it; see `too_few`."""
    return "seed" in unit and seeds <= FEW and points == 100 and most - least > WIDE


def said_seeds(each: Sequence[float], seeds: int, unit: str, digits: int = 2) -> str:
    """
    Say what seeds gave, and that they are too few for more.

    Parameters
    ----------
    each : sequence of float
        What each seed gave, in points; empty where that is not at hand, NaN where a run failed.
    seeds : int
        How many there are, where that is all that is known.
    unit : str
        What the interval would take as independent.
    digits : int

    Examples
    --------
    >>> said_seeds([22.5, 5.0], 2, "example and seed")
    'from 5.00 to 22.50 over 2 seeds, too few for a useful interval'
    >>> said_seeds([], 2, "example and seed")
    '2 seeds, too few for a useful interval'
    """
    noun = "head seed" if "head seed" in unit else "seed"
    known = [one for one in each if math.isfinite(one)]
    count = len(known) or seeds
    said = f"{count} {noun}{'' if count == 1 else 's'}"
    if len(known) > 1:
        low, high = number(min(known), digits), number(max(known), digits)
        # Seeds that agree to the last digit that is shown.
        said = f"{low} with each of {said}" if low == high else f"from {low} to {high} over {said}"
    return f"{said}, too few for a useful interval"
