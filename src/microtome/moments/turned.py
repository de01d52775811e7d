"""Rotation of layers with fewer rows than features into as many features as rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .stack import Stack
from .tiles import Tiles, block_sum

if TYPE_CHECKING:
    import torch


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
    import torch

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
