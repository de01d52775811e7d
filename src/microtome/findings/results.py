"""What did an experiment on layers find? Curves, costs of spans, and sentences, each with its doubt."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, must, unknown

if TYPE_CHECKING:
    import pandas

RESULT = "result.json"
_NOTHING: Mapping[str, Any] = MappingProxyType({})
X = int | float | str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """
    A score along an axis, such as the layer that a head reads.

    Parameters
    ----------
    name : str
        What sets it apart from the other curves, such as "UNTUNED".
    axis : str
        What x is, such as "layers kept".
    x : tuple of int, float or str
    values : ndarray of shape (points,)
        NaN where undefined.
    low, high : ndarray of shape (points,)
        An interval for each point alone.
    band_low, band_high : ndarray of shape (points,)
        A band that holds all points at once.
    level : float
        Of both.
    unit : str
        What was taken as independent: "example", "group of examples", "example and seed".
    n : int
        Examples.
    seeds : tuple of int
        Sound runs behind each point.
    reasons : tuple of (str or None)
        Why a point is undefined, or which runs were left out of it.
    note : str
        What a reader must know of it.
    """

    name: str
    axis: str
    x: tuple[X, ...]
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    band_low: np.ndarray
    band_high: np.ndarray
    level: float
    unit: str
    n: int
    seeds: tuple[int, ...]
    reasons: tuple[str | None, ...]
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("values", *_BOUNDS):
            found = np.asarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, found)
            if found.shape != (len(self.x),):
                raise must(f"{name} of a curve", f"of the shape ({len(self.x)},)", found.shape)
        if not len(self.seeds) == len(self.reasons) == len(self.x):
            raise must("seeds and reasons of a curve", f"one for each of {len(self.x)} points", "others")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpanMap:
    """
    What skipping each span of blocks costs.

    Parameters
    ----------
    name : str
    depth : int
        Blocks of the model.
    values : ndarray of shape (depth, depth)
        Row first - 1, column last - 1: score of the whole model minus score without blocks first..last,
        positive where something is lost, whichever way the score runs. NaN where last < first.
    low, high, band_low, band_high : ndarray of shape (depth, depth)
        As in a curve.
    full : float
        Score of the whole model.
    level, unit, n, seeds
        As in a curve.
    note : str
    """

    name: str
    depth: int
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    band_low: np.ndarray
    band_high: np.ndarray
    full: float
    level: float
    unit: str
    n: int
    seeds: int = 1
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("values", *_BOUNDS):
            found = np.asarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, found)
            if found.shape != (self.depth, self.depth):
                raise must(f"{name} of a span map", f"of the shape {(self.depth,) * 2}", found.shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """
    What one experiment found.

    Parameters
    ----------
    experiment : str
        Such as "truncation".
    model, task, split : str
    score : str
        The score that curves and spans are in; `points` of 100 a unit of it is worth.
    points : float
    higher_is_better : bool
    curves : tuple of Curve
    spans : tuple of SpanMap
    lines : mapping of str to float
        Scores to draw as level lines, such as the most frequent answer.
    rows : tuple of mapping
        The long table: plain values, one record an arm, point and seed.
    findings : tuple of str
        What may be said, as sentences with numbers and doubt.
    methods : str
        A paragraph for a paper.
    references : tuple of str
        BibTeX entries.
    warnings : tuple of str
    more : mapping
        Plain data of this experiment alone.
    provenance : mapping
        Versions, seeds, digests, device, seconds, and the command that makes it again.
    """

    experiment: str
    model: str
    task: str
    split: str
    score: str
    points: float = 100.0
    higher_is_better: bool = True
    curves: tuple[Curve, ...] = ()
    spans: tuple[SpanMap, ...] = ()
    lines: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    rows: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    findings: tuple[str, ...] = ()
    methods: str = field(default="", repr=False)
    references: tuple[str, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False)
    provenance: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False)

    def __getitem__(self, name: str) -> Curve | SpanMap:
        """Find a curve or a span map by its name."""
        known = {one.name: one for one in (*self.curves, *self.spans)}
        if name not in known:
            raise unknown("curve", name, known)
        return known[name]

    def document(self) -> dict[str, Any]:
        """The whole result, but for the long table, as data that strict JSON can hold."""
        return {
            "format": f"microtome/{self.experiment}/1",
            **{name: getattr(self, name) for name in _SCALARS},
            "curves": [_plain_fields(one, _CURVE) for one in self.curves],
            "spans": [_plain_fields(one, _SPANS) for one in self.spans],
            **{name: plain(getattr(self, name)) for name in _LISTS},
        }

    def plot(self) -> Any:
        """Draw all panels with matplotlib, in one figure; see `microtome.figures.panels.figure_of`."""
        from importlib import import_module

        # Figures stand above findings; a result only forwards to them on request.
        return import_module("microtome.figures.panels").figure_of(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The long table (needs pandas)."""
        try:
            import pandas
        except ImportError as error:
            raise InputError("to_pandas must find pandas installed; try `pip install pandas`.") from error
        return pandas.DataFrame([dict(row) for row in self.rows])

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """
        Write `result.json`, `table.parquet`, `methods.md` and `references.bib` into a folder.

        Parameters
        ----------
        folder : path
            Made if it is not there; files of an earlier result are replaced, each in one step.

        Returns
        -------
        tuple of Path
        """
        from .record import make_folder, replace_file

        place = make_folder(folder)
        contents = {
            RESULT: json.dumps(self.document(), allow_nan=False).encode() + b"\n",
            "table.parquet": _parquet(self.rows),
            "methods.md": self._page().encode("utf-8", "replace"),
            "references.bib": "\n".join(self.references).encode(),
        }
        for name, content in contents.items():
            replace_file(place / name, content)
        return tuple(place / name for name in contents)

    def _page(self) -> str:
        sections = ["# Methods", self.methods]
        for title, sentences in (("Findings", self.findings), ("Warnings", self.warnings)):
            if sentences:
                sections += [f"## {title}", "\n".join(f"- {sentence}" for sentence in sentences)]
        command = self.provenance.get("command")
        if command:
            sections += ["## To repeat", f"```console\n{command}\n```"]
        return "\n\n".join(sections) + "\n"

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.findings)
        return f"<p>{escape(f'{self.experiment}: {self.model}, {self.about}')}</p><ul>{said}</ul>"

    @property
    def about(self) -> str:
        """The task; for models tuned on one task and compared on any text, both."""
        tuned_on = self.more.get("tuned_on")
        return f"tuned on {tuned_on}, compared on {self.split}" if tuned_on else self.task


