"""Pruning of blocks: the chosen cut, its certified loss on unseen examples, and the smaller model."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..encoders.versions import provenance
from ..findings.claims.claim import Claim
from ..findings.claims.render import render
from ..findings.results import plain
from ..findings.words import coverage
from ..store.address import address
from ..store.outfolder import parquet
from ..tasks.task import Split
from ..training.cuts import Cut
from .certifying import PruningClaims, Step, certified
from .exporting import FORMAT, KIND, export, write_pruned
from .looks import Look
from .margin import Drop
from .procedure import Procedure
from .search import Search, Stage
from .speed import Speed, cut_model, measure_speed

if TYPE_CHECKING:
    from ..training.models.taskmodel import TaskModel
    from ..training.opening import Model


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
        Every cut that was scored: `kept`, `removed`, and `cost` in points on `examples` of those that choose.
        Only cuts that were scored on all of these can be certified.
    tried : str
        Which cuts these are.
    search : tuple of Stage
        How many cuts were scored on how many examples.
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
    search: tuple[Stage, ...] = field(default=(), repr=False)
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
            f"keep a level of {coverage(self.level)}."
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
            **{name: getattr(self, name) for name in (*same, "kept", "removed", "certified")},
            "comparison": _drop(self.comparison),
            "confirmed": _drop(self.confirmed),
            "look": None if self.look is None else asdict(self.look),
            **{name: getattr(self, name) for name in ("chosen_on", "certified_on", "guess", "scored")},
            "search": [asdict(stage) for stage in self.search],
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

        tested = {step.candidate.what: step.found for step in self.steps}
        rows = []
        for candidate in self.candidates:
            drop = tested.get(candidate["kept"])
            rows.append(
                {
                    "kept": list(candidate["kept"]),
                    "removed": candidate["removed"],
                    "cost": candidate["cost"],
                    "examples": candidate["examples"],
                    **{name: getattr(drop, name, None) for name in ("drop", "upper", "p")},
                }
            )
        types = pa.schema(
            [
                ("kept", pa.list_(pa.int64())),
                ("removed", pa.int64()),
                ("examples", pa.int64()),
                *((name, pa.float64()) for name in ("cost", "drop", "upper", "p")),
            ]
        )
        return parquet(pa.Table.from_pylist(rows, schema=types))

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.findings)
        return f"<p>{escape(f'prune: {self.name}, {self.task}')}</p><ul>{items}</ul>"


def _drop(drop: Drop | None) -> dict[str, Any] | None:
    return None if drop is None else {**asdict(drop), "safe": drop.safe}


def run_pruning(procedure: Procedure) -> Pruned:
    """
    Choose a cut, certify it on unseen examples, and measure what it saves.

    Parameters
    ----------
    procedure : Procedure

    Returns
    -------
    Pruned
    """
    start = time.perf_counter()
    model, task, examples = procedure.model, procedure.task, procedure.examples
    options, score = procedure.options, procedure.score
    search = Search(procedure)
    costs = search.run()
    steps, recovered = procedure.certify(costs)
    standing = procedure.standing(examples.certify if steps else examples.choose)
    passed = certified(steps)
    about = PruningClaims(
        depth=model.depth,
        points=score.points,
        share=examples.share,
        chose=_units(examples.choose),
        standing=standing,
    )
    claims = about.of(steps, None if steps else _cheapest(procedure, costs))
    kept = procedure.full if passed is None else passed.candidate.what
    pruned_model, confirmed, speed = None, None, None
    if passed is not None:
        small = recovered.get(kept)
        pruned_model = cut_model(model.task_model, kept) if small is None else small.task_model
        if examples.confirm is not None:
            level = procedure.look_at(examples.confirm).level
            confirmed = procedure.drop(examples.confirm, kept, small, level=level)
            if standing is None or standing.beats:
                claims += (about.claim("confirmation", kept, confirmed, split=examples.confirm.name),)
        if options.speed:
            speed = measure_speed(model, pruned_model, examples.certify, task)
    chosen_on, certified_on = examples.said()
    return Pruned(
        name=model.name,
        task=task.name,
        score=score.name,
        unit=procedure.unit,
        depth=model.depth,
        kept=kept,
        max_drop=float(options.max_drop),
        level=procedure.context.level,
        candidates=tuple(
            MappingProxyType({"kept": cut, "removed": model.depth - len(cut), "cost": cost, "examples": n})
            for cut, (n, cost) in search.scored.items()
        ),
        tried=search.tried,
        search=tuple(search.stages),
        steps=tuple(steps),
        comparison=None if passed is None else passed.found,
        confirmed=confirmed,
        look=procedure.look if steps else None,
        chosen_on=chosen_on,
        certified_on=certified_on,
        guess=math.nan if standing is None else standing.baseline,
        claims=claims,
        notes=_notes(procedure, bool(steps)),
        recover=options.recover,
        speed=speed,
        model=pruned_model,
        whole=model,
        provenance=_provenance(procedure, time.perf_counter() - start),
    )


def _cheapest(procedure: Procedure, costs: Mapping[Cut, float]) -> tuple[Cut, Drop]:
    """The cheapest cut, with its cost on the examples that choose."""
    cut = min(costs, key=lambda candidate: costs[candidate])
    return cut, procedure.drop(procedure.examples.choose, cut, level=procedure.context.level)


def _notes(procedure: Procedure, tested: bool) -> tuple[str, ...]:
    """Sentences about the look at the examples, and about the task."""
    task = procedure.task
    look = [procedure.look.sentence()] if tested else []
    return (*look, *([f"{task.name}: {task.card['note']}."] if task.card.get("note") else []))


def _units(split: Split) -> int:
    """Number of independent units among examples, as tests count them."""
    groups = len(np.unique(split.groups))
    return groups if groups > 1 else len(split)


def _provenance(procedure: Procedure, seconds: float) -> Mapping[str, Any]:
    examples, model, options = procedure.examples, procedure.model, procedure.options
    facts = {
        "seed": options.seed,
        "share": options.share if examples.share is not None else None,
        "model": model.encoder.source.given,
        "models": [model.encoder.digest],
        "choose_digest": address({"choose": examples.choose.digest}),
        "lineage": procedure.lineage,
        "certify_digest": address({"certify": examples.certify.digest}),
        "device": str(model.task_model.device),
        "precision": model.precision,
        "seconds": round(seconds, 3),
    }
    return MappingProxyType(provenance(facts))
