"""Embeddings of cut sentence encoders: cosines of pairs, for all cuts in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..context import SILENT, Context
from ..errors import InputError, unknown
from ..lazy import torch
from ..tasks.items import Item, Split
from ..tasks.task import Task

if TYPE_CHECKING:
    from .cuts import Cut
    from .models.taskmodel import TaskModel

# Bytes of embeddings that are held at a time.
HELD = 128 * 2**20


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
    import copy

    from .models.stock import configured
    from .models.taskmodel import TaskForm, TaskModel

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
    from .cuts import layer_states
    from .inputs import encode

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
