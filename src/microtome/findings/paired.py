"""Paired intervals for differences of cells computed on the same rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import InputError
from ..inference.estimate import Band
from ..inference.resampling import (
    ANOTHER_DIFFERENCE,
    POPULATION,
    POPULATION_DIFFERENCE,
    half_interval,
    jackknife_interval,
    scores_interval,
)
from ..inference.resampling import ENOUGH_CLUSTERS as ENOUGH_CLUSTERS

if TYPE_CHECKING:
    from .maps import Map


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


def cell_errors(
    resamples: Resamples, values: np.ndarray, *, shares: bool = False
) -> tuple[np.ndarray, float]:
    """
    Contribution of each unit or replicate to the error of every cell of a map.

    Parameters
    ----------
    resamples : Resamples
    values : ndarray of shape (left, right)
        Of the map, from all rows.
    shares : bool
        Whether errors are on the scale of influence scores, where k / (k - 1) times the sum of squares over k
        units is a variance.

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
        errors = np.moveaxis(array, -1, 0)
        return errors if shares else errors * np.sqrt(count / (count - 1)), count - 1
    count = len(array)
    if resamples.kind == "halves":
        half = resamples.units // 2
        factor = half / (resamples.units - half) / (count if shares else count - 1)
        dof = 1 / (1 / (count - 1) + 1 / (resamples.units - 1))
        return (array - array.mean(axis=0)) * np.sqrt(factor), dof
    sizes = np.ones(count) if resamples.sizes is None else np.asarray(resamples.sizes, dtype=np.float64)
    share = (sizes / sizes.sum())[:, None, None]
    jackknifed = count * values - ((1 - share) * array).sum(axis=0)
    pseudo = (values - (1 - share) * array) / share
    odds = share / (1 - share)
    weights = np.sqrt(odds * (count - 1)) / count if shares else np.sqrt(odds / count)
    return (pseudo - jackknifed) * weights, count - 1


def paired_band(first: Map, at: Any, second: Map, other: Any) -> Band:
    """
    Interval of the difference of cells of two maps, which may be the same one.

    Errors that both values share cancel, so the interval is narrower than two separate ones suggest.

    Parameters
    ----------
    first, second : Map
        The cells of the second are subtracted from those of the first.
    at, other : index
        Which cells of either: a pair of numbers, or `...` for all.

    Returns
    -------
    Band
    """
    resamples, others = first.resamples, second.resamples
    if resamples is None or others is None:
        raise InputError(
            "a difference must be asked of maps computed with certainty=True, and not of saved ones, which "
            "keep their intervals but not what these were made from."
        )
    if (resamples.kind, resamples.digest, first.target) != (others.kind, others.digest, second.target):
        raise InputError(
            "a difference must be asked of maps whose intervals come from the same rows in the same way, but "
            f"got {first.measure} by {first.method} and {second.measure} by {second.method}."
        )
    value = first.values[at] - second.values[other]
    # Scores of a biased value do not give an interval for the population value.
    target = POPULATION_DIFFERENCE if first.target == POPULATION else ANOTHER_DIFFERENCE
    if resamples.kind == "scores":
        scores = resamples.array[at] - others.array[other]
        band = scores_interval(value, scores, unit=first.unit, target=target)
    else:
        replicates = resamples.array[_all_of(at)] - others.array[_all_of(other)]
        if resamples.kind == "halves":
            band = half_interval(value, replicates, units=resamples.units, unit=first.unit, target=target)
        else:
            sizes = resamples.sizes
            band = jackknife_interval(value, replicates, sizes=sizes, unit=first.unit, target=target)
    return replace(band, level=first.level or 0.95)


def _all_of(at: Any) -> Any:
    """Index of some cells in all replicates."""
    return (slice(None), *at) if isinstance(at, tuple) else at
