"""Conversion of array inputs to float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError, must


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
