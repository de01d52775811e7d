"""Paired differences of two cells, or of two maps, computed on the same rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import must
from .halves import half_interval
from .influence import scores_band
from .jackknife import Band, jackknife_interval

POPULATION_DIFFERENCE = "difference of the population values"
ANOTHER_DIFFERENCE = "difference in another sample of the same size"


def difference_from_scores(
    value: ArrayLike,
    other: ArrayLike,
    psi: ArrayLike,
    other_psi: ArrayLike,
    level: float = 0.95,
    *,
    unit: str,
) -> Band:
    """
    Interval for value - other from influence scores over the same clusters.

    Errors that both values share cancel, so the interval is narrower than two separate ones suggest.

    Parameters
    ----------
    value, other : array_like, shape (...)
    psi, other_psi : array_like, shape (..., S)
        `Influence.psi` of the two.
    level : float
    unit : str
        "row" or "cluster".
    """
    difference, scores = _minus(value, other, "values"), _minus(psi, other_psi, "scores")
    return scores_band(difference, scores, level, unit=unit, target=POPULATION_DIFFERENCE)


def difference_from_halves(
    value: ArrayLike,
    other: ArrayLike,
    replicates: ArrayLike,
    other_replicates: ArrayLike,
    level: float = 0.95,
    *,
    units: int,
    unit: str,
) -> Band:
    """
    Interval for value - other from the same half-samples.

    Parameters
    ----------
    value, other : array_like, shape (...)
    replicates, other_replicates : array_like, shape (B, ...)
        Both from one `half_plan`, in its order.
    level : float
    units : int
        How many clusters (or independent rows) were halved.
    unit : str
        "row" or "cluster".
    """
    return half_interval(
        _minus(value, other, "values"),
        _minus(replicates, other_replicates, "replicates"),
        level,
        units=units,
        unit=unit,
        target=ANOTHER_DIFFERENCE,
    )


def difference_from_jackknife(
    value: ArrayLike,
    other: ArrayLike,
    leave_out: ArrayLike,
    other_leave_out: ArrayLike,
    level: float = 0.95,
    dof: float | None = None,
    *,
    sizes: ArrayLike | None = None,
    corrected: bool = False,
    unit: str = "cluster",
) -> Band:
    """
    Interval for value - other from leaving out the same groups.

    Parameters
    ----------
    value, other : array_like, shape (...)
    leave_out, other_leave_out : array_like, shape (G, ...)
        Both over the same groups, in one order.
    level, dof, sizes, corrected, unit
        As in `jackknife_interval`.
    """
    return jackknife_interval(
        _minus(value, other, "values"),
        _minus(leave_out, other_leave_out, "leave-out values"),
        level,
        dof,
        sizes=sizes,
        corrected=corrected,
        unit=unit,
        target=POPULATION_DIFFERENCE,
    )


def _minus(minuend: ArrayLike, subtrahend: ArrayLike, what: str) -> NDArray[np.float64]:
    minuend, subtrahend = np.asarray(minuend, dtype=np.float64), np.asarray(subtrahend, dtype=np.float64)
    if minuend.shape != subtrahend.shape:
        raise must(f"the {what} of the two sides", "of one shape", f"{minuend.shape} and {subtrahend.shape}")
    return minuend - subtrahend
