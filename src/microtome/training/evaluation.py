"""Evaluations: predictions and scores of a model, alone or beside those of another model."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from ..findings.claims.claim import Claim
from ..findings.claims.render import render
from ..findings.claims.tuning import baseline_of, difference_claim, score_claim
from ..findings.results import plain as plain_data
from ..findings.words import coverage
from ..inference.answers import Answers
from ..inference.estimate import Estimate
from ..inference.pairing import Comparison, compare_scores
from ..scores.table import find_score
from ..store.files import write_whole
from ..store.outfolder import RESULT, TABLE, check_earlier, forget, kind_of, make_folder

EVALUATION = "evaluate"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """
    Predictions of a model, example by example, and its scores, alone or beside those of another model.

    Parameters
    ----------
    task, split : str
    task_kind : str
    labels : tuple of str
    main : tuple of str
        The scores whose mean is the score of the task.
    ids, groups : tuple of str
        Of the examples.
    targets, predictions : tuple
        In the form of the task's kind; see `microtome.tasks.task.Item`.
    scores : mapping of str to Estimate
        Every score of the task, with intervals over examples.
    score : Estimate
        The score of the task.
    baseline : mapping of str to float
        The same scores of the majority baseline, where the training split is available.
    notes : tuple of str
        Caveats for the reader.
    level : float
        Of the intervals.
    origin : mapping
        How it was made: versions, digests of model and task, device, seconds.
    model : str
        The name of the model.
    reference : Evaluation, optional
        Of a model that it is compared with, on the same examples.
    facts : mapping
        What reproduces the evaluation beside its origin: the command and its options.
    """

    kind: ClassVar[str] = EVALUATION
    task: str
    split: str
    task_kind: str
    labels: tuple[str, ...]
    main: tuple[str, ...]
    ids: tuple[str, ...] = field(repr=False)
    groups: tuple[str, ...] = field(repr=False)
    targets: tuple[Any, ...] = field(repr=False)
    predictions: tuple[Any, ...] = field(repr=False)
    scores: Mapping[str, Estimate] = field(repr=False)
    score: Estimate
    baseline: Mapping[str, float] = field(repr=False)
    notes: tuple[str, ...] = ()
    level: float = 0.95
    origin: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False, compare=False)
    model: str = ""
    reference: Evaluation | None = field(default=None, repr=False)
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def constant(self) -> bool:
        """Whether all predictions are the same, as after a collapsed training."""
        return len(self.predictions) > 1 and all(p == self.predictions[0] for p in self.predictions)

    def against(self, other: Evaluation) -> Comparison:
        """
        Compare with another model on the same examples.

        Parameters
        ----------
        other : Evaluation

        Returns
        -------
        Comparison
            Of the score of the task: this model minus the other one.
        """
        ours, theirs = self.answers(), other.answers()
        return compare_scores(find_score(self.main), ours, theirs, labels=self.labels, level=self.level)

    def answers(self) -> Answers:
        """The predictions in the form that paired tests take."""
        return Answers(
            ids=self.ids, targets=self.targets, predictions=(self.predictions,), groups=self.groups
        )

    @cached_property
    def comparison(self) -> Comparison:
        """This model minus the reference."""
        assert self.reference is not None
        return self.against(self.reference)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The difference of two models, and the score against the majority baseline."""
        claims = [] if self.reference is None else difference_claim(self.comparison, self.reference.model)
        return (*claims, *score_claim(self.score, **self.sample))

    @property
    def sample(self) -> dict[str, Any]:
        """Split, number of examples, and majority baseline of the score."""
        baseline = baseline_of(self.baseline, self.main)
        return {"split": self.split, "examples": len(self.ids), "baseline": baseline}

    @property
    def findings(self) -> tuple[str, ...]:
        """The claims as text, then the notes."""
        return (*map(render, self.claims), *self.remarks)

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes as sentences."""
        return tuple(note if note.endswith(".") else f"{note}." for note in self.notes)

    @property
    def methods(self) -> str:
        """A paragraph for a paper."""
        interval = self.score.interval
        certainty = "" if interval is None else f", with {coverage(interval.level)} intervals over examples"
        return (
            f"The model was scored on the {len(self.ids):,} examples of {self.task}/{self.split} by "
            f"{', '.join(self.scores)}{certainty}."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know of the scores, such as too few examples."""
        return tuple(dict.fromkeys(note for score in self.scores.values() for note in score.warnings))

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What it takes to reproduce the evaluation."""
        if not self.origin:
            return self.facts
        origins = [self.origin, *([] if self.reference is None else [self.reference.origin])]
        return {
            **self.origin,
            "models": [digest for origin in origins for digest in origin.get("models", ())],
            "seconds": round(sum(origin.get("seconds", 0.0) for origin in origins), 3),
            **self.facts,
        }

    def scored(self) -> dict[str, Any]:
        """The scores as plain data; undefined ones are null."""
        return {
            "task": self.task,
            "split": self.split,
            "kind": self.task_kind,
            "n": len(self.ids),
            "main": list(self.main),
            "score": plain(self.score),
            "scores": {name: plain(estimate) for name, estimate in self.scores.items()},
            "baseline": {name: _number(value) for name, value in self.baseline.items()},
            "notes": list(self.notes),
        }

    def document(self) -> dict[str, Any]:
        """Plain data of the format microtome/evaluate/1."""
        document = {"format": f"microtome/{EVALUATION}/1", "model": self.model, **self.scored()}
        if self.reference is not None:
            comparison, interval = self.comparison, self.comparison.interval
            document["against"] = {
                "model": self.reference.model,
                **self.reference.scored(),
                "difference": comparison.difference,
                "low": None if interval is None else interval.low,
                "high": None if interval is None else interval.high,
                "p": None if math.isnan(comparison.p) else comparison.p,
                "test": comparison.test,
            }
        return {**document, **sentences_of(self), "provenance": self.provenance}

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """
        Write `result.json`, and every prediction in `table.parquet`.

        Parameters
        ----------
        folder : path
            New, or of an earlier evaluation, whose files are replaced.

        Returns
        -------
        tuple of Path
        """
        check_earlier(folder, EVALUATION, (RESULT, TABLE))
        path = make_folder(folder)
        write_document(path, self.document())
        self.write_table(path / TABLE)
        return path / RESULT, path / TABLE

    def write_table(self, path: Path) -> None:
        """Write the prediction of each example, as a table with JSON in its cells."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {
            "id": list(self.ids),
            "group": list(self.groups),
            "target": [json.dumps(target) for target in self.targets],
            "prediction": [json.dumps(answer) for answer in self.predictions],
        }
        pq.write_table(pa.table(columns), path)


