"""What does a tuned model answer without some of its blocks? Many cuts of one model, each prefix run once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..encoders.stepping import Cut as Cut
from ..encoders.stepping import check_cuts, walk
from ..errors import must
from ..tasks.items import Split
from ..tasks.task import Task
from .evaluating import TOKENS, Progress

if TYPE_CHECKING:
    import numpy as np
    import torch

    from .inputs import Features
    from .taskmodel import TaskModel

# Bytes that the states of one batch may take, a layer each and a few on the way.
LIVE = {"cpu": 128 * 2**20, "cuda": 4 * 2**30}
_ON_THE_WAY = 3

Read = Callable[["torch.Tensor", "dict[str, torch.Tensor]"], Any]
Use = Callable[[int, Any, "dict[str, torch.Tensor]", Sequence[int]], None]


def every_truncation(depth: int) -> dict[int, Cut]:
    """
    Keep the lowest blocks only.

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
    _check_depth(depth)
    return {kept: tuple(range(1, kept + 1)) for kept in range(1, depth + 1)}


def every_span(depth: int) -> dict[tuple[int, int], Cut]:
    """
    Skip some blocks that follow each other.

    Parameters
    ----------
    depth : int
        Blocks of the model.

    Returns
    -------
    dict of (int, int) to tuple of int
        For the first and the last block that is skipped, the blocks that are left.

    Examples
    --------
    >>> every_span(2)
    {(1, 1): (2,), (1, 2): (), (2, 2): (1,)}
    """
    _check_depth(depth)
    blocks = tuple(range(1, depth + 1))
    return {
        (first, last): blocks[: first - 1] + blocks[last:]
        for first in blocks
        for last in range(first, depth + 1)
    }


def _check_depth(depth: int) -> None:
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise must("depth", "a whole number of at least 1", depth)


def depth_of(model: TaskModel) -> int:
    """How many blocks the encoder of a model has."""
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
    progress: Progress | None = None,
    autocast: Any = None,
    read: Read | None = None,
) -> list[list[Any]]:
    """
    Answer every example with every cut of a model.

    The answers are those that really cut models give, and the whole model's are those of `predict`.

    Parameters
    ----------
    model : TaskModel
    split : Split
    task : Task
    tokenizer : Tokenizer
        Of the encoder.
    cuts : sequence of tuple of int
        The blocks that run, numbered from 1, in their order. With none of them the head reads the
        embedding output.
    longest, stride, progress, autocast
        As in `predict`.
    read : callable, optional
        What stands for the head: `read(states, batch)` gives what `TaskModel.read` gives.

    Returns
    -------
    list of list
        For each cut, one answer an example, in the form of the task's kind.
    """
    from .decoding import answers, decode
    from .inputs import encode

    features = encode(split.items, task, tokenizer, longest=longest, stride=stride, mask=model.mask)
    outputs: list[list[Any]] = [[None] * len(features) for _ in cuts]

    def use(number: int, found: Any, batch: dict[str, torch.Tensor], places: Sequence[int]) -> None:
        said = answers(model, found, batch, [features[place] for place in places])
        for place, each in zip(places, said, strict=True):
            outputs[number][place] = each

    outputs_of_cuts(
        model,
        features,
        cuts,
        use,
        read=read,
        progress=progress,
        autocast=autocast,
        name=f"{task.name}/{split.name}",
    )
    return [decode(each, features, split.items, task) for each in outputs]


def layer_states(
    model: TaskModel,
    features: Sequence[Features],
    pick: Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor],
    *,
    cuts: Sequence[Cut] | None = None,
    progress: Progress | None = None,
    autocast: Any = None,
) -> np.ndarray:
    """
    Read one vector an example from every layer, in one pass.

    Parameters
    ----------
    model : TaskModel
    features : sequence of Features
    pick : callable
        `pick(states, batch)`: from states of shape (rows, tokens, features), normed where the model norms
        its last ones, to a Tensor of shape (examples, width).
    cuts : sequence of tuple of int, optional
        Whose last states are read; when absent all layers, from the embedding output on.
    progress, autocast
        As in `predict`.

    Returns
    -------
    ndarray of float32 of shape (layers, examples, width)
        In the order of the features.
    """
    import numpy as np

    chosen = [(), *every_truncation(depth_of(model)).values()] if cuts is None else list(cuts)
    rows: list[list[np.ndarray]] = [[] for _ in chosen]
    order: list[int] = []

    def use(number: int, found: torch.Tensor, _: Any, places: Sequence[int]) -> None:
        rows[number].append(found.float().cpu().numpy())
        if number == 0:
            order.extend(places)

    outputs_of_cuts(model, features, chosen, use, read=pick, progress=progress, autocast=autocast)
    back = np.argsort(order)
    return np.stack([np.concatenate(each)[back] for each in rows])


def outputs_of_cuts(
    model: TaskModel,
    features: Sequence[Features],
    cuts: Sequence[Cut],
    use: Use,
    *,
    read: Read | None = None,
    progress: Progress | None = None,
    autocast: Any = None,
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
        `use(cut, outputs, batch, places)`: the number of the cut, what was read of its last states, the
        batch, and which of the features it is made of. Every cut sees a batch before the next batch comes.
    read : callable, optional
        The model's head when absent.
    progress, autocast
        As in `predict`.
    name : str
        What progress is of.

    Notes
    -----
    Batches are those of `predict`, or smaller: with one state for every layer they hold at most `LIVE` bytes
    of states.
    """
    import contextlib

    import torch

    from .inputs import collate

    if not features:
        raise must("examples to run", "at least one", 0)
    check_cuts(cuts, depth_of(model))
    chosen = model.read if read is None else read
    model.eval()
    done = 0
    for places in _batches(model, features):
        batch = collate([features[place] for place in places], model.device)

        def visit(
            numbers: Sequence[int],
            states: torch.Tensor,
            batch: dict[str, torch.Tensor] = batch,
            places: Sequence[int] = places,
        ) -> None:
            found = chosen(states, batch)
            for number in numbers:
                use(number, found, batch, places)

        with torch.inference_mode(), autocast() if autocast is not None else contextlib.nullcontext():
            walk(model.base, model.family, model.base_inputs(batch), cuts, visit)
        done += len(places)
        if progress is not None:
            progress(name, done, len(features))


def _batches(model: TaskModel, features: Sequence[Features]) -> Iterator[list[int]]:
    """Group examples of similar length; the longest first, so that memory runs out at once or not at all."""
    kind = "cpu" if model.device.type == "cpu" else "cuda"
    each = 4 * int(model.config.hidden_size) * (depth_of(model) + 1 + _ON_THE_WAY)
    budget = min(TOKENS[kind], LIVE[kind] // each)
    order = sorted(range(len(features)), key=lambda place: -len(features[place]))
    done = 0
    while done < len(order):
        first = features[order[done]]
        count = max(1, budget // max(1, len(first) * len(first.tokens)))
        yield order[done : done + count]
        done += count
