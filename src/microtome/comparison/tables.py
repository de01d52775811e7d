"""Engine output: tables of values, layer statistics and influence scores."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import WorkError
from ..measures.declare import Chosen

# How far rounding may put a value out of range, with and without exact arithmetic; more is a bug.
ROUNDING = {True: 1e-9, False: 1e-5}
NOT_FINITE = "the value is not a finite number"
# Which norms have influence scores.
KINDS = ("debiased", "biased")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """
    Values of one measure for every pair of layers, as computed by the engine.

    Parameters
    ----------
    values, null_mean, null_sd : ndarray of shape (left, right)
    reasons : ndarray of object, shape (left, right)
        None, or why the cell is undefined.
    kept, rank, lost : tuple of ndarray, or None
        Dimensions compared, ranks, and share of variance left out, of the left and of the right layers;
        None for measures without a subspace.
    details : dict of str to ndarray
    """

    values: np.ndarray
    null_mean: np.ndarray
    null_sd: np.ndarray
    reasons: np.ndarray
    kept: tuple[np.ndarray, ...] | None = None
    rank: tuple[np.ndarray, ...] | None = None
    lost: tuple[np.ndarray, ...] | None = None
    details: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFacts:
    """
    Statistics of each layer of a side: arrays of shape (layers,).

    `spectrum` has the shape (layers, directions): shares of variance of the principal directions, largest
    first, NaN beyond those of a layer and for a constant one; None where it was not computed.
    """

    width: np.ndarray
    dead: np.ndarray
    participation: np.ndarray
    top1: np.ndarray
    top3: np.ndarray
    spectrum: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """
    Contributions of each unit to the debiased, or to the biased, norms.

    Parameters
    ----------
    cross : ndarray of shape (left, right, units)
    left, right : ndarray of shape (layers, units)
        Of each layer with itself.
    left_h, right_h : ndarray of shape (layers,)
        The norms themselves.
    """

    cross: np.ndarray
    left: np.ndarray
    right: np.ndarray
    left_h: np.ndarray
    right_h: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Output of one run of the moment engine."""

    tables: dict[str, Table]
    left: LayerFacts
    right: LayerFacts
    near_tolerance: bool
    scores: dict[str, Scores]


def settle(values: np.ndarray, choice: Chosen, slack: float) -> None:
    """
    Clip values that rounding put outside the range of the measure, in place.

    Parameters
    ----------
    values : ndarray
        NaN where undefined.
    choice : Chosen
    slack : float
        Largest deviation that rounding explains; a larger one is a bug and raises an error.
    """
    low, high = choice.declared("range")
    defined = values[np.isfinite(values)]
    if len(defined) and (defined.min() < low - slack or defined.max() > high + slack):
        raise WorkError(
            f"{choice.label} must lie between {low:g} and {high:g}, but came out between "
            f"{defined.min():.6g} and {defined.max():.6g}; please report this with the input."
        )
    np.clip(values, low, high, out=values)
