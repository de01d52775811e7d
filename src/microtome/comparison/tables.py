"""Tables of values, statistics of layers and influence scores: what the routes of a comparison compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..errors import WorkError
from ..inference.estimate import Sides
from ..lazy import torch
from ..measures.declare import Chosen

if TYPE_CHECKING:
    from ..moments.bank import Bank

# How far rounding may put a value out of range, with and without exact arithmetic; more is a bug.
ROUNDING = {True: 1e-9, False: 1e-5}
NOT_FINITE = "the value is not a finite number"
# Principal directions of a layer whose shares of variance are kept.
DIRECTIONS = 64
# The share of variance that three neurons may hold before a layer is flagged.
OUTLIER_SHARE = 0.5
# Statistics of the layers of a side: arrays of shape (layers,) by name; see `layer_facts`.
LayerFacts = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """
    Values of one measure for every pair of layers, as computed by the engine.

    Parameters
    ----------
    values, null_mean, null_sd : ndarray of shape (left, right)
    reasons : ndarray of object, shape (left, right)
        None, or why the cell is undefined.
    kept, rank, lost : Sides
        Dimensions compared, ranks, and share of variance left out, of the left and of the right layers;
        None for measures without a subspace.
    details : dict of str to ndarray
    """

    values: np.ndarray
    null_mean: np.ndarray
    null_sd: np.ndarray
    reasons: np.ndarray
    kept: Sides = Sides(None, None)
    rank: Sides = Sides(None, None)
    lost: Sides = Sides(None, None)
    details: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def blank(cls, shape: tuple[int, int]) -> Table:
        """Make a table in which nothing is defined, and no reason given, yet."""
        values, mean, sd = (np.full(shape, np.nan) for _ in range(3))
        return cls(values=values, null_mean=mean, null_sd=sd, reasons=np.full(shape, None, dtype=object))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """
    Contributions of each unit to the debiased, or to the biased, norms; or the debiased norms without it.

    Parameters
    ----------
    cross : ndarray of shape (left, right, units)
    left, right : ndarray of shape (layers, units)
        Of each layer with itself.
    left_h, right_h : ndarray of shape (layers,)
        The norms themselves, once all passes are done.
    """

    cross: np.ndarray
    left: np.ndarray
    right: np.ndarray
    left_h: np.ndarray = field(default_factory=lambda: np.empty(0))
    right_h: np.ndarray = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class AllPairs:
    """
    What was computed for all pairs of layers.

    Parameters
    ----------
    tables : dict of str to Table
        By the label of the measure.
    left, right : LayerFacts
    scores : dict of str to Scores
        By the kind of norm, where they were requested.
    influences : dict of str to ndarray of shape (left, right, units)
        By the label of the measure, where they were requested: what each scored unit adds to each cell.
    near_tolerance : bool
        Whether an eigenvalue is so close to the rank tolerance that a rank depends on rounding.
    precision : str
        "fast" or "exact", and why it was switched.
    """

    tables: dict[str, Table]
    left: LayerFacts
    right: LayerFacts
    scores: dict[str, Scores] = field(default_factory=dict)
    influences: dict[str, np.ndarray] = field(default_factory=dict)
    near_tolerance: bool = False
    precision: str = ""


def settle(table: Table, choice: Chosen, *, exact: bool = True) -> None:
    """
    Set undefined cells to NaN, and clip values that rounding put outside the range of the measure, in place.

    Parameters
    ----------
    table : Table
    choice : Chosen
    exact : bool
        Of the arithmetic. A larger deviation than rounding explains is a bug and raises an error.
    """
    slack = ROUNDING[exact]
    values, reasons = table.values, table.reasons
    undefined = reasons.astype(bool)
    reasons[~undefined & ~np.isfinite(values)] = NOT_FINITE
    values[undefined | ~np.isfinite(values)] = np.nan
    low, high = choice.declared("range")
    defined = values[np.isfinite(values)]
    if len(defined) and (defined.min() < low - slack or defined.max() > high + slack):
        raise WorkError(
            f"{choice.label} must lie between {low:g} and {high:g}, but came out between "
            f"{defined.min():.6g} and {defined.max():.6g}; please report this with the input."
        )
    np.clip(values, low, high, out=values)


def layer_facts(
    width: Sequence[int],
    constant: Sequence[int],
    participation: np.ndarray,
    largest: np.ndarray,
    spectrum: np.ndarray | None,
) -> LayerFacts:
    """
    Collect the statistics of the layers of a side.

    Parameters
    ----------
    width, constant : sequence of int
        Number of neurons of each layer, and of those that are constant.
    participation : ndarray of shape (layers,)
    largest : ndarray of shape (2, layers)
        Share of variance of the neuron of largest variance, and of the three of largest variance.
    spectrum : ndarray of shape (layers, directions), optional
        Shares of variance of the principal directions, largest first; NaN beyond those of a layer.
    """
    facts = {
        "width": np.array(width),
        "constant": np.array(constant),
        "participation": participation,
        "largest_share": largest[0],
        "largest_three_share": largest[1],
        # Layers of many neurons in which three hold most of the variance.
        "outlier": (largest[1] > OUTLIER_SHARE) & (np.array(width) > 4 * 3),
    }
    return facts if spectrum is None else {**facts, "spectrum": spectrum}


def facts_of_spread(
    sumsq: Sequence[torch.Tensor],
    participation: np.ndarray | None = None,
    spectrum: np.ndarray | None = None,
) -> LayerFacts:
    """
    Compute layer statistics from the sums of squares of their neurons.

    Parameters
    ----------
    sumsq : sequence of Tensor of shape (features,)
        Centered.
    participation : ndarray of shape (layers,), optional
    spectrum : ndarray of shape (layers, directions), optional
    """
    share = [(v.sort(descending=True).values.cumsum(0) / v.sum()).cpu().numpy() for v in sumsq]
    return layer_facts(
        [len(v) for v in sumsq],
        [int((v == 0).sum()) for v in sumsq],
        np.full(len(share), np.nan) if participation is None else participation,
        np.array([[v[0] for v in share], [v[min(2, len(v) - 1)] for v in share]]),
        spectrum,
    )


def shares(eigenvalues: Sequence[np.ndarray]) -> np.ndarray:
    """
    Turn the eigenvalues of scatter matrices into shares of variance.

    Parameters
    ----------
    eigenvalues : sequence of ndarray of shape (features,)
        In any order; values below 0 are rounding error and count as 0.

    Returns
    -------
    ndarray of shape (layers, directions)
        Largest first, `DIRECTIONS` at most; NaN beyond those of a narrow layer and for a constant one. Six
        digits are kept: float32 products have no more.
    """
    count = min(DIRECTIONS, max((len(values) for values in eigenvalues), default=0))
    out = np.full((len(eigenvalues), count), np.nan)
    for row, values in enumerate(eigenvalues):
        falling = np.sort(np.maximum(values, 0.0))[::-1]
        total = falling.sum()
        if total > 0:
            leading = falling[:count] / total
            out[row, : len(leading)] = [float(f"{share:.6g}") for share in leading]
    return out


def facts_of(banks: Sequence[tuple[Bank, int]], *, spectra: bool = False) -> LayerFacts:
    """Compute the statistics of each layer, from its bank and its place there; spectra take a while each."""
    distinct = {id(bank): bank for bank, _ in banks}
    facts = {
        key: [v.cpu().numpy() for v in (bank.participation, bank.variance_share(1), bank.variance_share(3))]
        for key, bank in distinct.items()
    }
    participation, *largest = np.array([[v[row] for v in facts[id(bank)]] for bank, row in banks]).T
    return layer_facts(
        [bank.width for bank, _ in banks],
        [bank.width - bank.known["alive"][row] for bank, row in banks],
        participation,
        np.array(largest),
        shares([_eigenvalues(bank, row) for bank, row in banks]) if spectra else None,
    )


def _eigenvalues(bank: Bank, row: int) -> np.ndarray:
    if bank.has_spectrum:
        return bank.spectrum("center")[0][row].cpu().numpy()
    return bank.eigenvalues[row]
