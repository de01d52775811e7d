"""Results of experiments: score curves, span costs and findings, with intervals."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import InputError, check_plain, must, unknown
from ..store.outfolder import RESULT, TABLE, parquet, write_files
from .claims.claim import Claim, read_claim, read_number
from .claims.render import render
from .words import Unit

if TYPE_CHECKING:
    import pandas
    import pyarrow

# Of `more`: by the name of a curve or span map, models that do not beat the majority baseline.
WEAK = "not_above_baseline"
_NOTHING: Mapping[str, Any] = MappingProxyType({})
X = int | float | str
Role = Literal["score", "difference", "control"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """
    A score along an axis, such as the layer that a head is trained on.

    Parameters
    ----------
    name : str
        Unique among the curves, such as "UNTUNED".
    axis : str
        What x is, such as "layers kept".
    x : tuple of int, float or str
    values : ndarray of shape (points,)
        NaN where undefined.
    low, high, band_low, band_high : ndarray of shape (points,)
        Pointwise intervals, and a simultaneous band over all points.
    level : float
        Of both.
    unit : Unit
        What was treated as independent: "example", "group of examples", "example and seed".
    n : int
        Number of examples.
    seeds : tuple of int
        Number of sound runs of each point.
    reasons : tuple of (str or None)
        Why a point is undefined, or which runs were left out of it.
    note : str
        Remark for the reader.
    role : {"score", "difference", "control"}
        Whether values are scores, differences from what `against` names, or scores on a control task.
    label : str
        Of the curve among others of its role; the name when empty.
    model, arm : str
        The model, and the intervention, head or reading, where a result has several.
    against : str
        What a difference is from.
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
    unit: Unit
    n: int
    seeds: tuple[int, ...]
    reasons: tuple[str | None, ...]
    note: str = ""
    role: Role = "score"
    label: str = ""
    model: str = ""
    arm: str = ""
    against: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name)
        _check_arrays(self, (len(self.x),), "a curve")
        if not len(self.seeds) == len(self.reasons) == len(self.x):
            raise must("seeds and reasons of a curve", f"one for each of {len(self.x)} points", "others")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpanMap:
    """
    Cost of skipping each span of blocks.

    Parameters
    ----------
    name : str
    depth : int
        Number of blocks of the model.
    values : ndarray of shape (depth, depth)
        Row first - 1, column last - 1: score of the whole model minus score without blocks first..last,
        positive where the model gets worse, also where lower scores are better. NaN where last < first.
    low, high, band_low, band_high : ndarray of shape (depth, depth)
        As in a curve.
    full : float
        Score of the whole model.
    level, unit, n, seeds
        As in a curve.
    note : str
    arm : str
        Such as "seed 1", where a result has several maps.
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
    unit: Unit
    n: int
    seeds: int = 1
    note: str = ""
    arm: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "full", read_number(self.full))
        _check_arrays(self, (self.depth, self.depth), "a span map")


def _check_arrays(entry: Curve | SpanMap, shape: tuple[int, ...], name: str) -> None:
    """Make a unit of the unit and arrays of the values and bounds, of the shape that they must have."""
    object.__setattr__(entry, "unit", Unit(entry.unit))
    for field_name in ("values", *_BOUNDS):
        array = np.asarray(getattr(entry, field_name), dtype=np.float64)
        object.__setattr__(entry, field_name, array)
        if array.shape != shape:
            raise must(f"{field_name} of {name}", f"of the shape {shape}", array.shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """
    Result of one experiment.

    Parameters
    ----------
    experiment : str
        Such as "truncation".
    model, task, split : str
    score : str
        The score of curves and spans; `points` is the number of points per unit of it.
    points : float
    higher_is_better : bool
    curves : tuple of Curve
    spans : tuple of SpanMap
    lines : mapping of str to float
        Scores to draw as horizontal lines, such as the majority baseline.
    rows : tuple of mapping
        The long table: plain values, one record per arm, point and seed.
    claims : tuple of Claim
        What follows, as values.
    findings : tuple of str
        Sentences with numbers and intervals: the claims as text, then sentences that are no claims.
    methods : str
        A paragraph for a paper.
    references : tuple of str
        BibTeX entries.
    warnings : tuple of str
    more : mapping
        Plain data specific to this experiment.
    provenance : mapping
        Versions, seeds, digests, device, seconds, and the command that reproduces it.
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
    claims: tuple[Claim, ...] = field(default=(), repr=False)
    findings: tuple[str, ...] = ()
    methods: str = field(default="", repr=False)
    references: tuple[str, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False)
    provenance: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False)

    def __post_init__(self) -> None:
        # Arms with the same reference may lead to the same claim.
        written: dict[str, Claim] = {}
        for claim in self.claims:
            written.setdefault(render(claim), claim)
        object.__setattr__(self, "claims", tuple(written.values()))
        object.__setattr__(self, "findings", tuple(dict.fromkeys((*written, *self.findings))))

    def __getitem__(self, name: str) -> Curve | SpanMap:
        """Find a curve or a span map by its name."""
        named = {entry.name: entry for entry in (*self.curves, *self.spans)}
        if name not in named:
            raise unknown("curve", name, named)
        return named[name]

    def document(self) -> dict[str, Any]:
        """Convert the result, without the long table, to JSON-compatible data."""
        entries = {name: plain(getattr(self, name)) for name in _SAVED}
        return {"format": f"microtome/{self.experiment}/1", **entries}

    def plot(self) -> Any:
        """Draw all panels with matplotlib, in one figure; see `microtome.figures.panels.figure_of`."""
        from importlib import import_module

        # `figures` is a higher layer than `findings`, so it is imported only on request.
        return import_module("microtome.figures.panels").figure_of(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The long table as a data frame (needs pandas)."""
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
            Created if it does not exist; files of an earlier result are replaced atomically.

        Returns
        -------
        tuple of Path
        """
        return write_files(
            folder,
            {
                RESULT: json.dumps(self.document(), allow_nan=False).encode() + b"\n",
                TABLE: parquet(_table(self.rows)),
                "methods.md": self._page().encode("utf-8", "replace"),
                "references.bib": "\n".join(self.references).encode(),
            },
        )

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
        list_items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.findings)
        return f"<p>{escape(f'{self.experiment}: {self.model}, {self.about}')}</p><ul>{list_items}</ul>"

    @property
    def about(self) -> str:
        """The task; for models tuned on one task and compared on any text, both."""
        tuned_on = self.more.get("tuned_on")
        return f"tuned on {tuned_on}, compared on {self.split}" if tuned_on else self.task


