"""Resumable recording of a stack of layers into shards, in the safetensors format."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, must
from .address import canonical
from .entry import check_file
from .files import TEMPORARY, disk, sync_folder, write_whole
from .shards import (
    DTYPES,
    JOURNAL,
    MANIFEST,
    Manifest,
    Shard,
    head_line,
    make_plan,
    manifest_text,
    read_shard,
    shard_name,
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


class ShardWriter:
    """
    Writer of a stack of layers, some rows at a time; it owns its folder.

    A shard is valid if its line is in the journal and its checksum is right. When a folder is reopened, the
    first invalid shard is removed, with all that follow.

    Parameters
    ----------
    folder : path
        Created if it does not exist. Only one writer at a time may use it; see `Shelf.work`.
    layers : sequence of (str, int)
        Name and width of each layer.
    dtype : {"float16", "bfloat16", "float32"}
        The type of the stored numbers.
    """

    def __init__(
        self, folder: str | os.PathLike[str], layers: Sequence[tuple[str, int]], dtype: str = "float32"
    ) -> None:
        self.folder = Path(folder)
        self.plan = make_plan(layers, dtype)
        self._shards: list[Shard] = []
        self._head = f"{head_line(self.plan)}\n".encode("ascii")
        with disk(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._length = self._resume()

    @property
    def done(self) -> int:
        """Number of complete shards."""
        return len(self._shards)

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The complete shards, with their rows and metadata."""
        return tuple(self._shards)

    def write(self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any] | None = None) -> Shard:
        """
        Write the next rows of all layers as one shard.

        Parameters
        ----------
        arrays : mapping of str to ndarray of shape (rows, width)
            float16, float32 or float64 numbers of each layer, rounded to the nearest stored number, ties to
            even; or for bfloat16 their bits as uint16.
        meta : mapping, optional
            Facts about the rows: plain data.

        Returns
        -------
        Shard
        """
        rows = self._check(arrays)
        # A deep copy, as it will be read back.
        facts = json.loads(canonical(meta or {}, "meta"))
        name = shard_name(self.done)
        with disk(self.folder):
            self._unfinish()
            ordered = {layer: arrays[layer] for layer, _ in self.plan.layers}
            mark = write_whole(self.folder / name, safetensors_pieces(ordered, self.plan.dtype))
            shard = Shard(file=name, rows=rows, bytes=mark.bytes, blake2b=mark.blake2b, meta=facts)
            self._append(f"{canonical(asdict(shard), 'shard')}\n".encode("ascii"))
        self._shards.append(shard)
        return shard

    def finish(self, extra: Mapping[str, Any] | None = None) -> Manifest:
        """
        Write the manifest: only then can the stack be opened.

        Parameters
        ----------
        extra : mapping, optional
            Facts about the stack: plain data.

        Returns
        -------
        Manifest
        """
        if not self._shards:
            raise InputError("a stack must have at least one shard before it is finished, but it has none.")
        facts = json.loads(canonical(extra or {}, "extra"))
        manifest = Manifest(plan=self.plan, shards=self.shards, extra=facts)
        write_whole(self.folder / MANIFEST, [f"{manifest_text(manifest)}\n".encode("ascii")])
        return manifest

    def _check(self, arrays: Mapping[str, np.ndarray]) -> int:
        names = [name for name, _ in self.plan.layers]
        if set(arrays) != set(names):
            raise InputError(
                f"arrays must be one for each of the layers {', '.join(names)}, but got "
                f"{', '.join(map(str, arrays)) or 'none'}."
            )
        kinds = ["float16", "float32", "float64", *(["uint16"] if self.plan.dtype == "bfloat16" else [])]
        rows = len(arrays[names[0]]) if np.ndim(arrays[names[0]]) else 0
        for name, width in self.plan.layers:
            array = arrays[name]
            if not isinstance(array, np.ndarray) or array.dtype.name not in kinds:
                got = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
                raise must(f"the array of layer {name!r}", f"of the type {', '.join(kinds)}", got)
            if rows < 1 or array.shape != (rows, width):
                raise InputError(
                    f"the array of layer {name!r} must have the shape [{rows or 'rows'}, {width}], but got "
                    f"{list(array.shape)}."
                )
        return rows

    def _resume(self) -> int:
        """Find the valid shards, drop the others, and return the length of the journal."""
        content = self._read_journal()
        length = len(self._head)
        for line in content[length:].splitlines(keepends=True):
            try:
                # A line without a newline may be truncated.
                shard = read_shard(json.loads(line), self.done) if line.endswith(b"\n") else None
            except (ValueError, TypeError, KeyError, RecursionError):
                break
            if shard is None or check_file(self.folder / shard.file, shard.mark) is not None:
                break
            self._shards.append(shard)
            length += len(line)
        if length < len(content):
            self._unfinish()
            os.truncate(self.folder / JOURNAL, length)
        self._drop_leftovers()
        return length

    def _read_journal(self) -> bytes:
        path = self.folder / JOURNAL
        content = path.read_bytes() if path.exists() else b""
        if not content:
            write_whole(path, [self._head])
            return self._head
        if not content.startswith(self._head):
            raise InputError(
                f"{path} must be of the same layers and type when a recording goes on, but it is of others."
            )
        return content

    def _append(self, line: bytes) -> None:
        handle = os.open(self.folder / JOURNAL, os.O_RDWR)
        try:
            # Bytes left by a failed attempt would make the line unreadable.
            os.ftruncate(handle, self._length)
            os.lseek(handle, 0, os.SEEK_END)
            unwritten = memoryview(line)
            while unwritten:
                unwritten = unwritten[os.write(handle, unwritten) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        self._length += len(line)

    def _drop_leftovers(self) -> None:
        """Remove invalid shards and temporary files."""
        recorded = {shard.file for shard in self._shards}
        shards = [path for path in self.folder.glob("shard-*.safetensors") if path.name not in recorded]
        if shards:
            self._unfinish()
        for path in (*shards, *self.folder.glob(f".*{TEMPORARY}")):
            path.unlink()
        sync_folder(self.folder)

    def _unfinish(self) -> None:
        # A manifest must never coexist with shards that it does not describe.
        (self.folder / MANIFEST).unlink(missing_ok=True)
