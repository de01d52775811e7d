"""Layer state that the engine keeps between passes: banks, norms and spectra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..measures.declare import Chosen
from ..moments.bank import Bank
from ..moments.crossing import Crossing
from ..moments.stack import Stack, rounding
from .plan import Settings
from .tables import LayerFacts

if TYPE_CHECKING:
    import torch

# Principal directions of a layer whose shares of variance are kept.
DIRECTIONS = 64


class Layers:
    """
    The banks of one side, and the debiased norm of each layer's own scatter matrix.

    A bank holds a run of layers of one width; `banks[layer]` is the bank and the layer's index in it.
    """

    def __init__(self) -> None:
        self.banks: dict[int, tuple[Bank, int]] = {}
        self.own: dict[int, torch.Tensor] = {}


def make_banks(
    crossing: Crossing,
    correction: torch.Tensor,
    known: Sequence[tuple[Layers, Stack, int]],
    settings: Settings,
) -> None:
    """
    Create banks for the layers that occur for the first time in a pass.

    Parameters
    ----------
    crossing : Crossing
    correction : Tensor of shape (layers, layers)
        Debiasing correction.
    known : sequence of (Layers, Stack, int)
        For each layer of the pass, the side that its bank belongs to, its stack, and its index there.
    settings : Settings
    """
    import torch

    fresh = [
        k
        for k, (side, _, layer) in enumerate(known)
        if layer not in side.banks and crossing.diagonal[k] is not None
    ]
    for run in runs(fresh, [crossing.widths[k] for k in fresh], [id(known[k][0]) for k in fresh]):
        bank = Bank(
            n=crossing.n,
            names=tuple(crossing.names[k] for k in run),
            mean=torch.stack([crossing.mean[k] for k in run]),
            scatter=torch.stack([b for k in run if (b := crossing.diagonal[k]) is not None]),
            norms2=crossing.products.diagonal()[run],
            dtype=settings.dtype,
            input_eps=max(rounding(known[k][1].layers[known[k][2]]) for k in run),
        )
        for row, k in enumerate(run):
            side, _, layer = known[k]
            side.banks[layer] = (bank, row)
            side.own[layer] = bank.frob2[row] - correction[k, k]


def in_order(side: Layers) -> list[tuple[Bank, int]]:
    """Bank and index of every layer, in the order of the stack."""
    return [side.banks[i] for i in sorted(side.banks)]


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
    return LayerFacts(
        width=np.array([len(v) for v in sumsq]),
        dead=np.array([int((v == 0).sum()) for v in sumsq]),
        participation=np.full(len(share), np.nan) if participation is None else participation,
        top1=np.array([v[0] for v in share]),
        top3=np.array([v[min(2, len(v) - 1)] for v in share]),
        spectrum=spectrum,
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


def facts_of(side: Layers, *, spectra: bool = False) -> LayerFacts:
    """Compute the statistics of each layer of a side; spectra cost one eigendecomposition per layer."""
    banks = in_order(side)
    return LayerFacts(
        width=np.array([bank.width for bank, _ in banks]),
        dead=np.array([int((~bank.alive[row]).sum()) for bank, row in banks]),
        participation=np.array([float(bank.participation[row]) for bank, row in banks]),
        top1=np.array([float(bank.variance_share(1)[row]) for bank, row in banks]),
        top3=np.array([float(bank.variance_share(3)[row]) for bank, row in banks]),
        spectrum=shares([_eigenvalues(bank, row) for bank, row in banks]) if spectra else None,
    )


def _eigenvalues(bank: Bank, row: int) -> np.ndarray:
    if bank.has_spectrum:
        return bank.spectrum("center")[0][row].cpu().numpy()
    return np.linalg.eigvalsh(bank.scatter[row].cpu().numpy())


def runs(items: list[int], widths: list[int], owners: list[int]) -> list[list[int]]:
    """Split a list into stretches of equal width and owner."""
    stretches: list[list[int]] = []
    previous: tuple[int, int] | None = None
    for item, width, owner in zip(items, widths, owners, strict=True):
        if previous != (width, owner):
            stretches.append([])
        stretches[-1].append(item)
        previous = (width, owner)
    return stretches


def vectors_first(measures: Sequence[Chosen]) -> list[Chosen]:
    """Order measures so that PWCCA, whose eigenvectors give the correlations of CCA and SVCCA, is first."""
    return sorted(measures, key=lambda m: m.measure.name != "pwcca")
