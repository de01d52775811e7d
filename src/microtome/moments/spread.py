"""How far does each neuron spread?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .stack import Stack
from .tiles import Tiles, block_sum

if TYPE_CHECKING:
    import torch

TILE_ROWS = 1000


def column_spread(stack: Stack, device: torch.device) -> list[torch.Tensor]:
    """
    Centered sum of squares of every neuron, float64, shape (features,) for each layer.

    One reading of the rows, shifted by the mean of the first ones.
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
    spread = (squares - sums.square() / reader.n).clamp_min_(0.0)
    return list(spread.split(list(reader.widths)))
