"""Predictions of cuts in the store: of models with a head, and of sentence encoders."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..context import SILENT, Context
from ..encoders.encoder import digest_weights
from ..errors import InputError, unknown
from ..inference.answers import Answers
from ..lazy import torch
from ..store.files import read_columns
from ..store.shelf import Shelf
from ..tasks.task import Item, Split, Task
from .cuts import Cut, layer_states, predict_cuts
from .evaluating import tuples
from .inputs import encode
from .models.stock import configured
from .models.taskmodel import TaskForm, TaskModel

if TYPE_CHECKING:
    from .opening import Model

KIND, TABLE = "cuts", "answers.parquet"
# Bytes of embeddings that are held at a time.
HELD = 128 * 2**20


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
            write_cuts(work.folder / TABLE, split, run_cuts(model, task, split, cuts, context))
            provenance = {"model": model.name, "task": task.name, "split": split.name, "cuts": len(cuts)}
            entry = work.finish({**provenance, "device": model.device})
    return read_cuts(Path(entry.folder) / TABLE, split)


def run_cuts(
    model: Model, task: Task, split: Split, cuts: Sequence[Cut], context: Context
) -> list[list[Any]]:
    """Predict a split with many cuts of a model, whatever the store has; see `cut_answers`."""
    shared: dict[str, Any] = {"longest": model.longest, "context": context}
    if model.pooling is not None:
        return embedded_cuts(
            model.task_model, split, task, model.tokenizer, cuts, pooling=model.pooling, **shared
        )
    options = {"stride": model.stride, "autocast": model.autocast, **shared}
    return predict_cuts(model.task_model, split, task, model.tokenizer, cuts, **options)


def as_answers(
    split: Iterable[Item], predictions_by_seed: Sequence[Sequence[Any]], seeds: Sequence[int | str] = ()
) -> Answers:
    """
    Put predictions into the form that intervals and tests take.

    Parameters
    ----------
    split : Split, or other examples
    predictions_by_seed : sequence of sequence
        For each seed, one prediction per example.
    seeds : sequence of int or str
        Names of the seeds, which are needed to pair them.

    Returns
    -------
    Answers
    """
    split = tuple(split)
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
    table = read_columns(path)
    if table.pop("id") != [item.id for item in split]:
        raise InputError(f"{path} must hold an answer for each example of {split.name}, but it has others.")
    return [[tuples(json.loads(answer)) for answer in table[str(number)]] for number in range(len(table))]


def _mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)


def _mean_sqrt(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9).sqrt()


def _weighted(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    # Later tokens count for more: a causal model knows more there.
    weights = torch.arange(1, states.shape[1] + 1, device=states.device, dtype=states.dtype)
    return _mean(states, mask * weights[None, :, None])


def _last(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    places = mask[..., 0].sum(1).long() - 1
    return states[torch.arange(len(states), device=states.device), places.clamp(min=0)]


def _largest(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states.masked_fill(mask == 0, -1e9).max(1).values


# As sentence-transformers pools; padding stands at the end, and special tokens count.
POOLINGS: Mapping[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = MappingProxyType(
    {
        "cls": lambda states, mask: states[:, 0],
        "mean": _mean,
        "max": _largest,
        "mean_sqrt_len": _mean_sqrt,
        "weighted_mean": _weighted,
        "last": _last,
    }
)


def pool_states(states: torch.Tensor, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """
    Pool the states of tokens to one embedding a text.

    Parameters
    ----------
    states : Tensor of shape (texts, tokens, features)
    mask : Tensor of shape (texts, tokens)
    pooling : str
        Names of `POOLINGS`, with + between several, which are laid end to end.

    Returns
    -------
    Tensor of shape (texts, features of all poolings)
    """
    rows = mask[..., None].to(states.dtype)
    return torch.cat([POOLINGS[name](states, rows) for name in pooling.split("+")], dim=-1)


def sentence_model(encoder: Any, task: Task) -> TaskModel:
    """
    Make the model of a task of a sentence encoder, which has no head.

    Parameters
    ----------
    encoder : TransformerEncoder
        Loaded from the folder of a sentence encoder.
    task : Task
        Of pairs of texts with a number: how similar they are.

    Returns
    -------
    TaskModel
        On a copy of the encoder.
    """
    facts = encoder.source.facts
    if task.kind != "regression":
        raise InputError(
            f"a sentence encoder must be judged by a task of similar texts (regression), but {task.name} is "
            f"{task.kind}: of a table of one's own, name two texts and a score (--pairs TEXT,OTHER,SCORE), "
            "and add --column kind=regression where scores are whole numbers."
        )
    if facts.get("beyond"):
        raise InputError(
            f"a sentence encoder must end with its pooling to be cut, but {encoder.name} goes on with "
            f"{', '.join(facts['beyond'])}."
        )
    for name in facts["pooling"].split("+"):
        if name not in POOLINGS:
            raise unknown("pooling", name, POOLINGS)
    net = copy.deepcopy(encoder.model).eval()
    form = TaskForm(
        kind="regression",
        labels=(),
        family=encoder.family,
        head="own",
        pad=int(configured(encoder, task).pad_token_id),
        notes=(f"embeddings pooled by {facts['pooling']}",),
    )
    return TaskModel(net, None, form).eval()


def embedded_cuts(
    model: TaskModel,
    split: Split,
    task: Task,
    tokenizer: Any,
    cuts: Sequence[Cut],
    pooling: str,
    *,
    longest: int | None = None,
    context: Context = SILENT,
) -> list[list[float]]:
    """
    Say how similar the texts of each pair are, with every cut of a sentence encoder.

    Parameters
    ----------
    model : TaskModel
        Of `sentence_model`.
    split : Split
        Of pairs.
    task : Task
    tokenizer : Tokenizer
    cuts : sequence of tuple of int
        Blocks that run.
    pooling : str
    longest : int, optional
    context : Context

    Returns
    -------
    list of (list of float)
        For each cut, the cosine of each pair.
    """
    for item in split:
        if len(item.texts) != 2:
            raise InputError(
                f"a sentence encoder must be judged by pairs of texts, but {item.id!r} of {split.name} has "
                f"{len(item.texts)}: name the column of the other text (--column pair=NAME)."
            )
    width = int(model.config.hidden_size) * (1 + pooling.count("+"))
    pairs = max(1, HELD // (8 * width * max(1, len(cuts))))
    single_texts = replace(task, main=(), scores=())

    def pick(states: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return pool_states(states, batch["attention_mask"], pooling)

    cosines: list[np.ndarray] = []
    for start in range(0, len(split), pairs):
        part = split.items[start : start + pairs]
        items = [
            Item(id=f"{item.id} {side}", texts=(item.texts[side],), target=0.0)
            for item in part
            for side in (0, 1)
        ]
        features = encode(items, single_texts, tokenizer, longest=longest)
        vectors = layer_states(model, features, pick, cuts=list(cuts)).astype(np.float64)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
        cosines.append((vectors[:, 0::2] * vectors[:, 1::2]).sum(-1))
        context.report(f"{task.name}/{split.name}", min(start + pairs, len(split)), len(split))
    return np.concatenate(cosines, axis=1).tolist()
