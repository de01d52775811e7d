"""The maps of a comparison: lookup, findings, methods, and files."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..errors import InputError, must, unknown
from ..inference.estimate import Sides
from ..measures.table import ALIASES, chosen
from ..store.outfolder import RESULT, TABLE, parquet, write_files
from .claims.claim import Claim, read_claim
from .claims.layers import map_claims
from .claims.render import render
from .maps import Map
from .methods import methods_page, methods_paragraph, references
from .results import plain
from .stackblocks import StackBlocks, blocks_document, read_blocks

if TYPE_CHECKING:
    import pandas

R = TypeVar("R")
FORMAT = "microtome/similarity/1"
# Above this size a file is identified by its size and modification time, not by its content.
HASHED_BYTES = 64_000_000

_SCALARS = ("measure", "n", "estimator", "null_note", "level", "method", "unit", "target", "precision")
_TABLES = ("values", "null_mean", "z", "p", "low", "high", "p_map")
_SIDES = ("rank", "kept", "lost", "layers")
_MAY_BE_NONE = ("low", "high", "p_map")
# Infinities are kept, as strings.
_plain = partial(plain, infinities=True)


class Maps(Mapping[str, Map]):
    """
    The maps of one comparison, by the name of their measure.

    A paper's name for a measure is accepted too, and its plain name where there is only one variant.

    Parameters
    ----------
    maps : sequence of Map
    notes : sequence of str
        Sentences about them that are no claims, such as the rows they are of.
    blocks : sequence of StackBlocks
        Block structure of each stack, where it was tested.
    claims : sequence of Claim, optional
        As they were saved; made from the maps and blocks when absent.
    """

    def __init__(
        self,
        maps: Sequence[Map],
        notes: Sequence[str] = (),
        blocks: Sequence[StackBlocks] = (),
        claims: Sequence[Claim] | None = None,
    ) -> None:
        self._maps = {similarity_map.measure: similarity_map for similarity_map in maps}
        self.notes, self.blocks = tuple(notes), tuple(blocks)
        self._claims = claims

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """What follows from the maps, as values."""
        return map_claims(self) if self._claims is None else tuple(self._claims)

    @property
    def findings(self) -> tuple[str, ...]:
        """The claims as text, then the notes."""
        return (*map(render, self.claims), *self.notes)

    def __getitem__(self, name: str) -> Map:
        if name in self._maps:
            return self._maps[name]
        if not isinstance(name, str):
            raise unknown("measure", name, self._maps)
        name_of = ALIASES.get(name, name)
        matches = [m for label, m in self._maps.items() if name_of in (label, label.split(":")[0])]
        if len(matches) == 1:
            return matches[0]
        if name.split(":")[0] in ALIASES or ":" in name:
            label = chosen(name).label
            if label in self._maps:
                return self._maps[label]
        raise unknown("measure", name, self._maps)

    def __iter__(self) -> Iterator[str]:
        return iter(self._maps)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of all maps, each once."""
        return tuple(dict.fromkeys(warning for entry in self._maps.values() for warning in entry.warnings))

    @property
    def methods(self) -> str:
        """A paragraph for a paper."""
        return methods_paragraph(self)

    @property
    def references(self) -> tuple[str, ...]:
        """BibTeX entries of the measures."""
        return (references(self),)

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What is needed to reproduce the maps, where it is the same for all of them."""
        return MappingProxyType(self._shared_provenance() or {})

    def _shared_provenance(self) -> dict[str, Any] | None:
        """The provenance of all maps; None where they differ."""
        first, *others = [dict(entry.provenance) for entry in self._maps.values()] or [{}]
        return first if all(other == first for other in others) else None

    def document(self) -> dict[str, Any]:
        """Convert the maps to JSON-compatible data, without their resamples; NaN is None."""
        shared = self._shared_provenance()
        return {
            "format": FORMAT,
            "maps": [_map_document(entry, with_provenance=shared is None) for entry in self._maps.values()],
            "claims": [_plain(claim.document()) for claim in self.claims],
            "findings": list(self.findings),
            **(
                {"blocks": [_plain(blocks_document(blocks)) for blocks in self.blocks]} if self.blocks else {}
            ),
            "methods": self.methods,
            "references": references(self),
            "provenance": _plain(shared or {}),
        }

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """
        Write `result.json`, `table.parquet`, `methods.md` and `references.bib`; `microtome.open` reads them.

        Parameters
        ----------
        folder : path
            Created if it does not exist; files of an earlier result are replaced atomically.

        Returns
        -------
        tuple of Path
        """
        import pyarrow as pa

        contents = {RESULT: to_json(self).encode() + b"\n"}
        table = pa.concat_tables([entry.to_arrow() for entry in self._maps.values()])
        contents |= {
            TABLE: parquet(table, {"format": FORMAT}),
            "methods.md": methods_page(self, findings=self.findings).encode("utf-8", "replace"),
            "references.bib": references(self).encode(),
        }
        return write_files(folder, contents)

    def plot(self) -> dict[str, Any]:
        """Draw all maps with matplotlib: the axes of each measure, in figures of their own."""
        return {name: entry.plot() for name, entry in self._maps.items()}

    def to_pandas(self) -> pandas.DataFrame:
        """One record per measure and cell, as a data frame (needs pandas)."""
        frames = [entry.to_pandas() for entry in self._maps.values()]
        import pandas

        return pandas.concat(frames, ignore_index=True)

    def __len__(self) -> int:
        return len(self._maps)

    def __repr__(self) -> str:
        return "<Maps " + ", ".join(self._maps) + ">"

    def _repr_html_(self) -> str:
        return "".join(similarity_map._repr_html_() for similarity_map in self._maps.values())


def to_json(maps: Maps) -> str:
    """
    Write the maps of one comparison as one line of strict JSON; see `Maps.document`.

    Examples
    --------
    >>> to_json(Maps([]))
    Traceback (most recent call last):
    microtome.errors.InputError: a record must hold at least one map, but got none.
    """
    if not maps:
        raise InputError("a record must hold at least one map, but got none.")
    return json.dumps(maps.document(), allow_nan=False)


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


def _array(values: Any) -> np.ndarray:
    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(item) for item in value]
        return math.nan if value is None else float(value) if isinstance(value, str) else value

    return np.array(filled(values))


def _refuse(constant: str) -> Any:
    raise ValueError(f"the constant {constant}")
