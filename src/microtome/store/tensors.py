"""Streaming serialization of arrays in the safetensors format."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from ..errors import InputError

# The name of each type in the format, and the NumPy type with the same bits.
DTYPES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"float16": ("F16", "<f2"), "bfloat16": ("BF16", "<u2"), "float32": ("F32", "<f4")}
)
# Numbers converted at a time.
_PIECE = 1 << 20


def safetensors_pieces(arrays: Mapping[str, np.ndarray], dtype: str) -> Iterator[bytes | memoryview]:
    """
    Serialize arrays in the safetensors format: the length of the header, the header, the numbers.

    Parameters
    ----------
    arrays : mapping of str to ndarray of shape (rows, features)
        float16, float32 or float64 numbers, or for a file of bfloat16 their bits as uint16.
    dtype : {"float16", "bfloat16", "float32"}
        The type of the stored numbers: float32, or rounded from it to the nearest, ties to even.

    Yields
    ------
    bytes
    """
    kind, stored = DTYPES[dtype]
    header, end = {}, 0
    for name, array in arrays.items():
        begin, end = end, end + np.dtype(stored).itemsize * math.prod(array.shape)
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name, array in arrays.items():
        step = max(1, _PIECE // max(1, array.shape[1]))
        for start in range(0, len(array), step):
            piece = _convert(array[start : start + step], dtype, stored, name)
            yield piece.reshape(-1).view(np.uint8).data


def to_bfloat16(numbers: np.ndarray) -> np.ndarray:
    """
    Round float32 numbers to bfloat16: to the nearest, ties to even.

    Parameters
    ----------
    numbers : ndarray of float32

    Returns
    -------
    ndarray of uint16
        The bits; NaN stays NaN.

    Examples
    --------
    >>> [hex(bits) for bits in to_bfloat16(np.array([1.0, -2.0, np.inf], dtype=np.float32))]
    ['0x3f80', '0xc000', '0x7f80']
    """
    bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32)
    upper = bits >> 16
    # Half of the last kept bit, a little less if that bit is even; it carries into the exponent.
    rounded = (bits + (np.uint32(0x7FFF) + (upper & 1))) >> 16
    return np.where(np.isnan(numbers), upper | 0x40, rounded).astype(np.uint16)


def _convert(part: np.ndarray, dtype: str, stored: str, name: str) -> np.ndarray:
    if part.dtype.kind == "u":
        return np.ascontiguousarray(part, dtype=stored)
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = np.ascontiguousarray(part, dtype=np.float32)
        if dtype == "bfloat16":
            piece = to_bfloat16(numbers).astype(stored, copy=False)
            lost = (piece & 0x7FFF) == 0x7F80
        else:
            piece = numbers.astype(stored, copy=False)
            lost = np.isinf(piece)
    lost &= np.isfinite(part)
    if lost.any():
        raise InputError(
            f"numbers of layer {name!r} must be small enough for {dtype}, but got {float(part[lost][0]):g}."
        )
    return piece