def sentences_of(result: Any) -> dict[str, Any]:
    """The sentences of a result as plain data."""
    return {
        "claims": [plain_data(claim.document()) for claim in result.claims],
        "findings": list(result.findings),
        "methods": result.methods,
        "warnings": list(result.warnings),
    }


def write_document(folder: Path, document: dict[str, Any]) -> None:
    """Write `result.json`."""
    content = json.dumps(plain_data(document), indent=1, allow_nan=False).encode() + b"\n"
    write_whole(folder / RESULT, [content])


def forget_evaluation(folder: Path) -> None:
    """Remove an earlier evaluation, which would be mistaken for one of the results now in sibling folders."""
    if kind_of(folder / RESULT) == EVALUATION:
        forget(folder, (RESULT, TABLE))


def plain(estimate: Estimate) -> dict[str, Any]:
    """An estimate as plain data."""
    interval = estimate.interval
    return {
        "measure": estimate.measure,
        "value": _number(estimate.value),
        "low": None if estimate.low is None else _number(estimate.low),
        "high": None if estimate.high is None else _number(estimate.high),
        "level": None if interval is None else interval.level,
        "method": None if interval is None else interval.method,
        "unit": None if interval is None else interval.unit,
        "n": estimate.n,
        "reason": estimate.reason,
        "warnings": list(estimate.warnings),
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
