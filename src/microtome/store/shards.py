"""Recorded stacks of layers: their manifest and journal, and reading of those that do not fit into memory."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..checks import check_choice, check_distinct, whole_number
from ..errors import InputError, must
from .address import canonical
from .entry import check_file
from .files import Mark, peek_json
from .formats import LayerFile, check_range, open_file, row_numbers

FORMAT = "microtome/stack/1"
MANIFEST, JOURNAL = "manifest.json", "journal.jsonl"
# The name of each type in the format, and the NumPy type with the same bits.
DTYPES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"float16": ("F16", "<f2"), "bfloat16": ("BF16", "<u2"), "float32": ("F32", "<f4")}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """
    The layers of a stack.

    Parameters
    ----------
    layers : tuple of (str, int)
        Name and width of each layer.
    dtype : {"float16", "bfloat16", "float32"}
        The type of the stored numbers.
    """

    layers: tuple[tuple[str, int], ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """
    One file of a stack: the same rows of all layers.

    Parameters
    ----------
    file : str
    rows, bytes : int
    blake2b : str
        The checksum of the file.
    meta : mapping
        The writer's facts about the rows.
    """

    file: str
    rows: int
    bytes: int
    blake2b: str
    meta: Mapping[str, Any]

    @property
    def mark(self) -> Mark:
        """Size and checksum of the file."""
        return Mark(bytes=self.bytes, blake2b=self.blake2b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """
    A finished stack.

    Parameters
    ----------
    plan : StackPlan
    shards : tuple of Shard
        In order of their rows.
    extra : mapping
        The writer's facts about the stack.
    """

    plan: StackPlan
    shards: tuple[Shard, ...]
    extra: Mapping[str, Any]

    @property
    def rows(self) -> int:
        """Number of rows of every layer."""
        return sum(shard.rows for shard in self.shards)


def shard_name(number: int) -> str:
    """Return the file name of a shard, counted from 0."""
    return f"shard-{number:05d}.safetensors"


def make_plan(layers: Sequence[tuple[str, int]], dtype: str) -> StackPlan:
    """Validate the layers of a stack before anything is written."""
    check_choice("dtype", dtype, DTYPES)
    checked: list[tuple[str, int]] = []
    for layer in layers:
        name, width = layer if isinstance(layer, (tuple, list)) and len(layer) == 2 else (layer, None)
        if not isinstance(name, str) or not name.isprintable() or name in ("", "__metadata__"):
            raise must("the name of a layer", "printable text", name)
        checked.append((name, whole_number(f"the width of layer {name!r}", width, 1)))
    if not checked:
        raise InputError("a stack must have at least one layer, but got none.")
    check_distinct("names of layers", (name for name, _ in checked))
    return StackPlan(layers=tuple(checked), dtype=dtype)


def head_line(plan: StackPlan) -> str:
    """Return the first line of a journal, which describes the layers."""
    return canonical({"format": FORMAT, "layers": _layers_document(plan)}, "head")


def manifest_text(manifest: Manifest) -> str:
    """Serialize a manifest."""
    return canonical(
        {
            "format": FORMAT,
            "layers": _layers_document(manifest.plan),
            "rows": manifest.rows,
            "shards": [asdict(shard) for shard in manifest.shards],
            "extra": manifest.extra,
        },
        "manifest",
    )


def read_shard(document: Any, number: int) -> Shard:
    """
    Parse one shard of a journal or a manifest.

    Raises
    ------
    ValueError, TypeError, KeyError
        If it is not a valid shard of this number.
    """
    rows, size, checksum, meta = (document[key] for key in ("rows", "bytes", "blake2b", "meta"))
    # This also keeps a manifest from naming files outside its folder.
    if document["file"] != shard_name(number):
        raise ValueError(f"shard {number} has the name {document['file']!r}")
    if type(rows) is not int or rows < 1 or type(size) is not int:
        raise ValueError(f"shard {number} has {rows} rows in {size} bytes")
    if not re.fullmatch("[0-9a-f]{40}", checksum) or not isinstance(meta, dict):
        raise ValueError(f"shard {number} has no checksum")
    return Shard(file=document["file"], rows=rows, bytes=size, blake2b=checksum, meta=meta)


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """
    Read the manifest of a finished stack.

    Parameters
    ----------
    folder : path

    Returns
    -------
    Manifest
    """
    path = Path(folder) / MANIFEST
    if not path.exists() and (Path(folder) / JOURNAL).exists():
        raise InputError(f"{folder} must hold a finished stack, but its recording was interrupted.")
    try:
        document = json.loads(path.read_bytes())
    except OSError as problem:
        raise InputError(f"{path} must be a readable file, but got: {problem.strerror}.") from problem
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path} must be the whole manifest of a stack, but it is no JSON.") from problem
    form = document.get("format") if isinstance(document, dict) else None
    if form != FORMAT:
        raise must(f"the format of {path}", repr(FORMAT), form)
    try:
        dtypes = {layer["dtype"] for layer in document["layers"]}
        if len(dtypes) != 1:
            raise ValueError(f"its layers have {len(dtypes)} types")
        plan = make_plan([(layer["name"], layer["width"]) for layer in document["layers"]], dtypes.pop())
        shards = tuple(read_shard(shard, number) for number, shard in enumerate(document["shards"]))
        if not isinstance(document["extra"], dict):
            raise TypeError("extra that is no object")
        manifest = Manifest(plan=plan, shards=shards, extra=document["extra"])
        if not shards or document["rows"] != manifest.rows:
            raise ValueError(f"its shards have {manifest.rows} rows, and it says {document['rows']}")
    except (KeyError, TypeError, ValueError) as problem:
        what = f"no {problem}" if isinstance(problem, KeyError) else str(problem).rstrip(".")
        raise InputError(f"{path} must be the whole manifest of a stack, but got: {what}.") from problem
    return manifest


def is_stack(folder: Path) -> bool:
    """Whether a folder holds a recorded stack, finished or not."""
    kinds = [peek_json(folder / MANIFEST).get("format"), peek_json(folder / JOURNAL, line=True).get("format")]
    family = f"{FORMAT.rpartition('/')[0]}/"
    return any(isinstance(kind, str) and kind.startswith(family) for kind in kinds)


def _layers_document(plan: StackPlan) -> list[dict[str, Any]]:
    return [{"name": name, "width": width, "dtype": plan.dtype} for name, width in plan.layers]


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
