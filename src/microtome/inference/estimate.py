"""Estimates: a value with its interval, null and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from ..rounding import between


class Sides(NamedTuple):
    """A quantity of the left and of the right layer (numbers in an `Estimate`, arrays in a `Map`)."""

    left: Any
    right: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """
    A confidence interval with its level, method, unit and target.

    Parameters
    ----------
    low, high : float
    level : float
        Nominal coverage, such as 0.95.
    method : str
        "influence function", "jackknife over groups of clusters", "half-sampling".
    unit : str
        What was treated as independent: "row", "cluster".
    target : str
        The quantity covered: "population value", or "value of another sample of the same size".
    """

    low: float
    high: float
    level: float
    method: str
    unit: str
    target: str

    @property
    def width(self) -> float:
        """High minus low."""
        return self.high - self.low


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """
    The value of a measure for one pair of layers.

    `float(estimate)` is its value. An undefined value is NaN, and `reason` explains it.

    Parameters
    ----------
    value : float
    measure : str
        Name with the options that differ from the defaults.
    estimator : str
        What exactly was computed.
    n : int
        Rows used.
    low, high : float or None
        The interval, where one was requested.
    interval : Interval or None
        The same with level, method, unit and target.
    null_mean : float
        Expected value for unrelated rows (NaN where no closed form is known and nothing was permuted).
    z, p : float
        Distance from it in standard deviations, and its one-sided p-value, where they are valid; for a
        difference, the distance from 0, and its two-sided p-value.
    rank, kept : Sides
        Rank of each side under the measure's tolerance, and the dimensions that were compared.
    reason : str or None
        Why the value is undefined.
    warnings : tuple of str
    details : mapping
        More numbers by name (biased value, dropped variance, participation ratio, ...).
    """

    value: float
    measure: str
    estimator: str
    n: int
    low: float | None = None
    high: float | None = None
    interval: Interval | None = None
    null_mean: float = float("nan")
    z: float = float("nan")
    p: float = float("nan")
    rank: Sides = Sides(None, None)
    kept: Sides = Sides(None, None)
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        if self.reason is not None:
            return f"{self.measure} undefined: {self.reason}"
        text = f"{self.measure} {self.value:.4f}"
        if self.low is not None and self.high is not None and self.interval is not None:
            level = f"{self.interval.level * 100:g}%"
            text += f" {between(self.low, self.high, 4)} ({level}, unit: {self.interval.unit})"
        return f"{text}, n = {self.n}"
