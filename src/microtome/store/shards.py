"""Reading of a recorded stack of layers that need not fit into memory."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .checking import check_file
from .formats import LayerFile, check_range, open_file, row_numbers
from .manifest import MANIFEST, Manifest, read_manifest, shard_name
from .recording import ShardWriter as ShardWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedLayer:
    """
    One layer whose rows are split over several files.

    Nothing is read before `rows` or `take` is called, and then only the requested rows.

    Parameters
    ----------
    name : str
    path : Path
        The manifest; it holds the checksums of all the files.
    shape : tuple of int
        (rows, features).
    dtype : str
        "float16", "bfloat16" or "float32": the type in the files.
    parts : tuple of LayerFile
        The layer in each of the files.
    starts : tuple of int
        The number of the first row of each part.
    """

    name: str
    path: Path
    shape: tuple[int, int]
    dtype: str
    parts: tuple[LayerFile, ...]
    starts: tuple[int, ...]

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
            In the files' own floating type, bfloat16 as float32.
        """
        check_range(self.name, self.shape[0], start, stop)
        out = self._empty(stop - start)
        for i in range(bisect_right(self.starts, start) - 1, len(self.parts)):
            part, first = self.parts[i], self.starts[i]
            if first >= stop:
                break
            low, high = max(start, first), min(stop, first + part.shape[0])
            out[low - start : high - start] = part.rows(low - first, high - first)
        return out

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
            In the files' own floating type, bfloat16 as float32.
        """
        numbers = row_numbers(self.name, self.shape[0], index).astype(np.int64)
        out = self._empty(len(numbers))
        owner = np.searchsorted(self.starts, numbers, side="right") - 1
        order = np.argsort(owner, kind="stable")
        owners, begins = np.unique(owner[order], return_index=True)
        for i, positions in zip(owners.tolist(), np.split(order, begins[1:]), strict=False):
            out[positions] = self.parts[i].take(numbers[positions] - self.starts[i])
        return out

    def _empty(self, rows: int) -> np.ndarray:
        return np.empty((rows, self.shape[1]), "float32" if self.dtype == "bfloat16" else self.dtype)


def open_stack(folder: str | os.PathLike[str]) -> list[ShardedLayer]:
    """
    List the layers of a recorded stack.

    Parameters
    ----------
    folder : path
        A finished recording of `ShardWriter`.

    Returns
    -------
    list of ShardedLayer
        In the order in which they were recorded.
    """
    manifest = read_manifest(folder)
    opened = [_open_shard(manifest, Path(folder), number) for number in range(len(manifest.shards))]
    starts = tuple(np.cumsum([0, *(shard.rows for shard in manifest.shards[:-1])]).tolist())
    return [
        ShardedLayer(
            name=name,
            path=Path(folder) / MANIFEST,
            shape=(manifest.rows, width),
            dtype=manifest.plan.dtype,
            parts=tuple(shard[name] for shard in opened),
            starts=starts,
        )
        for name, width in manifest.plan.layers
    ]


def _open_shard(manifest: Manifest, folder: Path, number: int) -> Mapping[str, LayerFile]:
    shard = manifest.shards[number]
    path = folder / shard_name(number)
    problem = check_file(path, shard.mark, content=False)
    if problem is not None:
        raise InputError(problem)
    layers = {layer.name: layer for layer in open_file(path)}
    expected = {name: (manifest.plan.dtype, (shard.rows, width)) for name, width in manifest.plan.layers}
    if {name: (layer.dtype, layer.shape) for name, layer in layers.items()} != expected:
        raise InputError(
            f"{path} must hold the layers of its manifest, {_listed(expected)}, but it holds "
            f"{_listed({name: (layer.dtype, layer.shape) for name, layer in layers.items()})}."
        )
    problem = check_file(path, shard.mark, once=True)
    if problem is not None:
        raise InputError(problem)
    return layers


def _listed(layers: Mapping[str, tuple[str, Sequence[Any]]]) -> str:
    names = [f"{name} {dtype} {list(shape)}" for name, (dtype, shape) in layers.items()]
    return ", ".join([*names[:3], *(["..."] if len(names) > 3 else [])])
