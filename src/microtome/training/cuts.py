"""Predictions of a fine-tuned model, whole or without some blocks; each shared prefix of blocks runs once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from ..checks import whole_number
from ..context import SILENT, Context
from ..encoders.partial_forward import Cut as Cut
from ..encoders.partial_forward import check_cuts, walk
from ..errors import must
from ..lazy import torch
from ..tasks.task import Split, Task
from .heads.decoding import answers, decode
from .inputs import Features, by_length, collate, encode
from .models.taskmodel import TaskModel
from .precision import Autocast

# Maximum number of tokens in a batch, padding included.
TOKENS = {"cpu": 2_048, "cuda": 65_536}
# Maximum bytes of the states of one batch: one state per layer and a few temporaries.
LIVE = {"cpu": 128 * 2**20, "cuda": 4 * 2**30}
_ON_THE_WAY = 3

Read = Callable[["torch.Tensor", "dict[str, torch.Tensor]"], Any]
Use = Callable[[int, Any, "dict[str, torch.Tensor]", Sequence[int]], None]


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


def every_truncation(depth: int) -> dict[int, Cut]:
    """
    Keep only the lowest blocks, for every number of blocks.

    Parameters
    ----------
    depth : int
        Blocks of the model.

    Returns
    -------
    dict of int to tuple of int
        For each number of blocks, from 1 on, the blocks that run.

    Examples
    --------
    >>> every_truncation(3)
    {1: (1,), 2: (1, 2), 3: (1, 2, 3)}
    """
    depth = whole_number("depth", depth, 1)
    return {count: tuple(range(1, count + 1)) for count in range(1, depth + 1)}


def every_span(depth: int) -> dict[tuple[int, int], Cut]:
    """
    Skip consecutive blocks, for every first and last one.

    Parameters
    ----------
    depth : int
        Blocks of the model.

    Returns
    -------
    dict of (int, int) to tuple of int
        For the first and the last skipped block, the remaining blocks.

    Examples
    --------
    >>> every_span(2)
    {(1, 1): (2,), (1, 2): (), (2, 2): (1,)}
    """
    depth = whole_number("depth", depth, 1)
    blocks = tuple(range(1, depth + 1))
    return {
        (first, last): blocks[: first - 1] + blocks[last:]
        for first in blocks
        for last in range(first, depth + 1)
    }


def depth_of(model: TaskModel) -> int:
    """Number of blocks of a model's encoder."""
    return len(model.family.blocks_of(model.base))


def predict_cuts(
    model: TaskModel,
    split: Split,
    task: Task,
    tokenizer: Any,
    cuts: Sequence[Cut],
    *,
    longest: int | None = None,
    stride: int | None = None,
    context: Context = SILENT,
    autocast: Autocast = contextlib.nullcontext,
) -> list[list[Any]]:
    """
    Predict every example with every cut of a model.

    The predictions equal those of models that are actually cut, and those of the uncut model equal `predict`.

    Parameters
    ----------
    model : TaskModel
    split : Split
    task : Task
    tokenizer : Tokenizer
        Of the encoder.
    cuts : sequence of tuple of int
        The blocks that run, numbered from 1, in order. Without any block the head reads the embedding
        output.
    longest, stride, context, autocast
        As in `predict`.

    Returns
    -------
    list of list
        For each cut, one prediction per example, in the form of the task's kind.
    """
    features = encode(split.items, task, tokenizer, longest=longest, stride=stride, mask=model.mask)
    outputs: list[list[Any]] = [[None] * len(features) for _ in cuts]

    def use(number: int, cut_outputs: Any, batch: dict[str, torch.Tensor], indices: Sequence[int]) -> None:
        predictions = answers(model, cut_outputs, batch, [features[index] for index in indices])
        for index, prediction in zip(indices, predictions, strict=True):
            outputs[number][index] = prediction

    outputs_of_cuts(
        model,
        features,
        cuts,
        use,
        context=context,
        autocast=autocast,
        name=f"{task.name}/{split.name}",
    )
    return [decode(cut_outputs, features, split.items, task) for cut_outputs in outputs]


def layer_states(
    model: TaskModel,
    features: Sequence[Features],
    pick: Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor],
    *,
    cuts: Sequence[Cut] | None = None,
    context: Context = SILENT,
) -> np.ndarray:
    """
    Read one vector per example from every layer, in one pass.

    Parameters
    ----------
    model : TaskModel
    features : sequence of Features
    pick : callable
        `pick(states, batch)` maps states of shape (rows, tokens, features), normalized where the model
        normalizes its last states, to a Tensor of shape (examples, width).
    cuts : sequence of tuple of int, optional
        Cuts whose last states are read; all layers, from the embedding output on, when absent.
    context
        As in `predict`.

    Returns
    -------
    ndarray of float32 of shape (layers, examples, width)
        In the order of the features.
    """
    layer_cuts = [(), *every_truncation(depth_of(model)).values()] if cuts is None else list(cuts)
    rows: list[list[np.ndarray]] = [[] for _ in layer_cuts]
    order: list[int] = []

    def use(number: int, vectors: torch.Tensor, _: Any, indices: Sequence[int]) -> None:
        rows[number].append(vectors.float().cpu().numpy())
        if number == 0:
            order.extend(indices)

    outputs_of_cuts(model, features, layer_cuts, use, read=pick, context=context)
    inverse = np.argsort(order)
    return np.stack([np.concatenate(batches)[inverse] for batches in rows])


def outputs_of_cuts(
    model: TaskModel,
    features: Sequence[Features],
    cuts: Sequence[Cut],
    use: Use,
    *,
    read: Read | None = None,
    context: Context = SILENT,
    autocast: Autocast = contextlib.nullcontext,
    name: str = "cuts",
) -> None:
    """
    Run examples through every cut of a model, batch by batch.

    Parameters
    ----------
    model : TaskModel
    features : sequence of Features
    cuts : sequence of tuple of int
    use : callable
        `use(cut, outputs, batch, indices)`: the index of the cut, the outputs for its last states, the batch,
        and the indices of its features. Every cut sees a batch before the next batch starts.
    read : callable, optional
        The model's head when absent.
    context, autocast
        As in `predict`.
    name : str
        Label of the progress.

    Notes
    -----
    Batches are those of `predict`, or smaller: with one state per layer they hold at most `LIVE` bytes of
    states.
    """
    if not features:
        raise must("examples to run", "at least one", 0)
    check_cuts(cuts, depth_of(model))
    head = model.read if read is None else read
    model.eval()
    done = 0
    for indices in by_length(features, _budget(model), attrgetter("padded_size")):
        batch = collate([features[index] for index in indices], model.device)

        def visit(
            numbers: Sequence[int],
            states: torch.Tensor,
            batch: dict[str, torch.Tensor] = batch,
            indices: Sequence[int] = indices,
        ) -> None:
            outputs = head(states, batch)
            for number in numbers:
                use(number, outputs, batch, indices)

        with torch.inference_mode(), autocast():
            walk(model.base, model.family, model.base_inputs(batch), cuts, visit)
        done += len(indices)
        context.report(name, done, len(features))


def _budget(model: TaskModel) -> int:
    """Maximum number of tokens of a batch."""
    kind = "cpu" if model.device.type == "cpu" else "cuda"
    bytes_per_token = 4 * int(model.config.hidden_size) * (depth_of(model) + 1 + _ON_THE_WAY)
    return min(TOKENS[kind], LIVE[kind] // bytes_per_token)
