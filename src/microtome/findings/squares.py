"""Square maps of a stack with itself: input checks, layers with defined similarities, and runs of layers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError, must

if TYPE_CHECKING:
    from .blocks import Block

LEAST_LAYERS = 3  # of a run; two neighbors are not a block

Array = NDArray[np.float64]


def read_numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """
    Read an array of numbers, in which NaN marks undefined values.

    Parameters
    ----------
    name : str
        Name in error messages.
    values : array

    Returns
    -------
    array, float64
    """
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{name} must have no mask, but it is a masked array; fill what is masked with NaN.")
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise must(name, "an array of numbers", values) from problem


def read_map(name: str, values: ArrayLike, *, ndim: int = 2) -> Array:
    """
    Read a map of one stack with itself: square in its last two axes, the two directions averaged.

    Parameters
    ----------
    name : str
        Name in error messages.
    values : array of shape (..., layers, layers)
    ndim : int
        Required number of axes.

    Returns
    -------
    array of shape (..., layers, layers), float64, symmetric
    """
    array = read_numbers(name, values)
    if not array.size or array.ndim != ndim or array.shape[-1] != array.shape[-2]:
        shape = "[layers, layers]" if ndim == 2 else "[groups, layers, layers]"
        raise must(f"the shape of {name}", shape, array.shape)
    return (array + np.swapaxes(array, -1, -2)) / 2


def usable_layers(*maps: Array) -> tuple[NDArray[np.intp], tuple[int, ...]]:
    """
    Find layers among which every similarity is defined, by a greedy search that leaves out few.

    Parameters
    ----------
    *maps : array of shape (..., layers, layers)
        Diagonals are not used.

    Returns
    -------
    used : array of int
    left_out : tuple of int
    """
    size = maps[0].shape[-1]
    undefined = np.zeros((size, size), dtype=bool)
    for values in maps:
        undefined |= ~np.isfinite(values).reshape(-1, size, size).all(axis=0)
    undefined |= undefined.T
    np.fill_diagonal(undefined, False)
    left_out: list[int] = []
    while undefined.any():
        worst = int(undefined.sum(axis=1).argmax())
        left_out.append(worst)
        undefined[worst], undefined[:, worst] = False, False
    return np.setdiff1d(np.arange(size), left_out), tuple(sorted(left_out))


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
