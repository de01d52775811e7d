"""Policy of intervals of scores, costs and differences: each quantity has one interval everywhere.

1. *The interval of a quantity* (`low`, `high`) is pointwise. It depends on the examples and runs of that
   quantity and on nothing else that was computed with it, so that `truncate` and `skip` print the same one
   for the same blocks left out, and tables, sentences and pages agree.
2. *The unit.* With one model, examples (or groups of them) vary: the interval is for this model on other
   examples. With several seeds, examples and seeds vary: it is for models trained with other seeds, on other
   examples. Fewer seeds make it wider, and it is shown nevertheless; where it is wide because there are few
   seeds, the values of the seeds are reported with it.
3. *Claims* that select among points (the deepest safe truncation, the cheapest block, the layers with higher
   probe scores) are decided by the band (`band_low`, `band_high`), which holds simultaneously for all points
   that the claim selects from. The end of the band is reported as a bound, "at most 0.93 for all cuts at
   once", never in brackets after the value.

Ends are rounded outward; see `microtome.rounding`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

from .words import at_least, at_most, between, number

if TYPE_CHECKING:
    from .claims.claim import Quantity

# Runs that differ in their seeds, so that an interval over them is for other seeds.
SEEDED = ("seed", "head seed")
# With this many seeds or fewer, an interval over seeds can be wider than any possible effect.
FEW = 3
# In points of 100: a wider interval from few seeds is reported with the range of their values.
WIDE = 20.0


class Unit(str):
    """
    What was treated as independent: examples of some kind, and runs where there are several.

    Parameters
    ----------
    of : str
        Such as "example", "group of examples" or "document".
    runs : str
        Such as "seed", "head seed" or "draw"; empty where there is one run.

    Examples
    --------
    >>> Unit("document", "seed"), Unit("example and seed").runs
    ('document and seed', 'seed')
    """

    __slots__ = ()

    def __new__(cls, of: str, runs: str = "") -> Self:
        """Join both parts; a unit that is written already has them."""
        return super().__new__(cls, f"{of} and {runs}" if runs else of)

    @property
    def of(self) -> str:
        """What the examples are."""
        return self.partition(" and ")[0]

    @property
    def runs(self) -> str:
        """What the runs differ in."""
        return self.partition(" and ")[2]


def with_own_interval(quantity: Quantity, digits: int = 2) -> str:
    """
    Format a quantity with its pointwise interval.

    Parameters
    ----------
    quantity : Quantity
        As it is shown: in points of 100, or in units of a score.
    digits : int

    Examples
    --------
    >>> from microtome.findings.claims.claim import Quantity
    >>> with_own_interval(Quantity(value=27.58, low=22.171, high=32.984))
    '27.58 [22.17, 32.99] (95 %, unit: example)'
    >>> wide = Quantity(value=13.75, low=-97.43, high=100, unit="example and seed", by_seed=(22.5, 5.0))
    >>> with_own_interval(wide)
    '13.75 [-97.43, 100.00] (95 %, unit: example and seed; from 5.00 to 22.50 over 2 seeds)'
    """
    low, high = quantity.low, quantity.high
    if not (math.isfinite(low) and math.isfinite(high)):
        return number(quantity.value, digits)
    evidence = f"{quantity.level * 100:g} %, unit: {quantity.unit}{_seeds_remark(quantity, digits)}"
    return f"{number(quantity.value, digits)} {between(low, high, digits)} ({evidence})"


def bound_for_all(side: str, end: float, family: str, *, digits: int = 2) -> str:
    """
    Format the end of a band as the bound for a claim; empty where the band has no such end.

    Parameters
    ----------
    side : {"most", "least"}
    end : float
    family : str
        The points that the claim selects from, such as "all cuts".
    digits : int

    Examples
    --------
    >>> bound_for_all("most", 0.926, "all cuts")
    ', at most 0.93 for all cuts at once'
    """
    if not math.isfinite(end):
        return ""
    bound = at_most(end, digits) if side == "most" else at_least(end, digits)
    return f", at {side} {bound} for {family} at once"


def wide_for_seeds(low: float, high: float, seeds: int, unit: str, points: float) -> bool:
    """
    Check whether an interval is wide and based on few seeds.

    Parameters
    ----------
    low, high : float
        In points.
    seeds : int
    unit : str
    points : float
        Points per unit of the score; intervals of scores that are not in points never count as wide.

    Examples
    --------
    >>> [wide_for_seeds(-end, end, 2, "example and seed", 100) for end in (100, 5)]
    [True, False]
    """
    return Unit(unit).runs in SEEDED and seeds <= FEW and points == 100 and high - low > WIDE


def _seeds_remark(quantity: Quantity, digits: int) -> str:
    """Report the values of the seeds for an interval that is wide because there are few; otherwise empty."""
    seed_values = [value for value in quantity.by_seed if math.isfinite(value)]
    count = len(seed_values) or quantity.seeds
    if not wide_for_seeds(quantity.low, quantity.high, count, quantity.unit, 100):
        return ""
    noun = f"{Unit(quantity.unit).runs}{'' if count == 1 else 's'}"
    if len(seed_values) < 2:
        return f"; {count} {noun}"
    least, most = number(min(seed_values), digits), number(max(seed_values), digits)
    # The seeds agree to the last digit shown.
    if least == most:
        return f"; {least} with each of {count} {noun}"
    return f"; from {least} to {most} over {count} {noun}"
