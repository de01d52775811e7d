"""Spread of neurons, and the standardizing or removal of neurons by their spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..lazy import torch
from .stack import Stack, constant_bound, rounding
from .tiles import Tiles, block_sum

TILE_ROWS = 1000


def column_spread(stack: Stack, device: torch.device) -> list[torch.Tensor]:
    """
    Centered sum of squares of every neuron, float64, shape (features,) for each layer.

    One pass over the rows, shifted by the mean of the first tile. A neuron whose spread is no more than the
    rounding error of its mean is constant, and its sum is 0.
    """
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


def controlled(stack: Stack, *, zscore: bool, remove_top: int, device: torch.device) -> Stack:
    """
    Standardize neurons, or remove those of largest variance, as a control for outlier dimensions.

    Parameters
    ----------
    stack : Stack
    zscore : bool
        Divide each neuron by its standard deviation.
    remove_top : int
        How many neurons of largest variance to leave out of each layer.
    device : torch.device

    Returns
    -------
    Stack
    """
    if not zscore and not remove_top:
        return stack
    columns, scales = [], []
    for neurons in column_spread(stack, device):
        spread = neurons.cpu().numpy()
        keep = np.arange(len(spread))
        if remove_top:
            keep = np.sort(np.argsort(-spread, kind="stable")[remove_top:])
        if zscore and (spread[keep] > 0).any():
            # The values of a constant neuron are rounding error, which standardizing would amplify.
            keep = keep[spread[keep] > 0]
        sd = np.sqrt(spread[keep] / (stack.rows - 1))
        columns.append(keep)
        scales.append(np.where(sd > 0, 1 / np.where(sd > 0, sd, 1.0), 1.0) if zscore else None)
    return replace(stack, columns=tuple(columns), scales=tuple(scales))
