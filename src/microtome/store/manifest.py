"""Manifest and journal of a recorded stack of layers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..checks import check_choice, check_distinct, whole_number
from ..errors import InputError, must
from .address import canonical
from .files import Mark
from .reading import peek_json
from .tensors import DTYPES

FORMAT = "microtome/stack/1"
MANIFEST, JOURNAL = "manifest.json", "journal.jsonl"


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


def shard_line(shard: Shard) -> str:
    """Return the line of a journal for a finished shard."""
    return canonical(asdict(shard), "shard")


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
