"""What does one run of the engine hand over? Tables of values, facts of layers, scores of units."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import WorkError
from ..measures.declare import Chosen

# What rounding may put a value outside of its range, by precision; more is an error of the program.
ROUNDING = {True: 1e-9, False: 1e-5}
NOT_FINITE = "the value is not a finite number"
# Which norms have influence scores.
KINDS = ("debiased", "biased")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """
    Values of one measure for every pair of layers, as the engine leaves them.

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
    What is known of each layer of a side: arrays of shape (layers,).

    `spectrum` has the shape (layers, directions): shares of variance of the principal directions, largest
    first, NaN beyond those of a layer and for a constant one; None where it was not asked for.
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
    What each unit contributes to the debiased, or to the biased, norms.

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
    """Everything one run over the moments gives."""

    tables: dict[str, Table]
    left: LayerFacts
    right: LayerFacts
    near_tolerance: bool
    scores: dict[str, Scores]


def settle(values: np.ndarray, choice: Chosen, slack: float) -> None:
    """
    Bring values that rounding put outside of the measure's range back to it, in place.

    Parameters
    ----------
    values : ndarray
        NaN where undefined.
    choice : Chosen
    slack : float
        What rounding may do; a value further off is an error of the program, and never hidden.
    """
    low, high = choice.declared("range")
    defined = values[np.isfinite(values)]
    if len(defined) and (defined.min() < low - slack or defined.max() > high + slack):
        raise WorkError(
            f"{choice.label} must lie between {low:g} and {high:g}, but came out between "
            f"{defined.min():.6g} and {defined.max():.6g}; please report this with the input."
        )
    np.clip(values, low, high, out=values)
