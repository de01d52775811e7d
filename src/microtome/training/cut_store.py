"""Predictions of a model's cuts in the store: the digest of the model, the address and the table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..errors import InputError
from ..inference.answers import Answers
from ..store.shelf import Shelf
from ..tasks.items import Split
from ..tasks.task import Task
from .cuts import Cut, predict_cuts
from .evaluating import tuples
from .sentences import embedded_cuts

if TYPE_CHECKING:
    from .models.taskmodel import TaskModel
    from .opening import Model

KIND, TABLE = "cuts", "answers.parquet"


def digest_model(model: TaskModel, tokenizer: Any) -> str:
    """
    Hash all that determines a model's predictions: weights with the head, configuration, tokenizer, labels.

    Parameters
    ----------
    model : TaskModel
    tokenizer : Tokenizer

    Returns
    -------
    str
    """
    from ..encoders.encoder import digest_weights

    ignored = ("_name_or_path", "transformers_version")
    content = {
        "weights": digest_weights(model),
        "tokenizer": tokenizer.digest,
        "config": {name: value for name, value in model.config.to_dict().items() if name not in ignored},
        "head": str(model.head),
        "labels": list(model.labels),
        "order": model.order,
        "pad": model.pad,
        "mask": model.mask,
    }
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def cut_answers(
    model: Model, task: Task, split: Split, cuts: Sequence[Cut], *, context: Context
) -> list[list[Any]]:
    """
    Predict a split with many cuts of a model, or read the predictions from the store.

    Parameters
    ----------
    model : Model
        With its head, or a sentence encoder.
    task : Task
    split : Split
    cuts : sequence of tuple of int
        The blocks that run; see `predict_cuts`.
    context : Context

    Returns
    -------
    list of list
        For each cut, one prediction per example.
    """
    specification = {
        "version": 2,
        "model": model.digest,
        "kind": task.kind,
        "labels": list(task.labels),
        "examples": split.digest,
        "longest": model.longest,
        "stride": model.stride,
        "device": model.device,
        "precision": model.precision,
        "cuts": [list(cut) for cut in cuts],
        **({} if model.pooling is None else {"pooling": model.pooling}),
    }
    with Shelf(context.store, context.command).work(kind=KIND, specification=specification) as work:
        entry = work.entry
        if entry is None:
            write_cuts(work.folder / TABLE, split, _predict(model, task, split, cuts, context))
            provenance = {"model": model.name, "task": task.name, "split": split.name, "cuts": len(cuts)}
            entry = work.finish({**provenance, "device": model.device})
    return read_cuts(Path(entry.folder) / TABLE, split)


def _predict(
    model: Model, task: Task, split: Split, cuts: Sequence[Cut], context: Context
) -> list[list[Any]]:
    shared: dict[str, Any] = {"longest": model.longest, "context": context}
    if model.pooling is not None:
        return embedded_cuts(
            model.task_model, split, task, model.tokenizer, cuts, pooling=model.pooling, **shared
        )
    options = {"stride": model.stride, "autocast": model.autocast, **shared}
    return predict_cuts(model.task_model, split, task, model.tokenizer, cuts, **options)


def as_answers(
    split: Split, predictions_by_seed: Sequence[Sequence[Any]], seeds: Sequence[int | str] = ()
) -> Answers:
    """
    Put predictions into the form that intervals and tests take.

    Parameters
    ----------
    split : Split
    predictions_by_seed : sequence of sequence
        For each seed, one prediction per example.
    seeds : sequence of int or str
        Names of the seeds, which are needed to pair them.

    Returns
    -------
    Answers
    """
    return Answers(
        ids=tuple(item.id for item in split),
        # In language modeling the predictions hold likelihoods of the text itself, and there is no target.
        targets=tuple(item.target for item in split),
        predictions=tuple(predictions_by_seed),
        groups=tuple(item.group for item in split),
        seeds=tuple(seeds),
    )


def write_cuts(path: Path, split: Split, predictions: Sequence[Sequence[Any]]) -> None:
    """
    Write the predictions of each cut, as a table with JSON in its cells.

    Parameters
    ----------
    path : Path
        Of a .parquet file.
    split : Split
    predictions : sequence of sequence
        For each cut, one prediction per example.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        str(number): [json.dumps(answer) for answer in answers] for number, answers in enumerate(predictions)
    }
    pq.write_table(pa.table({"id": [item.id for item in split], **columns}), path)


def read_cuts(path: Path, split: Split) -> list[list[Any]]:
    """Read the predictions of each cut, for the same examples in the same order."""
    import pyarrow.parquet as pq

    table = pq.read_table(path).to_pydict()
    if table.pop("id") != [item.id for item in split]:
        raise InputError(f"{path} must hold an answer for each example of {split.name}, but it has others.")
    return [[tuples(json.loads(answer)) for answer in table[str(number)]] for number in range(len(table))]
