"""Alternatives to moments of features for few rows: Gram matrices of the rows, and rotated layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..lazy import torch
from .stack import Stack, constant_bound, make_stack, rounding
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
    unit_products : Tensor of shape (layers, layers, units), optional
        The inner products of the centered Gram matrices, divided among the units that their rows belong to.
    """

    frob2: torch.Tensor
    norms: torch.Tensor
    sumsq: list[torch.Tensor]
    eigenvalues: list[torch.Tensor] | None = None
    unit_products: torch.Tensor | None = None


def gram_bytes(stacks: Sequence[Stack], itemsize: int) -> int:
    """Memory in bytes that `gram_products` needs: the rows themselves, and blocks of Gram matrices."""
    features = sum(sum(stack.widths) for stack in stacks)
    layers = sum(len(stack) for stack in stacks)
    return stacks[0].rows * features * itemsize + layers * BLOCK**2 * (2 * itemsize + 8)


def gram_products(
    stacks: Sequence[Stack],
    *,
    dtype: torch.dtype,
    device: torch.device,
    spectra: bool = False,
    units: np.ndarray | None = None,
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
    units : ndarray of shape (n,), optional
        Number of the unit of each row, for `unit_products`.

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
    for k, (part, (stack, layer)) in enumerate(zip(parts, reader.layers, strict=True)):
        mean = reader.shift[k].double() + reader.part(total[None], k)[0] / n
        # What is left of a constant neuron is the rounding error of its mean.
        part[:, _sums_of_squares(part) <= constant_bound(mean, n, rounding(stack.layers[layer]))] = 0.0
    frob2 = torch.zeros((count, count), dtype=torch.float64, device=device)
    codes = torch.zeros(n, dtype=torch.int64) if units is None else torch.as_tensor(units, device=device)
    divided = None if units is None else frob2.new_zeros((count, count, int(units.max()) + 1))
    for a in range(0, n, BLOCK):
        for b in range(a, n, BLOCK):
            inner = torch.stack([x[a : a + BLOCK] @ x[b : b + BLOCK].T for x in parts])
            if divided is not None:
                _divide(divided, inner.permute(1, 0, 2), codes[a : a + BLOCK])
                if a < b:
                    _divide(divided, inner.permute(2, 0, 1).contiguous(), codes[b : b + BLOCK])
            inner = inner.flatten(1).double()
            # A block above the diagonal counts for its mirror image too.
            frob2 += (1 if a == b else 2) * (inner @ inner.T)
    norms = squared_norms(Z, reader.widths)
    sumsq = [_sums_of_squares(x) for x in parts]
    eigenvalues = [_eigenvalues(x) for x in parts] if spectra else None
    return GramProducts(frob2=frob2, norms=norms, sumsq=sumsq, eigenvalues=eigenvalues, unit_products=divided)


def _sums_of_squares(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(x, dim=0).double().square()


def _divide(total: torch.Tensor, inner: torch.Tensor, codes: torch.Tensor) -> None:
    """Add products of a block of Gram matrices, shape (rows, layers, columns), to the units of its rows."""
    total.index_add_(2, codes, (inner @ inner.mT).permute(1, 2, 0).double())


def _eigenvalues(x: torch.Tensor) -> torch.Tensor:
    # Both products have the same eigenvalues except for zeros; the smaller one is cheaper.
    small = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    return torch.linalg.eigvalsh(small.double())


def turn(stack: Stack, *, dtype: torch.dtype, device: torch.device) -> tuple[Stack, list[torch.Tensor]]:
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
    stack : Stack
        Layers of n by n with the inner products of the original rows.
    sumsq : list of Tensor of shape (features,)
        Centered sums of squares of the original neurons, which the rotation mixes.
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
    return make_stack(layers, names=stack.names), sumsq
