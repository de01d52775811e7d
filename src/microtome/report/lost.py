"""What is lost at each point of an experiment? Differences turned into losses, with their doubt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..experiments.fewseeds import said_seeds, too_few
from ..findings.results import Curve, Result
from ..findings.words import number
from .sentences import amount, at_most, between, doubt


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Losses:
    """
    What is lost at each point, in points of 100 or in units of the score; positive where something is.

    Parameters
    ----------
    value, least, most : ndarray of shape (points,)
        With the ends of the band of all points; NaN where unknown.
    level : float
    unit : str
        What was taken as independent.
    what : str
        For what the band holds, such as "all cuts at once".
    seeds : int
        Behind it.
    each : ndarray of shape (seeds, points), optional
        What is lost with each of them.
    """

    value: np.ndarray
    least: np.ndarray
    most: np.ndarray
    level: float
    unit: str
    what: str
    seeds: int = 1
    each: np.ndarray | None = None

    def at(self, place: int, points: float, score: str) -> str:
        """Write the loss at one point with what is known of its band."""
        digits = digits_of(points)
        value, least, most = (float(one[place]) for one in (self.value, self.least, self.most))
        text = amount(number(value, digits), points, score)
        each = [] if self.each is None else [float(one) for one in self.each[:, place]]
        if too_few(least, most, len(each) or self.seeds, self.unit, points):
            return f"{text} ({said_seeds(each, self.seeds, self.unit, digits)})"
        if math.isfinite(least) and math.isfinite(most):
            return f"{text} {between(least, most, digits)} {self.doubt}"
        if math.isfinite(most):
            return f"{text}, at most {at_most(most, digits)} {self.doubt}"
        return f"{text}, without an interval"

    @property
    def doubt(self) -> str:
        """What the band promises."""
        return doubt(self.level, self.what, self.unit)

    def clear(self, best: int, others: Sequence[int]) -> bool:
        """Whether one point surely loses less than each of some others."""
        return all(self.most[best] < self.least[k] for k in others)


def digits_of(points: float) -> int:
    """Decimals of a loss: tenths of a point, hundredths of other units."""
    return 1 if points == 100 else 2


def losses_of(curve: Curve, result: Result, what: str, each: np.ndarray | None = None) -> Losses:
    """
    Turn a curve of differences into losses.

    Parameters
    ----------
    curve : Curve
    result : Result
        That it is part of.
    what, each
        As in `Losses`.

    Returns
    -------
    Losses
    """
    ends = (curve.values, curve.band_low, curve.band_high)
    if result.higher_is_better:
        ends = (-curve.values, -curve.band_high, -curve.band_low)
    value, least, most = (result.points * (one + 0.0) for one in ends)
    return Losses(
        value=value,
        least=least,
        most=most,
        level=curve.level,
        unit=curve.unit,
        what=what,
        seeds=min((count for count in curve.seeds if count), default=1),
        each=each,
    )


def each_of(told: Any, size: int, factor: float) -> np.ndarray | None:
    """Differences of each seed as losses or gains, where a result has them."""
    given = told.get("each")
    found = np.array([] if given is None else given, dtype=np.float64)
    return factor * found + 0.0 if found.ndim == 2 and found.shape[1] == size else None
