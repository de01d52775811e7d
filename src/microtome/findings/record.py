"""Saving and loading of the maps of a comparison."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from ..errors import InputError, WorkError, check_plain, must
from ..inference.estimate import Sides
from ..store.outfolder import FILES, RESULT, check_foreign, kind_of
from .claims.claim import read_claim
from .maps import Map, Maps
from .methods import methods_page, methods_paragraph, references
from .stackblocks import blocks_document, read_blocks

R = TypeVar("R")
FORMAT = "microtome/similarity/1"
# Above this size a file is identified by its size and modification time, not by its content.
HASHED_BYTES = 64_000_000

_SCALARS = ("measure", "n", "estimator", "null_note", "level", "method", "unit", "target", "precision")
_TABLES = ("values", "null_mean", "z", "p", "low", "high", "p_map")
_SIDES = ("rank", "kept", "lost", "layers")
_MAY_BE_NONE = ("low", "high", "p_map")


def document(maps: Maps) -> dict[str, Any]:
    """
    Convert the maps of one comparison to JSON-compatible data.

    Parameters
    ----------
    maps : Maps

    Returns
    -------
    dict
        NaN is None, and each undefined cell has its reason. Resamples are not part of it.
    """
    all_maps = list(maps.values())
    shared = shared_provenance(all_maps)
    return {
        "format": FORMAT,
        "maps": [
            _map_document(similarity_map, with_provenance=shared is None) for similarity_map in all_maps
        ],
        "claims": [_plain(claim.document()) for claim in maps.claims],
        "findings": list(maps.findings),
        **({"blocks": [_plain(blocks_document(blocks)) for blocks in maps.blocks]} if maps.blocks else {}),
        "methods": methods_paragraph(maps),
        "references": references(maps),
        "provenance": _plain(shared or {}),
    }


def to_json(maps: Maps) -> str:
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
    return json.dumps(document(maps), allow_nan=False)


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
        record = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(f"a record must be strict JSON, but got: {error}.") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise must("a record's format", FORMAT, record.get("format") if isinstance(record, dict) else None)
    try:
        claims = [read_claim(entry) for entry in record.get("claims", [])]
        # Claims come first, and are written again.
        notes = [str(sentence) for sentence in record.get("findings", [])[len(claims) :]]
        # Findings of an earlier definition, which had no blocks, are ignored.
        blocks = [read_blocks(entry) for entry in record.get("blocks", []) if "blocks" in entry["finding"]]
        maps = [_read_map(entry, record.get("provenance", {})) for entry in record["maps"]]
        return Maps(maps, notes, blocks, claims)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a record must hold whole maps, but one cannot be read: {error!r}.") from error


def write(maps: Maps, out_dir: str | os.PathLike[str]) -> tuple[Path, ...]:
    """
    Write a comparison into a folder.

    Parameters
    ----------
    maps : Maps
    out_dir : path
        Created if it does not exist; files of an earlier result are replaced atomically.

    Returns
    -------
    tuple of Path
        `result.json`, `table.parquet` (one record per cell), `methods.md` and `references.bib`.
    """
    check_foreign(Path(out_dir))
    folder = make_folder(out_dir)
    contents = {
        RESULT: to_json(maps).encode() + b"\n",
        "table.parquet": _parquet(maps),
        "methods.md": methods_page(maps, findings=maps.findings).encode("utf-8", "replace"),
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
    file = Path(path)
    file = file / RESULT if file.is_dir() else file
    check_plain(file)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"a record must be a readable {RESULT}, but got: {error}.") from error
    return from_json(content)


def check_folder(path: str | os.PathLike[str]) -> Path:
    """Check that a folder can be created and written to, without creating it."""
    folder = Path(path)
    existing = next(
        candidate for candidate in (folder, *folder.absolute().parents) if os.path.lexists(candidate)
    )
    if not existing.is_dir():
        # The system's message for the common case, a file of that name, is unclear to most users.
        why = "it is a file" if existing == folder else f"{existing} is a file"
        raise InputError(f"a folder to write to must be one that can be made, but got {folder}: {why}.")
    if not os.access(existing, os.W_OK):
        raise must("a folder to write to", "writable", str(existing))
    return folder


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder to write to, or raise an error with the reason."""
    folder = check_folder(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"a folder to write to must be one that can be made, but got {folder}: {error.strerror or error}."
        ) from error
    return folder


def check_earlier(path: str | os.PathLike[str], kind: str, names: Iterable[str] = FILES) -> None:
    """
    Check that no result of another kind and no foreign file would be overwritten in a folder.

    Parameters
    ----------
    path : path
        Of `--out`; it need not exist.
    kind : str
        Kind of the new result, as in its format: "change" for "microtome/change/1".
    names : iterable of str
        The files that are to be written, as names or patterns.
    """
    check_plain(Path(path) / RESULT)
    earlier = kind_of(Path(path) / RESULT)
    if earlier not in (None, kind):
        raise InputError(
            f"--out must be a new folder or one of an earlier `{kind}`, but {path} holds the result of "
            f"`{earlier}`."
        )
    check_foreign(Path(path), names)


