"""Centered sums of squares of neurons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .stack import Stack, constant_bound, rounding
from .tiles import Tiles, block_sum

if TYPE_CHECKING:
    import torch

TILE_ROWS = 1000


def column_spread(stack: Stack, device: torch.device) -> list[torch.Tensor]:
    """
    Centered sum of squares of every neuron, float64, shape (features,) for each layer.

    One pass over the rows, shifted by the mean of the first tile. A neuron whose spread is no more than the
    rounding error of its mean is constant, and its sum is 0.
    """
    import torch

    reader = Tiles([stack], dtype=torch.float64, device=device, tile_rows=TILE_ROWS)
    sums = torch.zeros(reader.offsets[-1], dtype=torch.float64, device=device)
    squares = torch.zeros_like(sums)
    for start, stop, Z in reader:
        part = block_sum(Z)
        reader.check(part, start, stop)
        sums += part
        squares += Z.square().sum(0)
    spread = squares - sums.square() / reader.n
    mean = sums / reader.n + torch.cat([shift.double() for shift in reader.shift])
    eps = torch.cat(
        [torch.full((w,), rounding(layer)) for w, layer in zip(reader.widths, stack.layers, strict=True)]
    ).to(device)
    spread[spread <= constant_bound(mean, reader.n, eps)] = 0.0
    return list(spread.split(list(reader.widths)))