_BOUNDS = ("low", "high", "band_low", "band_high")
_SAVED = tuple(entry.name for entry in fields(Result) if entry.name != "rows")


def from_document(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] = ()) -> Result:
    """
    Build a result from the output of `Result.document`.

    Parameters
    ----------
    document : mapping
    rows : sequence of mapping
        Of the long table.

    Returns
    -------
    Result
    """
    try:
        if document["format"] != f"microtome/{document['experiment']}/1":
            raise must("the format of a result", f"microtome/{document['experiment']}/1", document["format"])
        claims = tuple(read_claim(entry) for entry in document.get("claims", ()))
        entries = {name: _frozen(document[name]) for name in _SAVED if name != "claims"}
        entries |= {
            "curves": tuple(Curve(**_fields_of(entry)) for entry in document["curves"]),
            "spans": tuple(SpanMap(**_fields_of(entry)) for entry in document["spans"]),
            "lines": MappingProxyType(
                {name: read_number(value) for name, value in document["lines"].items()}
            ),
            # Claims come first, and are written again.
            "findings": tuple(document["findings"][len(claims) :]),
        }
        return Result(rows=tuple(rows), claims=claims, **entries)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a result must be whole, but it cannot be read: {error!r}.") from error


def open_result(path: str | os.PathLike[str]) -> Result:
    """
    Read a result from a folder that `Result.save` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    Result
    """
    folder = Path(path)
    folder = folder if folder.is_dir() else folder.parent
    check_plain(folder / RESULT)
    try:
        document = json.loads((folder / RESULT).read_bytes())
        rows = _read_parquet(folder / TABLE) if (folder / TABLE).is_file() else []
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"a result must be a readable {RESULT}, but got: {error}.") from error
    return from_document(document, rows)


def plain(value: Any, *, infinities: bool = False) -> Any:
    """Convert to JSON-compatible data: lists for arrays, None for NaN, None or strings for infinities."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), infinities=infinities)
    if isinstance(value, Claim):
        return plain(value.document(), infinities=infinities)
    if isinstance(value, Curve | SpanMap):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item, infinities=infinities) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, infinities=infinities) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        sign = "-" if value < 0 else ""
        return f"{sign}Infinity" if infinities and math.isinf(value) else None
    return value


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return MappingProxyType(dict(value))
    return tuple(value) if isinstance(value, list) else value


def _fields_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _frozen(value) for name, value in entry.items()}


def _table(rows: Sequence[Mapping[str, Any]]) -> pyarrow.Table:
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    return pq.read_table(path).to_pylist()
