"""Layers in .npy and .safetensors files, with memory-mapped access to their rows."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, WorkError, check_plain, listed
from .files import natural_key

if TYPE_CHECKING:
    from .shards import ShardedLayer

SUFFIXES = (".npy", ".safetensors")

# bfloat16 has no numpy type: its bits are the upper half of a float32.
_SAFETENSORS_DTYPES = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}
_NPY_DTYPES = ("float16", "float32", "float64")
_MAX_HEADER = 100_000_000  # the limit of the safetensors format


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFile:
    """
    One layer inside a file: the location and type of its numbers.

    Nothing is read before `rows` or `take` is called, and then only the requested rows.

    Parameters
    ----------
    name : str
        The tensor's name or the file's stem, followed by `/3` for layer 3 of a stack; inside a folder,
        a tensor's name follows the stem of its file.
    path : Path
    shape : tuple of int
        (rows, features).
    dtype : str
        "float16", "bfloat16", "float32" or "float64": the type in the file.
    stored : str
        The numpy type of the stored numbers with its byte order, such as "<f4".
    offset : int
        The position of the first number, in bytes from the start of the file.
    strides : tuple of int
        Bytes from one row to the next, and from one feature to the next.
    """

    name: str
    path: Path
    shape: tuple[int, int]
    dtype: str
    stored: str
    offset: int
    strides: tuple[int, int]

    def rows(self, start: int, stop: int) -> np.ndarray:
        """
        Read consecutive rows.

        Parameters
        ----------
        start, stop : int
            The first row, and the one after the last.

        Returns
        -------
        ndarray of shape (stop - start, features)
            In the file's own floating type, bfloat16 as float32.
        """
        check_range(self.name, self.shape[0], start, stop)
        return self._numbers(self._view()[start:stop])

    def take(self, index: Iterable[int] | np.ndarray) -> np.ndarray:
        """
        Read the rows with the given numbers, in the given order.

        Parameters
        ----------
        index : sequence of int
            Row numbers from 0; a row may occur more than once.

        Returns
        -------
        ndarray of shape (len(index), features)
            In the file's own floating type, bfloat16 as float32.
        """
        return self._numbers(self._view()[row_numbers(self.name, self.shape[0], index)])

    def _view(self) -> np.ndarray:
        # Reading a mapped page beyond the end of the file kills the process, so the size is checked first.
        kind = np.dtype(self.stored)
        last = sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        try:
            if self.path.stat().st_size < self.offset + last + kind.itemsize:
                raise WorkError(f"{self.path} must stay as it was when it was opened, but it is shorter now.")
            raw = np.memmap(self.path, dtype=np.uint8, mode="r")
        except OSError as problem:
            raise WorkError(f"{self.path} must stay readable, but got: {problem}.") from problem
        return np.ndarray(self.shape, kind, buffer=raw, offset=self.offset, strides=self.strides)

    def _numbers(self, part: np.ndarray) -> np.ndarray:
        if self.dtype == "bfloat16":
            return (part.astype(np.uint32) << 16).view(np.float32)
        return np.array(part, dtype=part.dtype.newbyteorder("="), order="C")


def check_range(name: str, rows: int, start: int, stop: int) -> None:
    """Raise if a range of rows exceeds the rows of a layer."""
    if not 0 <= start <= stop <= rows:
        raise InputError(f"rows of {name} must be between 0 and {rows}, but got {start} to {stop}.")


def row_numbers(name: str, rows: int, index: Iterable[int] | np.ndarray) -> np.ndarray:
    """Convert an index into an array of row numbers; raise if a layer does not have them."""
    numbers = np.asarray(index if isinstance(index, np.ndarray) else list(index))
    if numbers.size == 0:
        numbers = numbers.astype(np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise InputError(f"row numbers must be a list of whole numbers, but got {numbers.dtype} values.")
    wrong = numbers[(numbers < 0) | (numbers >= rows)]
    if wrong.size:
        raise InputError(f"row numbers of {name} must be between 0 and {rows - 1}, but got {wrong[0]}.")
    return numbers


def open_layers(path: str | os.PathLike[str]) -> list[LayerFile] | list[ShardedLayer]:
    """
    List the layers of a file, or of all the array files of a folder.

    Parameters
    ----------
    path : str or path
        A `.npy` file with an array of shape (rows, features) or (layers, rows, features); a
        `.safetensors` file whose tensors have such shapes; or a folder of those. Other files of a folder
        are ignored, and so are its subfolders and hidden files. Or the folder of a recorded stack, which
        has a manifest.

    Returns
    -------
    list of LayerFile, or of ShardedLayer
        Files and tensors in the natural order of their names (layer2 before layer10), the layers of a
        stack in their own order.
    """
    location = Path(path)
    if not os.fspath(path) or not location.exists():
        raise InputError(f"path must be a file or a folder that exists, but got {os.fspath(path)!r}.")
    if not location.is_dir():
        return _checked(open_file(location))
    from .shards import is_stack, open_stack  # which imports this module

    if is_stack(location):
        return open_stack(location)
    files = [f for f in location.iterdir() if _suffix(f) in SUFFIXES and not f.name.startswith(".")]
    files = sorted((f for f in files if not f.is_dir()), key=lambda f: (natural_key(f.stem), f.name))
    if not files:
        raise InputError(f"{location} must hold .npy or .safetensors files, but there is none.")
    return _checked([layer for f in files for layer in open_file(f, prefix=f"{f.stem}/")])


def _checked(layers: list[LayerFile]) -> list[LayerFile]:
    """Raise if two layers have the same name."""
    seen: dict[str, Path] = {}
    for layer in layers:
        if layer.name in seen:
            raise InputError(
                f"layer names must differ, but {layer.name!r} comes from {seen[layer.name].name} "
                f"and from {layer.path.name}."
            )
        seen[layer.name] = layer.path
    return layers


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def open_file(path: Path, prefix: str = "") -> list[LayerFile]:
    """List the layers of one file; names of tensors of a .safetensors file get the prefix."""
    if _suffix(path) not in SUFFIXES:
        raise InputError(f"a file of layers must end in {' or '.join(SUFFIXES)}, but got {path.name!r}.")
    check_plain(path)
    try:
        return _open_npy(path) if _suffix(path) == ".npy" else _open_safetensors(path, prefix)
    except OSError as problem:
        raise InputError(f"{path} must be a readable file, but got: {problem}.") from problem


def _cut(
    name: str, path: Path, shape: tuple[int, ...], stored: np.dtype, dtype: str, offset: int, *, fortran: bool
) -> list[LayerFile]:
    """Split one array of two or three dimensions into its layers."""
    if len(shape) not in (2, 3) or min(shape) < 1:
        raise InputError(
            f"{name!r} in {path} must have the shape [rows, features] or [layers, rows, features], none of "
            f"them 0, but got {list(shape)}."
        )
    strides = [stored.itemsize] * len(shape)
    for axis in range(1, len(shape)) if fortran else range(len(shape) - 2, -1, -1):
        neighbor = axis - 1 if fortran else axis + 1
        strides[axis] = strides[neighbor] * shape[neighbor]
    names = [name] if len(shape) == 2 else [f"{name}/{i}" for i in range(shape[0])]
    return [
        LayerFile(
            name=layer_name,
            path=path,
            shape=(shape[-2], shape[-1]),
            dtype=dtype,
            stored=stored.str,
            offset=offset + i * strides[0] * (len(shape) == 3),
            strides=(strides[-2], strides[-1]),
        )
        for i, layer_name in enumerate(names)
    ]


def _open_npy(path: Path) -> list[LayerFile]:
    headers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    with path.open("rb") as file:
        try:
            shape, fortran, stored = headers[np.lib.format.read_magic(file)](file)
        except OSError:
            raise
        except Exception as problem:  # a header is text that numpy parses: any failure means a broken file
            raise InputError(f"{path} must be a whole .npy file, but its header cannot be read.") from problem
        offset = file.tell()
    if stored.hasobject:
        raise InputError(
            f"{path} must hold plain numbers, but it holds Python objects, which would run code when loaded."
        )
    if stored.name not in _NPY_DTYPES:
        raise InputError(f"{path} must hold {listed(_NPY_DTYPES)} numbers, but got {stored.name}.")
    if min(shape, default=1) < 0:
        raise InputError(f"{path} must be a whole .npy file, but its header says shape {list(shape)}.")
    _check_size(path, offset + stored.itemsize * math.prod(shape))
    return _cut(path.stem, path, shape, stored, stored.name, offset, fortran=fortran)


def _check_size(path: Path, expected: int) -> None:
    size = path.stat().st_size
    if size != expected:
        state = "cut short" if size < expected else "followed by something else"
        raise InputError(f"{path} must be {expected} bytes long, but it has {size}: it is {state}.")


def _open_safetensors(path: Path, prefix: str) -> list[LayerFile]:
    with path.open("rb") as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MAX_HEADER):
            raise InputError(f"{path} must be a whole .safetensors file, but its header is cut short.")
        entries = _read_header(path, file.read(length))
    if not entries:
        raise InputError(f"{path} must hold at least one tensor, but it holds none.")
    layers: dict[str, list[LayerFile]] = {}
    data = end = 8 + length
    for name, (kind, shape, begin, stop) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if kind not in _SAFETENSORS_DTYPES:
            allowed = listed(_SAFETENSORS_DTYPES)
            raise InputError(f"{name!r} in {path} must hold {allowed} numbers, but got {kind}.")
        stored = np.dtype(_SAFETENSORS_DTYPES[kind])
        # The format has no gaps: each tensor begins where the one before it ends.
        if data + begin != end or stop - begin != stored.itemsize * math.prod(shape):
            raise InputError(
                f"{name!r} in {path} must begin where the tensor before it ends and fill the bytes of its "
                f"shape {list(shape)}, but its offsets are {begin} and {stop}."
            )
        dtype = "bfloat16" if kind == "BF16" else stored.name
        layers[name] = _cut(f"{prefix}{name}", path, shape, stored, dtype, data + begin, fortran=False)
        end = data + stop
    _check_size(path, end)
    return [layer for name in sorted(layers, key=natural_key) for layer in layers[name]]


def _read_header(path: Path, text: bytes) -> dict[str, tuple[str, tuple[int, ...], int, int]]:
    """Parse the header of a safetensors file into dtype, shape, begin and end by tensor name."""
    broken = InputError(f"{path} must be a whole .safetensors file, but its header cannot be read.")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise broken
        return dict(pairs)

    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=once)
        # A lone surrogate can be written in JSON but not in a result file.
        json.dumps(header, ensure_ascii=False).encode("utf-8")
    except InputError:
        raise
    except (ValueError, RecursionError) as problem:
        raise broken from problem
    if not isinstance(header, dict) or not text.startswith(b"{"):
        raise broken
    entries: dict[str, tuple[str, tuple[int, ...], int, int]] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            if not isinstance(entry, dict) or not all(isinstance(v, str) for v in entry.values()):
                raise broken
            continue
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise broken
        kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        lists = isinstance(kind, str) and isinstance(shape, list) and isinstance(offsets, list)
        if not lists or len(offsets) != 2 or not all(type(v) is int and v >= 0 for v in shape + offsets):
            raise broken
        entries[name] = (kind, tuple(shape), offsets[0], offsets[1])
    return entries
