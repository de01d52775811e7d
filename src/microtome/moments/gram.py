"""Alternatives to moments of features for few rows: Gram matrices of the rows, and rotated layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..lazy import torch
from .stack import Stack
from .tiles import Tiles, block_sum, squared_norms

BLOCK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class GramProducts:
    """
    The statistics of several layers that CKA needs, with layers numbered left first, then right.

    Parameters
    ----------
    frob2 : Tensor of shape (layers, layers)
        Inner products of the centered Gram matrices, which are the squared norms of the cross-scatters.
    norms : Tensor of shape (layers, n)
        Squared length of each centered row.
    sumsq : list of Tensor of shape (features,)
        Centered sums of squares of the neurons.
    eigenvalues : list of Tensor, or None
        The eigenvalues of each layer's scatter matrix, without those that are 0 for lack of rows; None
        unless requested.
    """

    frob2: torch.Tensor
    norms: torch.Tensor
    sumsq: list[torch.Tensor]
    eigenvalues: list[torch.Tensor] | None = None


def gram_bytes(stacks: Sequence[Stack], itemsize: int) -> int:
    """Memory in bytes that `gram_products` needs: the rows themselves, and blocks of Gram matrices."""
    features = sum(sum(stack.widths) for stack in stacks)
    layers = sum(len(stack) for stack in stacks)
    return stacks[0].rows * features * itemsize + layers * BLOCK**2 * (itemsize + 8)


def gram_products(
    stacks: Sequence[Stack], *, dtype: torch.dtype, device: torch.device, spectra: bool = False
) -> GramProducts:
    """
    Multiply the centered Gram matrices of all layers with each other, block by block.

    Parameters
    ----------
    stacks : sequence of Stack
        Left, and right if there is one.
    dtype, device
        The precision and device of the inner products; their products are summed in float64.
    spectra : bool
        Whether to compute the spectrum of each layer too.

    Returns
    -------
    GramProducts
    """
    reader = Tiles(stacks, dtype=dtype, device=device, tile_rows=stacks[0].rows)
    start, stop, Z = next(iter(reader))
    total = block_sum(Z)
    reader.check(total, start, stop)
    Z -= (total / reader.n).to(dtype)
    count, n = len(reader.widths), reader.n
    parts = [reader.part(Z, k) for k in range(count)]
    frob2 = torch.zeros((count, count), dtype=torch.float64, device=device)
    for a in range(0, n, BLOCK):
        for b in range(a, n, BLOCK):
            inner = torch.stack([(x[a : a + BLOCK] @ x[b : b + BLOCK].T).flatten() for x in parts]).double()
            # A block above the diagonal counts for its mirror image too.
            frob2 += (1 if a == b else 2) * (inner @ inner.T)
    norms = squared_norms(Z, reader.widths)
    sumsq = [torch.linalg.vector_norm(x, dim=0).double().square() for x in parts]
    eigenvalues = [_eigenvalues(x) for x in parts] if spectra else None
    return GramProducts(frob2=frob2, norms=norms, sumsq=sumsq, eigenvalues=eigenvalues)


def _eigenvalues(x: torch.Tensor) -> torch.Tensor:
    # Both products have the same eigenvalues except for zeros; the smaller one is cheaper.
    small = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    return torch.linalg.eigvalsh(small.double())


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """
    A stack of n by n layers with the inner products of the original rows.

    Parameters
    ----------
    stack : Stack
    sumsq : list of Tensor of shape (features,)
        Centered sums of squares of the original neurons, which the rotation mixes.
    """

    stack: Stack
    sumsq: list[torch.Tensor]


def turn(stack: Stack, *, dtype: torch.dtype, device: torch.device) -> Turned:
    """
    Center each layer and rotate it into as many features as there are rows.

    Every rotation-invariant measure has the same value on the rotated layers, at n / d of the cost: the
    analogue, for all of these measures, of the Gram-matrix form of CKA.

    Parameters
    ----------
    stack : Stack
        With fewer rows than features.
    dtype, device
        The dtype and device of the rotated layers.

    Returns
    -------
    Turned
    """
    layers, sumsq = [], []
    for i in range(len(stack)):
        reader = Tiles([stack.select([i])], dtype=torch.float64, device=device, tile_rows=stack.rows)
        _, _, Z = next(iter(reader))
        total = block_sum(Z)
        reader.check(total, 0, stack.rows)
        Z = Z - total / stack.rows
        sumsq.append(Z.square().sum(0))
        # X' = Q R gives X X' = R' R, so the rows of R' have the same inner products as those of X.
        R = torch.linalg.qr(Z.mT, mode="r").R
        layers.append(R.mT.to(dtype))
    plain = (None,) * len(layers)
    return Turned(
        stack=replace(stack, layers=tuple(layers), index=None, columns=plain, scales=plain), sumsq=sumsq
    )
