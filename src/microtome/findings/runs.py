"""Runs of consecutive layers in a map, and their margins over the layers around them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .blocks import Block

LEAST_LAYERS = 3  # of a run; two neighbors are not a block

Array = NDArray[np.float64]


def layer_runs(size: int, tolerance: int) -> Iterator[tuple[tuple[int, ...], tuple[int, int]]]:
    """Yield members and ends of every run, complete or with up to `tolerance` inner layers left out."""
    for first in range(size):
        for last in range(first + LEAST_LAYERS - 1, size):
            if last - first == size - 1:
                continue
            run = tuple(range(first, last + 1))
            for count in range(min(tolerance, len(run) - LEAST_LAYERS) + 1):
                for omitted in combinations(run[1:-1], count):
                    yield tuple(k for k in run if k not in omitted), (first, last)


def run_pairs(
    size: int, members: tuple[int, ...], span: tuple[int, int], two_stacks: bool
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Flat indices of the pairs inside a run, and of those with one layer inside and one outside."""
    member = np.isin(np.arange(size), members)
    around = (np.arange(size) < span[0]) | (np.arange(size) > span[1])
    inside = member[:, None] & member[None]
    if not two_stacks:
        np.fill_diagonal(inside, False)
    outside = (member[:, None] & around[None]) | (around[:, None] & member[None])
    return np.flatnonzero(inside), np.flatnonzero(outside)


def margin_errors(values: Array, errors: Array, block: Block) -> Array:
    """
    Contribution of each unit to the error of a block's margin in the map of a stack with itself.

    Parameters
    ----------
    values : array of shape (layers, layers)
    errors : array of shape (units, layers, layers)
        As in `block_structure`.
    block : Block

    Returns
    -------
    array of shape (units,)
        Of the least similar pair inside minus the most similar pair across the border.
    """
    layers = np.arange(len(values))
    members = tuple(k for k in range(block.first, block.last + 1) if k not in block.without)
    inside, outside = run_pairs(len(layers), members, (block.first, block.last), False)
    cells = values.ravel()
    low, high = (indices[np.isfinite(cells[indices])] for indices in (inside, outside))
    spread = errors.reshape(len(errors), -1)
    return spread[:, low[cells[low].argmin()]] - spread[:, high[cells[high].argmax()]]
