"""Paired intervals for differences of cells computed on the same rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..errors import InputError
from ..inference.difference import (
    ANOTHER_DIFFERENCE,
    difference_from_halves,
    difference_from_jackknife,
    difference_from_scores,
)
from ..inference.jackknife import POPULATION, Band


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resamples:
    """
    Resamples of an interval, kept so that differences can be paired.

    Parameters
    ----------
    kind : {"scores", "halves", "jackknife"}
    array : ndarray
        Scores of shape (left, right, units), or values of shape (replicates, left, right).
    units : int
        Rows or clusters.
    sizes : ndarray, optional
        Rows of each jackknife group.
    digest : str
        Of the rows and units: only maps with the same one can be paired.
    """

    kind: Literal["scores", "halves", "jackknife"]
    array: np.ndarray
    units: int
    sizes: np.ndarray | None = None
    digest: str = ""


def cell_errors(resamples: Resamples, values: np.ndarray) -> tuple[np.ndarray, float]:
    """
    Contribution of each unit or replicate to the error of every cell of a map.

    Parameters
    ----------
    resamples : Resamples
    values : ndarray of shape (left, right)
        Of the map, from all rows.

    Returns
    -------
    errors : ndarray of shape (units, left, right)
        The sum of squares over units of any difference of cells is the variance of that difference.
    dof : float
        Degrees of freedom of such a variance.
    """
    array = resamples.array
    if resamples.kind == "scores":
        count = array.shape[-1]
        return np.moveaxis(array, -1, 0) * np.sqrt(count / (count - 1)), count - 1
    count = len(array)
    if resamples.kind == "halves":
        half = resamples.units // 2
        factor = half / (resamples.units - half) / (count - 1)
        dof = 1 / (1 / (count - 1) + 1 / (resamples.units - 1))
        return (array - array.mean(axis=0)) * np.sqrt(factor), dof
    sizes = np.ones(count) if resamples.sizes is None else np.asarray(resamples.sizes, dtype=np.float64)
    share = (sizes / sizes.sum())[:, None, None]
    jackknifed = count * values - ((1 - share) * array).sum(axis=0)
    pseudo = (values - (1 - share) * array) / share
    return (pseudo - jackknifed) * np.sqrt(share / (1 - share) / count), count - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paired:
    """
    Some cells of a map, ready to be paired with others.

    Parameters
    ----------
    name : str
        The measure.
    values : ndarray
    at : index
        Which cells: a pair of numbers, or `...` for all.
    resamples : Resamples or None
    method : str or None
    level : float
    unit : str
    target : str or None
        What the interval of a cell is for.
    """

    name: str
    values: np.ndarray
    at: Any
    resamples: Resamples | None
    method: str | None
    level: float
    unit: str
    target: str | None


def paired_band(minuend: Paired, subtrahend: Paired) -> Band:
    """
    Interval of the difference of two sets of cells.

    Parameters
    ----------
    minuend, subtrahend : Paired

    Returns
    -------
    Band
    """
    first, second = minuend.resamples, subtrahend.resamples
    if first is None or second is None:
        raise InputError(
            "a difference must be asked of maps computed with certainty=True, and not of saved ones, which "
            "keep their intervals but not what these were made from."
        )
    if first.kind != second.kind or first.digest != second.digest or minuend.target != subtrahend.target:
        raise InputError(
            "a difference must be asked of maps whose intervals come from the same rows in the same way, but "
            f"got {minuend.name} by {minuend.method} and {subtrahend.name} by {subtrahend.method}."
        )
    values = minuend.values, subtrahend.values
    if first.kind == "scores":
        arrays = first.array[minuend.at], second.array[subtrahend.at]
        band = difference_from_scores(*values, *arrays, minuend.level, unit=minuend.unit)
        # Scores of a biased value do not give an interval for the population value.
        return band if minuend.target == POPULATION else replace(band, target=ANOTHER_DIFFERENCE)
    replicates = first.array[_all_of(minuend.at)], second.array[_all_of(subtrahend.at)]
    if first.kind == "halves":
        return difference_from_halves(
            *values, *replicates, minuend.level, units=first.units, unit=minuend.unit
        )
    return difference_from_jackknife(
        *values, *replicates, minuend.level, sizes=first.sizes, unit=minuend.unit
    )


def _all_of(at: Any) -> Any:
    """Index of some cells in all replicates."""
    return (slice(None), *at) if isinstance(at, tuple) else at
