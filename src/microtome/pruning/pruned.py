"""Result of pruning: the blocks that stay, the tests, and the smaller model."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..findings.claims.claim import Claim
from ..findings.claims.render import render
from ..findings.results import plain
from .certifying import Step
from .exporting import FORMAT, KIND, export, write_pruned
from .looks import Look
from .margin import Drop
from .speed import Speed

if TYPE_CHECKING:
    from ..training.models.taskmodel import TaskModel
    from ..training.opening import Model

Cut = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """
    What pruning found.

    Parameters
    ----------
    name, task, score : str
    unit : str
        Of drops: "points" of 100, or "of perplexity".
    depth : int
        Blocks of the whole model.
    kept : tuple of int
        Blocks that stay: all of them where nothing can be cut safely.
    max_drop, level : float
        The margin, and the one-sided level that all looks at the same examples keep together.
    candidates : tuple of mapping
        Every cut that was scored: `kept`, `removed`, `cost` in points on the examples that choose.
    tried : str
        Which cuts these are.
    steps : tuple of Step
        The fixed sequence as far as it was tested.
    comparison : Drop or None
        Of the certified cut, on the examples that certify.
    confirmed : Drop or None
        Of the same on a third set of examples, which changed nothing.
    look : Look or None
        Which look at the examples that certify this was; None where nothing was tested on them.
    chosen_on, certified_on : str
        Which examples.
    guess : float
        Score of the majority baseline on the examples that certify, or that choose where nothing was
        tested, in the score's own units; NaN where there is no such thing.
    claims : tuple of Claim
        What follows from the tests, or why nothing can be removed.
    notes : tuple of str
        Further sentences, such as the number of looks at the examples.
    recover : int
        Updates that cut models were tuned for.
    speed : Speed or None
    model : TaskModel or None
        The certified model.
    whole : Model
        The whole model.
    provenance : mapping
    """

    kind: ClassVar[str] = KIND
    name: str
    task: str
    score: str
    unit: str
    depth: int
    kept: Cut
    max_drop: float
    level: float
    candidates: tuple[Mapping[str, Any], ...] = field(repr=False)
    tried: str = field(repr=False)
    steps: tuple[Step, ...] = field(repr=False)
    comparison: Drop | None = None
    confirmed: Drop | None = None
    look: Look | None = None
    chosen_on: str = field(repr=False)
    certified_on: str = field(repr=False)
    guess: float = math.nan
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    recover: int = 0
    speed: Speed | None = field(default=None, repr=False)
    model: TaskModel | None = field(default=None, repr=False)
    whole: Model = field(repr=False)
    provenance: Mapping[str, Any] = field(repr=False)

    @property
    def certified(self) -> bool:
        """Whether a cut passed."""
        return self.comparison is not None

    @property
    def removed(self) -> Cut:
        """Blocks that go."""
        return self.without(self.kept)

    @property
    def scored(self) -> int:
        """How many cuts were scored to choose."""
        return len(self.candidates)

    @property
    def findings(self) -> tuple[str, ...]:
        """The claims as text, then the notes."""
        return (*map(render, self.claims), *self.notes)

    def without(self, kept: Cut) -> Cut:
        """Blocks that are not among those that stay."""
        return tuple(block for block in range(1, self.depth + 1) if block not in kept)

    def export(self, folder: str | os.PathLike[str]) -> Path:
        """
        Write the certified model as a plain folder; see `exporting.export`.

        Parameters
        ----------
        folder : path

        Returns
        -------
        Path
        """
        return export(self, folder)

    @property
    def methods(self) -> str:
        """A paragraph for a paper."""
        tuning = f", each tuned for {self.recover:,} updates," if self.recover else ""
        return (
            f"{self.scored} cuts of {self.name}{tuning} were scored by {self.score} on {self.task}: "
            f"{self.tried}. {self.chosen_on}. {self.certified_on}. The margin was {self.max_drop:g} "
            f"{self.unit}, tested one-sided in a fixed sequence; all looks at the same examples together "
            f"keep a level of {self.level * 100:g} %."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know of the measured times."""
        return (self.speed.doubt,) if self.speed is not None and self.speed.doubt else ()

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """
        Write `result.json`, and where a cut passed, the smaller model and `table.parquet`.

        Parameters
        ----------
        folder : path
            New, or of an earlier pruning, whose files are replaced.

        Returns
        -------
        tuple of Path
        """
        return write_pruned(self, Path(folder))

    def document(self) -> dict[str, Any]:
        """All but the models, as data that strict JSON can hold."""
        same = ("name", "task", "score", "unit", "depth", "max_drop", "level", "tried", "recover")
        document = {
            "format": FORMAT,
            **{name: getattr(self, name) for name in same},
            "kept": self.kept,
            "removed": self.removed,
            "certified": self.certified,
            "comparison": _drop(self.comparison),
            "confirmed": _drop(self.confirmed),
            "look": None if self.look is None else asdict(self.look),
            "chosen_on": self.chosen_on,
            "certified_on": self.certified_on,
            "guess": self.guess,
            "scored": self.scored,
            "sequence": [
                {
                    "kept": step.candidate.what,
                    "removed": self.without(step.candidate.what),
                    "cost": step.candidate.cost,
                    **(_drop(step.found) or {}),
                }
                for step in self.steps
            ],
            "claims": [claim.document() for claim in self.claims],
            "findings": self.findings,
            "methods": self.methods,
            "warnings": self.warnings,
            "speed": None if self.speed is None else asdict(self.speed),
            "provenance": self.provenance,
        }
        return plain(document)

    def table(self) -> bytes:
        """Every cut that was scored, as a parquet file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        tested = {step.candidate.what: step.found for step in self.steps}
        rows = []
        for candidate in self.candidates:
            drop = tested.get(candidate["kept"])
            rows.append(
                {
                    "kept": list(candidate["kept"]),
                    "removed": candidate["removed"],
                    "cost": candidate["cost"],
                    "drop": None if drop is None else drop.drop,
                    "upper": None if drop is None else drop.upper,
                    "p": None if drop is None else drop.p,
                }
            )
        sink = pa.BufferOutputStream()
        types = pa.schema(
            [
                ("kept", pa.list_(pa.int64())),
                ("removed", pa.int64()),
                *((name, pa.float64()) for name in ("cost", "drop", "upper", "p")),
            ]
        )
        pq.write_table(pa.Table.from_pylist(rows, schema=types), sink)
        return sink.getvalue().to_pybytes()

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.findings)
        return f"<p>{escape(f'prune: {self.name}, {self.task}')}</p><ul>{items}</ul>"


def _drop(drop: Drop | None) -> dict[str, Any] | None:
    return None if drop is None else {**asdict(drop), "safe": drop.safe}
