"""Stored predictions of a model's cuts: the digest of the model, the address and the table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..errors import InputError
from ..store.shelf import Shelf
from ..tasks.items import Split
from ..tasks.task import Task
from .cuts import Cut, predict_cuts
from .evaluating import tuples
from .precision import products_in

if TYPE_CHECKING:
    from .models.taskmodel import TaskModel

KIND, TABLE = "cuts", "answers.parquet"
Predict = Callable[..., list[list[Any]]]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CutModel:
    """
    A model whose cuts predict.

    Parameters
    ----------
    model : TaskModel
    tokenizer : Tokenizer
    name, digest : str
        See `digest_model`.
    longest, stride : int, optional
        Maximum number of tokens per example in training, and the overlap of windows.
    dtype : {"float32", "tf32", "bfloat16", "float16"}
        Arithmetic of matrix products; see `read_precision`.
    """

    model: TaskModel = field(repr=False)
    tokenizer: Any = field(repr=False)
    name: str
    digest: str
    longest: int | None
    stride: int | None
    dtype: str


def answer_cuts(
    source: CutModel,
    task: Task,
    split: Split,
    cuts: Sequence[Cut],
    *,
    context: Context,
    predict: Predict | None = None,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> list[list[Any]]:
    """
    Predict a split with many cuts of a model, or read the predictions from the store.

    Parameters
    ----------
    source : CutModel
    task : Task
    split : Split
    cuts : sequence of tuple of int
        The blocks that run; see `predict_cuts`.
    context : Context
    predict : callable, optional
        Replaces `predict_cuts`, with the same arguments.
    more : mapping
        Further values of that function that determine the predictions.

    Returns
    -------
    list of list
        For each cut, one prediction per example.
    """
    device = source.model.device.type
    specification = {
        "version": 2,
        "model": source.digest,
        "kind": task.kind,
        "labels": list(task.labels),
        "examples": split.digest,
        "longest": source.longest,
        "stride": source.stride,
        "device": device,
        "precision": source.dtype,
        "cuts": [list(cut) for cut in cuts],
        **more,
    }
    with Shelf(context.store).work(kind=KIND, specification=specification, command=context.command) as work:
        entry = work.entry
        if entry is None:
            answers = (predict or predict_cuts)(
                source.model,
                split,
                task,
                source.tokenizer,
                cuts,
                longest=source.longest,
                stride=source.stride,
                progress=context.progress,
                autocast=products_in(source.dtype, device),
            )
            write_cuts(work.folder / TABLE, split, answers)
            provenance = {"model": source.name, "task": task.name, "split": split.name, "cuts": len(cuts)}
            entry = work.finish({**provenance, "device": device})
    return read_cuts(Path(entry.folder) / TABLE, split)


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
