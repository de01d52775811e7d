"""Square maps of a stack with itself: input checks, and selection of layers with defined similarities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import must
from .numbers import read_numbers

Array = NDArray[np.float64]


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
