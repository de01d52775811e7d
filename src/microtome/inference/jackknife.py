"""Delete-group jackknife intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import must
from .estimate import Interval

POPULATION = "population value"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Band:
    """
    Intervals for every cell of a map (or for one number: arrays without axes).

    Parameters
    ----------
    low, high, se : ndarray of float, shape of the map
        Ends of the interval and standard error; NaN where the value is undefined.
    level, method, unit, target
        As in `Interval`.
    dof : float
        Degrees of freedom of the standard error.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    se: NDArray[np.float64]
    level: float
    method: str
    unit: str
    target: str
    dof: float

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


def student_band(
    center: ArrayLike,
    se: ArrayLike,
    *,
    dof: float,
    level: float,
    method: str,
    unit: str,
    target: str,
) -> Band:
    """
    Build a symmetric t interval around a center.

    Parameters
    ----------
    center, se : array_like
        Of one shape.
    dof : float
        Degrees of freedom of the standard error; infinity gives the normal quantile.
    level : float
        Between 0 and 1.
    method, unit, target : str
        As in `Interval`.
    """
    from scipy.special import ndtri, stdtrit

    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    tail = (1 + level) / 2
    quantile = float(ndtri(tail) if np.isinf(dof) else stdtrit(dof, tail))
    center, se = np.asarray(center, dtype=np.float64), np.asarray(se, dtype=np.float64)
    return Band(
        low=np.asarray(center - quantile * se),
        high=np.asarray(center + quantile * se),
        se=se,
        level=level,
        method=method,
        unit=unit,
        target=target,
        dof=float(dof),
    )


def jackknife_interval(
    value: ArrayLike,
    leave_out: ArrayLike,
    level: float = 0.95,
    dof: float | None = None,
    *,
    sizes: ArrayLike | None = None,
    corrected: bool = False,
    unit: str = "cluster",
    target: str = POPULATION,
) -> Band:
    """
    Delete-group jackknife of a value or of every cell of a map.

    Parameters
    ----------
    value : array_like, shape (...)
        From all rows.
    leave_out : array_like, shape (G, ...)
        The same without group g. Groups are disjoint and hold every row once.
    level : float
    dof : float, optional
        Degrees of freedom of the t quantile, G - 1 by default.
    sizes : array_like, shape (G,), optional
        Rows in each group, when they differ: with 30 equal clusters in 20 groups, leaving out
        two clusters moves the value more than leaving out one. Equal by default.
    corrected : bool
        Center the interval on the value minus its jackknifed bias, for measures whose bias is of order
        1/n. A debiased value needs no such correction.
    unit, target : str
        As in `Interval`.

    Returns
    -------
    Band

    References
    ----------
    Busing, Meijer and van der Leeden (1999), Delete-m jackknife for unequal m, Statistics and Computing.

    Examples
    --------
    >>> band = jackknife_interval(2.0, [2.5, 2.0, 1.5])  # the mean of 1, 2 and 3
    >>> round(float(band.se), 4)
    0.5774
    """
    value, leave_out = np.asarray(value, dtype=np.float64), np.asarray(leave_out, dtype=np.float64)
    count = len(leave_out)
    if leave_out.shape[1:] != value.shape:
        raise must("leave_out", f"of shape (groups, *{value.shape})", leave_out.shape)
    if count < 2:
        raise must("the number of groups", "at least 2", count)
    weights = np.ones(count) if sizes is None else np.asarray(sizes, dtype=np.float64)
    if weights.shape != (count,) or not (weights > 0).all():
        raise must("sizes", f"{count} positive numbers", weights.tolist())
    share = (weights / weights.sum()).reshape(-1, *(1,) * value.ndim)
    jackknifed = count * value - ((1 - share) * leave_out).sum(axis=0)
    pseudo = (value - (1 - share) * leave_out) / share
    se = np.sqrt((share / (1 - share) * (pseudo - jackknifed) ** 2).mean(axis=0))
    return student_band(
        jackknifed if corrected else value,
        se,
        dof=count - 1 if dof is None else dof,
        level=level,
        method="jackknife" if unit == "row" else "jackknife over groups of clusters",
        unit=unit,
        target=target,
    )