def with_facts(result: R, **facts: Any) -> R:
    """
    Add facts to the provenance of a result, such as the command and the options that reproduce it.

    Parameters
    ----------
    result : Maps, Result or another dataclass
        With a field `provenance`; or with a field `facts`, where the provenance follows from others.
    **facts
        Plain data.

    Returns
    -------
    Maps, Result or the other dataclass
    """
    if isinstance(result, Maps):
        maps = [with_facts(similarity_map, **facts) for similarity_map in result.values()]
        return type(result)(maps, result.notes, result.blocks)
    record: Any = result
    if any(part.name == "provenance" for part in fields(record)):
        return replace(record, provenance=MappingProxyType({**record.provenance, **facts}))
    return replace(record, facts=MappingProxyType({**record.facts, **facts}))


def describe_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """
    Describe a file: path, bytes, and its SHA-256, or for a large one its modification time.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict
    """
    try:
        stat = os.stat(path)
        facts: dict[str, Any] = {"path": os.fspath(path), "bytes": stat.st_size}
        if stat.st_size > HASHED_BYTES:
            return {**facts, "modified_ns": stat.st_mtime_ns}
        with open(path, "rb") as file:
            return {**facts, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    except OSError as error:
        raise InputError(f"an input must be a readable file, but got: {error}.") from error


def shared_provenance(maps: Sequence[Map]) -> dict[str, Any] | None:
    """The provenance of all maps; None where they differ."""
    first = dict(maps[0].provenance) if maps else {}
    return first if all(dict(m.provenance) == first for m in maps) else None


def _map_document(similarity_map: Map, *, with_provenance: bool) -> dict[str, Any]:
    return {
        **{name: _plain(getattr(similarity_map, name)) for name in _SCALARS},
        "left": list(similarity_map.left),
        "right": list(similarity_map.right),
        "symmetric": similarity_map.symmetric,
        **{name: _plain(getattr(similarity_map, name)) for name in _TABLES},
        "reasons": [list(row) for row in similarity_map.reasons],
        "warnings": list(similarity_map.warnings),
        **{name: _sides_document(getattr(similarity_map, name)) for name in _SIDES},
        "details": _plain(similarity_map.details),
        **({"provenance": _plain(similarity_map.provenance)} if with_provenance else {}),
    }


def _sides_document(sides: Sides) -> dict[str, Any]:
    return {"left": _plain(sides.left), "right": _plain(sides.right)}


def _read_map(record: Mapping[str, Any], shared: Mapping[str, Any]) -> Map:
    shape = len(record["left"]), len(record["right"])
    if not all(isinstance(name, str) for name in (record["measure"], *record["left"], *record["right"])):
        raise InputError("a record must name its measure and layers by text, but one of the names is none.")
    tables: dict[str, Any] = {}
    for name in _TABLES:
        table = record[name]
        if table is None and name in _MAY_BE_NONE:
            tables[name] = None
            continue
        tables[name] = _array(table).astype(np.float64)
        if tables[name].shape != shape:
            raise must(f"{name} of a record", f"of the shape {shape}", tables[name].shape)
    reasons = tuple(tuple(row) for row in record["reasons"])
    if (len(reasons), *{len(row) for row in reasons}) != shape:
        raise must("reasons of a record", f"of the shape {shape}", [len(row) for row in reasons])
    fields: dict[str, Any] = {
        **{name: record[name] for name in _SCALARS},
        **tables,
        **{name: Sides(*(_side(record[name][side]) for side in Sides._fields)) for name in _SIDES},
        "left": tuple(record["left"]),
        "right": tuple(record["right"]),
        "symmetric": bool(record["symmetric"]),
        "reasons": reasons,
        "warnings": tuple(record["warnings"]),
        "details": _arrays(record["details"]),
        "provenance": MappingProxyType(dict(record.get("provenance", shared))),
    }
    return Map(**fields)


def _side(value: Any) -> Any:
    if value is None:
        return None
    return _arrays(value) if isinstance(value, dict) else _array(value)


def _arrays(tables: Mapping[str, Any]) -> Mapping[str, np.ndarray]:
    return MappingProxyType({name: _array(table) for name, table in tables.items()})


def _plain(value: Any) -> Any:
    """Convert to JSON-compatible data: lists for arrays, None for NaN, strings for infinities."""
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


def _array(values: Any) -> np.ndarray:
    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(item) for item in value]
        return math.nan if value is None else float(value) if isinstance(value, str) else value

    return np.array(filled(values))


def _refuse(constant: str) -> Any:
    raise ValueError(f"the constant {constant}")


def _parquet(maps: Mapping[str, Map]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.concat_tables([similarity_map.to_arrow() for similarity_map in maps.values()])
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({"format": FORMAT}), sink)
    return sink.getvalue().to_pybytes()


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    # A reader sees either the old file or the new one, also when the writer is interrupted.
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
