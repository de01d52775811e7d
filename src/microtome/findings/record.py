"""How is a comparison kept in files, so that it can be read again and checked?"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import InputError, WorkError, must
from ..inference.estimate import Sides
from .maps import Map, Maps
from .methods import methods_page, methods_paragraph, references
from .stackblocks import StackBlocks, blocks_document, read_blocks

FORMAT = "microtome/similarity/1"
RESULT = "result.json"
# Above this size a file is known by its size and the time it was changed, not by its content.
HASHED_BYTES = 64_000_000

_SCALARS = ("measure", "n", "estimator", "null_note", "level", "method", "unit", "target", "precision")
_TABLES = ("values", "null_mean", "z", "p", "low", "high", "p_map")
_SIDES = ("rank", "kept", "lost", "layers")
_MAY_BE_NONE = ("low", "high", "p_map")


def document(maps: Mapping[str, Map], *, findings: Sequence[str] = ()) -> dict[str, Any]:
    """
    Turn the maps of one comparison into plain data that strict JSON can hold.

    Parameters
    ----------
    maps : Maps
    findings : sequence of str
        Sentences that say what the maps show.

    Returns
    -------
    dict
        NaN is None, and each undefined cell has its reason. Resamples are not part of it.
    """
    every = list(maps.values())
    blocks: Sequence[StackBlocks] = maps.blocks if isinstance(maps, Maps) else ()
    shared = _shared_provenance(every)
    return {
        "format": FORMAT,
        "maps": [_map_document(one, with_provenance=shared is None) for one in every],
        **({"findings": list(findings)} if findings else {}),
        **({"blocks": [_plain(blocks_document(one)) for one in blocks]} if blocks else {}),
        "methods": methods_paragraph(maps),
        "references": references(maps),
        "provenance": _plain(shared or {}),
    }


def to_json(maps: Mapping[str, Map], *, findings: Sequence[str] = ()) -> str:
    """
    Write the maps of one comparison as one line of strict JSON; see `document`.

    Examples
    --------
    >>> to_json(Maps([]))
    Traceback (most recent call last):
    microtome.errors.InputError: a record must hold at least one map, but got none.
    """
    if not maps:
        raise InputError("a record must hold at least one map, but got none.")
    return json.dumps(document(maps, findings=findings), allow_nan=False)


def from_json(text: str | bytes) -> Maps:
    """
    Read the maps of a comparison from what `to_json` wrote.

    Parameters
    ----------
    text : str or bytes

    Returns
    -------
    Maps
        Equal to those that were written, without their resamples.
    """
    try:
        read = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(f"a record must be strict JSON, but got: {error}.") from error
    if not isinstance(read, dict) or read.get("format") != FORMAT:
        raise must("a record's format", FORMAT, read.get("format") if isinstance(read, dict) else None)
    try:
        said = [str(sentence) for sentence in read.get("findings", [])]
        blocks = [read_blocks(one) for one in read.get("blocks", [])]
        return Maps([_read_map(one, read.get("provenance", {})) for one in read["maps"]], said, blocks)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a record must hold whole maps, but one cannot be read: {error!r}.") from error


def write(
    maps: Mapping[str, Map], out_dir: str | os.PathLike[str], *, findings: Sequence[str] = ()
) -> tuple[Path, ...]:
    """
    Write a comparison into a folder.

    Parameters
    ----------
    maps : Maps
    out_dir : path
        Made if it is not there; files of an earlier result are replaced, each in one step.
    findings : sequence of str
        Sentences that say what the maps show.

    Returns
    -------
    tuple of Path
        `result.json`, `table.parquet` (one record a cell), `methods.md` and `references.bib`.
    """
    folder = make_folder(out_dir)
    contents = {
        RESULT: to_json(maps, findings=findings).encode() + b"\n",
        "table.parquet": _parquet(maps),
        "methods.md": methods_page(maps, findings=findings).encode("utf-8", "replace"),
        "references.bib": references(maps).encode(),
    }
    for name, content in contents.items():
        replace_file(folder / name, content)
    return tuple(folder / name for name in contents)


def open_record(path: str | os.PathLike[str]) -> Maps:
    """
    Read the maps of a folder that `write` filled, or of its `result.json`.

    Parameters
    ----------
    path : path

    Returns
    -------
    Maps
    """
    place = Path(path)
    place = place / RESULT if place.is_dir() else place
    try:
        content = place.read_bytes()
    except OSError as error:
        raise InputError(f"a record must be a readable {RESULT}, but got: {error}.") from error
    return from_json(content)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder to write into, or say why it cannot be one."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        # The system's own words for the common case, a file of that name, are of no use to most.
        why = "it is a file" if folder.is_file() else error.strerror or error
        raise InputError(
            f"a folder to write to must be one that can be made, but got {folder}: {why}."
        ) from error
    if not os.access(folder, os.W_OK):
        raise must("a folder to write to", "writable", str(folder))
    return folder


def check_earlier(path: str | os.PathLike[str], kind: str) -> None:
    """
    Refuse a folder with a result of another kind, which would be lost.

    Parameters
    ----------
    path : path
        Of `--out`; it need not be there.
    kind : str
        What is to be written, as its format has it: "change" for "microtome/change/1".
    """
    try:
        told = json.loads((Path(path) / RESULT).read_bytes())["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        # What cannot be read, or is no result, is none that could be taken for another.
        return
    found = str(told).removeprefix("microtome/").rpartition("/")[0] or str(told)
    if found != kind:
        raise InputError(
            f"--out must be a new folder or one of an earlier `{kind}`, but {path} holds the result of "
            f"`{found}`."
        )


def with_source(maps: Maps, *, command: str, inputs: Iterable[Mapping[str, Any]]) -> Maps:
    """
    Add to the provenance of every map the command that makes it again, and what it was made from.

    Parameters
    ----------
    maps : Maps
    command : str
    inputs : iterable of mapping
        See `describe_file`.

    Returns
    -------
    Maps
    """
    more = {"command": command, "inputs": [dict(one) for one in inputs]}
    told = [replace(m, provenance=MappingProxyType({**m.provenance, **more})) for m in maps.values()]
    return Maps(told, maps.findings, maps.blocks)


def describe_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """
    Say which file this is: path, bytes, and its SHA-256, or for a large one when it was changed.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict
    """
    try:
        stat = os.stat(path)
        known: dict[str, Any] = {"path": os.fspath(path), "bytes": stat.st_size}
        if stat.st_size > HASHED_BYTES:
            return {**known, "modified_ns": stat.st_mtime_ns}
        with open(path, "rb") as file:
            return {**known, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    except OSError as error:
        raise InputError(f"an input must be a readable file, but got: {error}.") from error


def _shared_provenance(maps: Sequence[Map]) -> dict[str, Any] | None:
    first = dict(maps[0].provenance) if maps else {}
    return first if all(dict(m.provenance) == first for m in maps) else None


def _map_document(one: Map, *, with_provenance: bool) -> dict[str, Any]:
    return {
        **{name: _plain(getattr(one, name)) for name in _SCALARS},
        "left": list(one.left),
        "right": list(one.right),
        "symmetric": one.symmetric,
        **{name: _plain(getattr(one, name)) for name in _TABLES},
        "reasons": [list(row) for row in one.reasons],
        "warnings": list(one.warnings),
        **{name: _sides_document(getattr(one, name)) for name in _SIDES},
        "details": _plain(one.details),
        **({"provenance": _plain(one.provenance)} if with_provenance else {}),
    }


def _sides_document(sides: Sides) -> dict[str, Any]:
    return {"left": _plain(sides.left), "right": _plain(sides.right)}


def _read_map(read: Mapping[str, Any], shared: Mapping[str, Any]) -> Map:
    shape = len(read["left"]), len(read["right"])
    tables: dict[str, Any] = {}
    for name in _TABLES:
        table = read[name]
        if table is None and name in _MAY_BE_NONE:
            tables[name] = None
            continue
        tables[name] = _array(table).astype(np.float64)
        if tables[name].shape != shape:
            raise must(f"{name} of a record", f"of the shape {shape}", tables[name].shape)
    reasons = tuple(tuple(row) for row in read["reasons"])
    if (len(reasons), *{len(row) for row in reasons}) != shape:
        raise must("reasons of a record", f"of the shape {shape}", [len(row) for row in reasons])
    fields: dict[str, Any] = {
        **{name: read[name] for name in _SCALARS},
        **tables,
        **{name: Sides(*(_side(read[name][side]) for side in Sides._fields)) for name in _SIDES},
        "left": tuple(read["left"]),
        "right": tuple(read["right"]),
        "symmetric": bool(read["symmetric"]),
        "reasons": reasons,
        "warnings": tuple(read["warnings"]),
        "details": _arrays(read["details"]),
        "provenance": MappingProxyType(dict(read.get("provenance", shared))),
    }
    return Map(**fields)


def _side(read: Any) -> Any:
    if read is None:
        return None
    return _arrays(read) if isinstance(read, dict) else _array(read)


def _arrays(read: Mapping[str, Any]) -> Mapping[str, np.ndarray]:
    return MappingProxyType({name: _array(table) for name, table in read.items()})


def _plain(value: Any) -> Any:
    """Plain data: lists for arrays, None for NaN, and words for the infinities that JSON has no sign for."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _array(read: Any) -> np.ndarray:
    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(item) for item in value]
        return math.nan if value is None else float(value) if isinstance(value, str) else value

    return np.array(filled(read))


def _refuse(constant: str) -> Any:
    raise ValueError(f"the constant {constant}")


def _parquet(maps: Mapping[str, Map]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.concat_tables([one.to_arrow() for one in maps.values()])
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({"format": FORMAT}), sink)
    return sink.getvalue().to_pybytes()


def replace_file(path: Path, content: bytes) -> None:
    """Write a file in one step."""
    # A reader sees the whole old file or the whole new one, also when the writer is stopped.
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise WorkError(f"{path} must be writable, but got: {error}.") from error
