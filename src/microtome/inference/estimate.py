"""Estimates: values with their intervals, nulls and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import check_level
from ..rounding import between


def quantile(level: float, dof: float = np.inf) -> float:
    """Half-width of an interval of this level, in standard errors."""
    from scipy.special import ndtri, stdtrit

    return float(ndtri((1 + level) / 2) if np.isinf(dof) else stdtrit(dof, (1 + level) / 2))


# Runs that are counted where an interval is over them.
COUNTED_RUNS = ("seed", "head seed", "model")


def over(unit: str, runs: int = 1) -> str:
    """
    State what an interval is over: independent units, and runs, with their number where there are several.

    Examples
    --------
    >>> over("example"), over("group of examples and seed"), over("seed", 3), over("sentence and model", 2)
    ('over examples', 'over groups of examples and seeds', 'over 3 seeds', 'over sentences and 2 models')
    """
    plurals = []
    for noun in unit.split(" and "):
        head, of, members = noun.partition(" of ")
        count = f"{runs} " if runs > 1 and noun in COUNTED_RUNS else ""
        plurals.append(f"{count}{head}s{of}{members}")
    return f"over {' and '.join(plurals)}"


def coverage(level: float) -> str:
    """
    Write a level of confidence.

    Examples
    --------
    >>> coverage(0.95), coverage(0.995)
    ('95 %', '99.5 %')
    """
    return f"{round(level * 100, 6):g} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """
    How intervals and bands of scores are made.

    Parameters
    ----------
    level : float
        Nominal coverage.
    pair_seeds : bool
        Whether points share their seeds, as when one tuned model is truncated at several layers. False for
        models that were trained separately, whose errors from seeds are independent.
    seed : int
        Of the simulated errors.
    """

    level: float = 0.95
    pair_seeds: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_level(self.level)

    def reach(self, dof: float = np.inf) -> float:
        """Half-width of an interval, in standard errors with these degrees of freedom."""
        return quantile(self.level, dof)


AT_95 = Confidence()


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Band:
    """
    Intervals for every cell of a map (or for one number: arrays without axes).

    Parameters
    ----------
    center, se : array_like of float, shape of the map
        Center of the interval and standard error; NaN where the value is undefined.
    dof : float
        Degrees of freedom of the standard error; infinity gives the normal quantile.
    method, unit, target, level
        As in `Interval`.
    """

    center: NDArray[np.float64]
    se: NDArray[np.float64]
    dof: float
    method: str
    unit: str
    target: str
    level: float = 0.95

    def __post_init__(self) -> None:
        check_level(self.level)
        for name in ("center", "se"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))

    @property
    def low(self) -> NDArray[np.float64]:
        """Lower ends of the intervals."""
        return np.asarray(self.center - quantile(self.level, self.dof) * self.se)

    @property
    def high(self) -> NDArray[np.float64]:
        """Upper ends of the intervals."""
        return np.asarray(self.center + quantile(self.level, self.dof) * self.se)

    @property
    def z(self) -> NDArray[np.float64]:
        """Distance of the center from 0 in standard errors; 0 where both are 0."""
        center = (self.low + self.high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where((center == 0) & (self.se == 0), 0.0, center / self.se)

    @property
    def p(self) -> NDArray[np.float64]:
        """Two-sided p-value of the center against 0, dual to the interval."""
        from scipy.special import ndtr, stdtr

        tail = -np.abs(self.z)
        return np.asarray(2 * (ndtr(tail) if np.isinf(self.dof) else stdtr(self.dof, tail)))

    def at(self, *index: int) -> Interval:
        """Return the interval of one cell: `band.at(3, 4)`, or `band.at()` for a single number."""
        return Interval(
            low=float(self.low[index]),
            high=float(self.high[index]),
            level=self.level,
            method=self.method,
            unit=self.unit,
            target=self.target,
        )


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
    interval : Interval or None
        Where one was requested.
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
    interval: Interval | None = None
    null_mean: float = float("nan")
    z: float = float("nan")
    p: float = float("nan")
    rank: Sides = Sides(None, None)
    kept: Sides = Sides(None, None)
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def low(self) -> float | None:
        """Lower end of the interval."""
        return None if self.interval is None else self.interval.low

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        return None if self.interval is None else self.interval.high

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        if self.reason is not None:
            return f"{self.measure} undefined: {self.reason}"
        text = f"{self.measure} {self.value:.4f}"
        if (interval := self.interval) is not None:
            level = coverage(interval.level)
            text += f" {between(interval.low, interval.high, 4)} ({level}, {over(interval.unit)})"
        return f"{text}, n = {self.n}"
