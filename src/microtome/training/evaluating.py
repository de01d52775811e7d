"""Evaluation of models on tasks: scores with intervals, and those of the majority baseline."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..arguments import checked, taking
from ..context import SILENT, Context
from ..encoders.loading import WINDOWS
from ..errors import InputError
from ..findings.claims.claim import Claim
from ..findings.claims.render import render
from ..findings.claims.scores import baseline_of, score_claim
from ..inference.answers import Answers
from ..inference.estimate import Estimate
from ..inference.pairing import Comparison, compare_scores
from ..inference.scoring import score_interval
from ..lazy import torch
from ..scores.table import find_score
from ..store.reading import as_written, read_columns, read_record
from ..tasks.baselines import baseline
from ..tasks.items import Split
from ..tasks.task import Task

if TYPE_CHECKING:
    from .models.modeling import TaskModel
    from .opening import Model
    from .precision import Autocast

# Maximum number of tokens in a batch, padding included.
TOKENS = {"cpu": 2_048, "cuda": 65_536}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """
    Predictions of a model, example by example, and its scores.

    Parameters
    ----------
    task, split : str
    kind : str
    labels : tuple of str
    main : tuple of str
        The scores whose mean is the score of the task.
    ids, groups : tuple of str
        Of the examples.
    targets, predictions : tuple
        In the form of the task's kind; see `microtome.tasks.items.Item`.
    scores : mapping of str to Estimate
        Every score of the task, with intervals over examples.
    score : Estimate
        The score of the task.
    baseline : mapping of str to float
        The same scores of the majority baseline, where the training split is available.
    notes : tuple of str
        Caveats for the reader.
    provenance : mapping
        How it was made: versions, digests of model and task, device, seconds.
    """

    task: str
    split: str
    kind: str
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
    provenance: Mapping[str, Any] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )

    @property
    def constant(self) -> bool:
        """Whether all predictions are the same, as after a collapsed training."""
        return len(self.predictions) > 1 and all(p == self.predictions[0] for p in self.predictions)

    def against(self, other: Evaluation, *, level: float = 0.95) -> Comparison:
        """
        Compare with another model on the same examples.

        Parameters
        ----------
        other : Evaluation
        level : float

        Returns
        -------
        Comparison
            Of the score of the task: this model minus the other one.
        """
        return compare_scores(
            find_score(self.main), self.answers(), other.answers(), labels=self.labels, level=level
        )

    def answers(self) -> Answers:
        """The predictions in the form that paired tests take."""
        return Answers(
            ids=self.ids, targets=self.targets, predictions=(self.predictions,), groups=self.groups
        )

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The score against the majority baseline."""
        return tuple(score_claim(self.score, **self.sample))

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
        certainty = "" if interval is None else f", with {interval.level * 100:g} % intervals over examples"
        return (
            f"The model was scored on the {len(self.ids):,} examples of {self.task}/{self.split} by "
            f"{', '.join(self.scores)}{certainty}."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know of the scores, such as too few examples."""
        return tuple(dict.fromkeys(note for score in self.scores.values() for note in score.warnings))

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """
        Write `result.json`, and every prediction in `table.parquet`.

        Parameters
        ----------
        folder : path

        Returns
        -------
        tuple of Path
        """
        from .writing import EvaluationResult

        return EvaluationResult(evaluation=self).save(folder)

    def document(self) -> dict[str, Any]:
        """The scores as plain data; undefined ones are null."""
        return {
            "task": self.task,
            "split": self.split,
            "kind": self.kind,
            "n": len(self.ids),
            "main": list(self.main),
            "score": plain(self.score),
            "scores": {name: plain(estimate) for name, estimate in self.scores.items()},
            "baseline": {name: _number(value) for name, value in self.baseline.items()},
            "notes": list(self.notes),
        }


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


def score_answers(
    task: Task, split: Split, predictions: Sequence[Any], *, train: Split | None = None, level: float = 0.95
) -> Evaluation:
    """
    Score predictions.

    Parameters
    ----------
    task : Task
    split : Split
        With targets.
    predictions : sequence
        One per example.
    train : Split, optional
        The split of the majority baseline.
    level : float

    Returns
    -------
    Evaluation
    """
    targets = [item.target for item in split]
    groups = [item.group for item in split]
    grouped = groups if 1 < len(set(groups)) < len(groups) else None
    if task.kind == "language_modeling":
        targets = [None] * len(predictions)

    def estimate(score: Any) -> Estimate:
        return score_interval(score, predictions, targets, task.labels, groups=grouped, level=level)

    baseline_scores: dict[str, float] = {}
    if train is not None:
        baseline_predictions = baseline(task.kind, [item.target for item in train], targets, task.labels)
        if baseline_predictions is not None:
            baseline_scores = {
                name: float(find_score(name).compute(baseline_predictions, targets, task.labels))
                for name in task.scores
            }
    return Evaluation(
        task=task.name,
        split=split.name,
        kind=task.kind,
        labels=task.labels,
        main=task.main,
        ids=tuple(item.id for item in split),
        groups=tuple(groups),
        targets=tuple(targets),
        predictions=tuple(predictions),
        scores=MappingProxyType({name: estimate(name) for name in task.scores}),
        score=estimate(task.main),
        baseline=MappingProxyType(baseline_scores),
        notes=split.notes,
    )


def guessed_from(task: Task) -> Split | None:
    """
    Find the examples of the majority baseline: the whole training split.

    They are the same for every model of a task, whatever part of the split the model was trained on.
    """
    train = task.split(task.train) if task.train in task.splits else None
    return train if train is not None and train.labeled else None


def predict(
    model: TaskModel,
    split: Split,
    task: Task,
    tokenizer: Any,
    *,
    longest: int | None = None,
    stride: int | None = None,
    context: Context = SILENT,
    autocast: Autocast = contextlib.nullcontext,
) -> list[Any]:
    """
    Predict every example.

    Parameters
    ----------
    model : TaskModel
    split : Split
    task : Task
    tokenizer : Tokenizer
        Of the encoder.
    longest, stride : int, optional
        Maximum number of tokens per example, and the overlap of windows of a passage.
    context : Context
    autocast : callable
        Returns the context of mixed precision.

    Returns
    -------
    list
        One prediction per example, in the form of the task's kind.
    """
    from .heads.decoding import answers, decode
    from .inputs import by_length, collate, encode

    features = encode(split.items, task, tokenizer, longest=longest, stride=stride, mask=model.mask)
    outputs: list[Any] = [None] * len(features)
    model.eval()
    done = 0
    for indices in by_length(features, TOKENS["cpu" if model.device.type == "cpu" else "cuda"]):
        examples = [features[index] for index in indices]
        batch = collate(examples, model.device)
        with torch.inference_mode(), autocast():
            for index, output in zip(indices, answers(model, model(batch), batch, examples), strict=True):
                outputs[index] = output
        done += len(indices)
        context.report(f"{task.name}/{split.name}", done, len(features))
    return decode(outputs, features, split.items, task)


@checked
@taking(Context, without=("store", "threads", "command"))
def evaluate(
    model: Any,
    task: Task,
    *,
    split: str | None = None,
    longest: int | None = None,
    context: Context = SILENT,
    **settings: Any,
) -> Evaluation:
    """
    Evaluate a fine-tuned model.

    Parameters
    ----------
    model : Tuned, Encoder, or path
        The result of `finetune`, a loaded checkpoint with a head for the task, or its folder.
    task : Task
    split : str, optional
        The task's validation split when absent.
    longest : int, optional
        Maximum number of tokens per example; as in training, or the model's own limit, when absent.
    context : Context
        Or its settings by name: level, device (for a model that is given as a folder), progress.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> tuned = mt.finetune(base, task, epochs=1)
    >>> mt.evaluate(tuned, task).score.measure
    'accuracy'
    """
    from .opening import open_model

    context = replace(context, **settings).resolved()
    opened = open_model(model, task, context=context)
    if longest is not None:
        opened = replace(opened, longest=longest)
    return score_model(opened, task, split=split, context=context)


def score_model(model: Model, task: Task, *, split: str | None = None, context: Context) -> Evaluation:
    """Evaluate a model that is open already; see `evaluate`."""
    from ..encoders.versions import provenance

    started = time.monotonic()
    scored_split = task.split(split or task.validation, labeled=task.kind != "language_modeling")
    predictions = predict(
        model.task_model,
        scored_split,
        task,
        model.tokenizer,
        longest=model.longest,
        stride=model.stride,
        context=context,
        autocast=model.autocast,
    )
    provenance_record = provenance(
        {
            "models": [model.digest],
            "task": task.digest(scored_split.name),
            "task_source": task.source,
            "device": model.device,
            "precision": model.precision,
            "threads": torch.get_num_threads(),
            "longest": model.longest,
            "seconds": round(time.monotonic() - started, 3),
        }
    )
    evaluation = score_answers(task, scored_split, predictions, train=guessed_from(task), level=context.level)
    return replace(evaluation, provenance=MappingProxyType(provenance_record))


def write_windows(folder: Path, longest: int, stride: int | None) -> None:
    """Write the maximum length and the window overlap of the examples beside a checkpoint."""
    (folder / WINDOWS).write_text(json.dumps({"longest": longest, "stride": stride}))


def read_windows(folder: Path) -> tuple[int | None, int | None]:
    """Read the maximum length and the window overlap of a checkpoint, where its folder records them."""
    windows = read_record(folder / WINDOWS)
    with as_written(folder / WINDOWS):
        longest, stride = (windows.get(key) and int(windows[key]) for key in ("longest", "stride"))
    return longest, stride


def write_answers(evaluation: Evaluation, path: Path) -> None:
    """
    Write the prediction of each example, as a table with JSON in its cells.

    Parameters
    ----------
    evaluation : Evaluation
    path : Path
        Of a .parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "id": list(evaluation.ids),
            "group": list(evaluation.groups),
            "target": [json.dumps(target) for target in evaluation.targets],
            "prediction": [json.dumps(answer) for answer in evaluation.predictions],
        }
    )
    pq.write_table(table, path)


def read_answers(path: Path, split: Split) -> list[Any]:
    """Read predictions, in the order of a split that must have the same examples."""
    table = read_columns(path)
    with as_written(path):
        predictions = dict(zip(table["id"], table["prediction"], strict=True))
    if set(predictions) != {item.id for item in split}:
        raise InputError(f"{path} must hold an answer for each example of {split.name}, but it has others.")
    with as_written(path):
        return [tuples(json.loads(predictions[item.id])) for item in split]


def tuples(value: Any) -> Any:
    """Convert lists to tuples recursively: predictions have tuples, which JSON lacks."""
    return tuple(tuples(element) for element in value) if isinstance(value, list) else value
