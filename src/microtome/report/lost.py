"""Losses at each point of an experiment, with intervals, from curves of differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..findings.intervals import seeds_remark
from ..findings.results import Curve, Result
from ..findings.words import amount, at_least, at_most, between, number
from .sentences import doubt


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Losses:
    """
    What is lost at each point, in points of 100 or in units of the score; positive where something is.

    Parameters
    ----------
    value, low, high : ndarray of shape (points,)
        With an interval for each point alone; NaN where unknown.
    least, most : ndarray of shape (points,)
        Ends of the band of all points, by which claims are decided.
    level : float
    unit : str
        What was taken as independent.
    what : str
        For what the band holds, such as "all cuts at once".
    seeds : int
        Behind it.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    least: np.ndarray
    most: np.ndarray
    level: float
    unit: str
    what: str
    seeds: int = 1

    def at(self, place: int, points: float, score: str, *, bound: str = "") -> str:
        """
        Write the loss at one point with its own interval.

        Parameters
        ----------
        place : int
        points : float
        score : str
        bound : {"", "most", "least"}
            Which end of the band a claim rests on; it is written too.
        """
        digits = digits_of(points)
        value, low, high = (float(line[place]) for line in (self.value, self.low, self.high))
        text = amount(number(value, digits), points, score)
        if math.isfinite(low) and math.isfinite(high):
            remark = seeds_remark(
                low,
                high,
                seeds=self.seeds,
                unit=self.unit,
                points=points,
                digits=digits,
            )
            text += f" {between(low, high, digits)} {doubt(self.level, '', f'{self.unit}{remark}')}"
        else:
            text += ", without an interval"
        end = float((self.least if bound == "least" else self.most)[place])
        if not bound or not math.isfinite(end):
            return text
        end_text = at_least(end, digits) if bound == "least" else at_most(end, digits)
        return f"{text}, at {bound} {end_text} for {self.what}"

    @property
    def doubt(self) -> str:
        """What the band promises."""
        return doubt(self.level, self.what, self.unit)

    def clear(self, best: int, alternatives: Sequence[int]) -> bool:
        """Whether one point loses less, by the band, than each of some others."""
        return all(self.most[best] < self.least[k] for k in alternatives)


def digits_of(points: float) -> int:
    """Decimals of a loss: tenths of a point, hundredths of other units."""
    return 1 if points == 100 else 2


def losses_of(curve: Curve, result: Result, what: str) -> Losses:
    """
    Turn a curve of differences into losses.

    Parameters
    ----------
    curve : Curve
    result : Result
        That it is part of.
    what : str
        As in `Losses`.

    Returns
    -------
    Losses
    """
    return Losses(
        **as_losses(result, {name: getattr(curve, name) for name in _FIELDS}),
        level=curve.level,
        unit=curve.unit,
        what=what,
        seeds=min((count for count in curve.seeds if count), default=1),
    )


_FIELDS = ("values", "low", "high", "band_low", "band_high")


def as_losses(result: Result, lines: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """
    Turn differences with their ends into losses with theirs, in points of 100 or in units of the score.

    Parameters
    ----------
    result : Result
    lines : mapping of str to ndarray
        values, low, high, band_low and band_high.

    Returns
    -------
    dict
        value, low, high, least and most of `Losses`.
    """
    value, low, high, least, most = (lines[name] for name in _FIELDS)
    if result.higher_is_better:
        value, low, high, least, most = -value, -high, -low, -most, -least
    sides = {"value": value, "low": low, "high": high, "least": least, "most": most}
    return {name: result.points * (side + 0.0) for name, side in sides.items()}