_BOUNDS = ("low", "high", "band_low", "band_high")
_SCALARS = ("experiment", "model", "task", "split", "score", "points", "higher_is_better")
_LISTS = ("lines", "findings", "methods", "references", "warnings", "more", "provenance")
_CURVE = ("name", "axis", "x", "values", *_BOUNDS, "level", "unit", "n", "seeds", "reasons", "note")
_SPANS = ("name", "depth", "values", *_BOUNDS, "full", "level", "unit", "n", "seeds", "note")


def from_document(read: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] = ()) -> Result:
    """
    Make a result of what `Result.document` gave.

    Parameters
    ----------
    read : mapping
    rows : sequence of mapping
        Of the long table.

    Returns
    -------
    Result
    """
    try:
        if read["format"] != f"microtome/{read['experiment']}/1":
            raise must("the format of a result", f"microtome/{read['experiment']}/1", read["format"])
        return Result(
            **{name: read[name] for name in _SCALARS},
            curves=tuple(Curve(**_arrays(one)) for one in read["curves"]),
            spans=tuple(SpanMap(**_arrays(one)) for one in read["spans"]),
            lines=MappingProxyType({n: _number(v) for n, v in read["lines"].items()}),
            rows=tuple(rows),
            findings=tuple(read["findings"]),
            methods=read["methods"],
            references=tuple(read["references"]),
            warnings=tuple(read["warnings"]),
            more=MappingProxyType(dict(read["more"])),
            provenance=MappingProxyType(dict(read["provenance"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a result must be whole, but it cannot be read: {error!r}.") from error


def open_result(path: str | os.PathLike[str]) -> Result:
    """
    Read a result from the folder that `Result.save` filled.

    Parameters
    ----------
    path : path

    Returns
    -------
    Result
    """
    place = Path(path)
    place = place if place.is_dir() else place.parent
    try:
        read = json.loads((place / RESULT).read_bytes())
        rows = _read_parquet(place / "table.parquet") if (place / "table.parquet").is_file() else []
    except (OSError, ValueError) as error:
        raise InputError(f"a result must be a readable {RESULT}, but got: {error}.") from error
    return from_document(read, rows)


def plain(value: Any) -> Any:
    """Plain data: lists for arrays, None for what is no number."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _plain_fields(one: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: plain(getattr(one, name)) for name in names}


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _arrays(read: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: tuple(value) if isinstance(value, list) else value for name, value in read.items()}
    for name in ("values", *_BOUNDS):
        found[name] = np.array(read[name], dtype=np.float64)  # None becomes NaN
    if "full" in found:
        found["full"] = _number(found["full"])
    return found


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for row in rows for name in row))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), sink)
    return sink.getvalue().to_pybytes()


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    return pq.read_table(path).to_pylist()
