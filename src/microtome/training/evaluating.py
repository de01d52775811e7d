"""Evaluation of models on tasks, and scores of predictions beside those of the majority baseline."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..arguments import checked, taking
from ..context import SILENT, Context
from ..encoders.loading import WINDOWS
from ..errors import InputError
from ..inference.estimate import Estimate
from ..inference.scoring import score_interval, several_groups
from ..lazy import torch
from ..scores.table import find_score
from ..store.files import as_written, read_columns, read_record
from ..tasks.baselines import baseline
from ..tasks.task import Split, Task
from .cuts import predict
from .evaluation import Evaluation

if TYPE_CHECKING:
    from .opening import Model


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
    if task.kind == "language_modeling":
        targets = [None] * len(predictions)

    def estimate(score: Any) -> Estimate:
        return score_interval(
            score, predictions, targets, task.labels, groups=several_groups(groups), level=level
        )

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
        task_kind=task.kind,
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
        level=level,
    )


def guessed_from(task: Task) -> Split | None:
    """
    Find the examples of the majority baseline: the whole training split.

    They are the same for every model of a task, whatever part of the split the model was trained on.
    """
    train = task.split(task.train) if task.train in task.splits else None
    return train if train is not None and train.labeled else None


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
    origin = provenance(
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
    return replace(evaluation, origin=MappingProxyType(origin))


def write_windows(folder: Path, longest: int, stride: int | None) -> None:
    """Write the maximum length and the window overlap of the examples beside a checkpoint."""
    (folder / WINDOWS).write_text(json.dumps({"longest": longest, "stride": stride}))


def read_windows(folder: Path) -> tuple[int | None, int | None]:
    """Read the maximum length and the window overlap of a checkpoint, where its folder records them."""
    windows = read_record(folder / WINDOWS)
    with as_written(folder / WINDOWS):
        longest, stride = (windows.get(key) and int(windows[key]) for key in ("longest", "stride"))
    return longest, stride


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
