"""Strategies that choose blocks to drop (Sajjad et al. 2023): by position, by effect, or at random."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ...comparison.similarity import similarity_matrix
from ...context import Context
from ...encoders.cutting import refusal
from ...errors import InputError
from ...findings.results import plain
from ...randomness import generator
from ...store.shelf import Shelf
from ...tasks.subset import subset
from ...tasks.task import Split, Task

ROWS, LONGEST = 1_000, 128  # examples of the training split that layers are read on, and their tokens
KIND, FILE = "contribution", "contribution.json"
_TRIES, _TOGETHER = 1_000, 32

Blocks = tuple[int, ...]
Scores = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Strategy:
    """
    A rule that chooses blocks.

    Parameters
    ----------
    summary : str
        One sentence.
    choose : callable
        `choose(depth, count, scores) -> blocks or None`, numbered from 1; None where there is no choice.
    reads : bool
        Whether the encoder must be run on examples first.
    """

    summary: str
    choose: Callable[[int, int, Scores], Blocks | None]
    reads: bool = False


def _top(depth: int, count: int, _: Scores) -> Blocks:
    return tuple(range(depth - count + 1, depth + 1))


def _bottom(depth: int, count: int, _: Scores) -> Blocks:
    return tuple(range(1, count + 1))


def _every_second(skipped: int) -> Callable[[int, int, Scores], Blocks | None]:
    """Every second block, down from the one below the last so many."""

    def choose(depth: int, count: int, _: Scores) -> Blocks | None:
        blocks = tuple(range(depth - skipped, 0, -2))[:count]
        return tuple(sorted(blocks)) if len(blocks) == count else None

    return choose


def _symmetric(depth: int, count: int, _: Scores) -> Blocks:
    # Of an odd number of blocks that stay, one more is at the bottom, whose loss costs most.
    first = (depth - count + 1) // 2 + 1
    return tuple(range(first, first + count))


def _contribution(depth: int, count: int, scores: Scores) -> Blocks:
    order = np.argsort(-scores["contribution"], kind="stable")[:count]
    return tuple(sorted(int(place) + 1 for place in order))


def _similarity(depth: int, count: int, scores: Scores) -> Blocks | None:
    spans = np.array([scores["similarity"][i, i + count] for i in range(depth - count + 1)])
    if not np.isfinite(spans).any():
        return None
    first = int(np.nanargmax(spans))
    return tuple(range(first + 1, first + count + 1))


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "top": Strategy("The last blocks.", _top),
        "bottom": Strategy("The first blocks.", _bottom),
        "alternate": Strategy("Every second block, from the last one down.", _every_second(0)),
        "alternate_even": Strategy("Every second block, from the last but one down.", _every_second(1)),
        "symmetric": Strategy("The middle blocks, with as many left at either end.", _symmetric),
        "contribution": Strategy(
            "The blocks whose output has the highest cosine with their input.", _contribution, reads=True
        ),
        "similarity": Strategy("The span whose ends are the most similar layers.", _similarity, reads=True),
    }
)
RANDOM = "random"


def read_layers(encoder: Any, task: Task, *, measure: str, context: Context) -> dict[str, np.ndarray]:
    """
    Measure the effect of each block on the token that represents a training example.

    Parameters
    ----------
    encoder : TransformerEncoder
    task : Task
    measure : str
        A name of `MEASURES`.
    context : Context
        Its store keeps the measurements.

    Returns
    -------
    dict of str to ndarray
        `contribution`, shape (depth,): mean cosine of a block's input and output. `similarity`, shape
        (depth + 1, depth + 1): of layers, NaN where the measure is undefined.
    """
    data = task.split(task.train)
    sample = subset(data, min(ROWS, len(data)))
    specification = {
        "version": 1,
        "model": encoder.digest,
        "blocks": encoder.depth,
        "kind": task.kind,
        "examples": sample.digest,
        "longest": LONGEST,
        "measure": measure,
    }
    with Shelf(context.store).work(kind=KIND, specification=specification) as work:
        entry = work.entry
        if entry is None:
            layers = _states(encoder, sample, task, context)
            cosines = [_cosine(below, above) for below, above in pairwise(layers)]
            values = next(iter(similarity_matrix(layers, measures=[measure]).values())).values
            scores = plain({"contribution": cosines, "similarity": np.asarray(values)})
            (work.folder / FILE).write_text(json.dumps(scores))
            entry = work.finish({"model": encoder.name, "task": task.name})
    stored = json.loads((Path(entry.folder) / FILE).read_text())
    return {name: np.array(value, dtype=np.float64) for name, value in stored.items()}


def _states(encoder: Any, sample: Split, task: Task, context: Context) -> list[np.ndarray]:
    """States of the token that represents an example, or each of its choices, in every layer."""
    from ...training.inputs import encode

    features = encode(sample.items, task, encoder.tokenizer, longest=LONGEST)
    rows = [tokens for feature in features for tokens in feature.tokens]
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    layers: list[np.ndarray] = [
        np.empty((len(rows), width), dtype=np.float32) for width in encoder.widths[: encoder.depth + 1]
    ]
    for start in range(0, len(order), _TOGETHER):
        places = order[start : start + _TOGETHER]
        last = [len(rows[place]) - 1 if encoder.family.reads == "last" else 0 for place in places]

        def visit(layer: int, states: Any, places: list[int] = places, last: list[int] = last) -> None:
            if layer <= encoder.depth:
                picked = states[range(len(places)), last]
                layers[layer][places] = picked.detach().float().cpu().numpy()

        encoder.run([rows[place] for place in places], visit)
        if context.progress is not None:
            context.progress("layers", start + len(places), len(order))
    return layers


def _cosine(x: np.ndarray, y: np.ndarray) -> float:
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    return float(np.mean((x * y).sum(axis=1) / np.where(lengths > 0, lengths, 1.0)))


def chosen_blocks(encoder: Any, name: str, count: int, scores: Scores) -> tuple[Blocks | None, str]:
    """
    Choose blocks by a strategy.

    Parameters
    ----------
    encoder : TransformerEncoder
    name : str
        Of `STRATEGIES`.
    count : int
        Number of blocks to drop.
    scores : mapping
        Of `read_layers`, where the strategy needs them.

    Returns
    -------
    blocks : tuple of int or None
        None where the strategy has no such choice, or the model cannot run without these blocks.
    reason : str
        Why there are none.
    """
    blocks = STRATEGIES[name].choose(encoder.depth, count, scores)
    if blocks is None:
        return None, f"{name} has no choice of {count} of {encoder.depth} blocks."
    return (None, reason) if (reason := _refused(encoder, blocks)) else (blocks, "")


def random_blocks(encoder: Any, count: int, draws: int, seed: int = 0) -> list[Blocks]:
    """
    Draw sets of blocks, each equally likely among those that the model can run without.

    Parameters
    ----------
    encoder : TransformerEncoder
    count : int
    draws : int
        Number of different sets; fewer where there are not as many.
    seed : int

    Returns
    -------
    list of tuple of int
    """
    sets: list[Blocks] = []
    rng = generator(seed, "dropping", count)
    for _ in range(_TRIES):
        places = rng.choice(encoder.depth, size=count, replace=False)
        blocks = tuple(sorted(int(place) + 1 for place in places))
        if blocks not in sets and not _refused(encoder, blocks):
            sets.append(blocks)
        if len(sets) == draws:
            break
    if not sets:
        raise InputError(f"{encoder.name} must be able to run without some {count} blocks, but it is not.")
    return sets


def _refused(encoder: Any, blocks: Sequence[int]) -> str:
    remaining = tuple(block for block in range(1, encoder.depth + 1) if block not in blocks)
    return refusal(encoder.model, encoder.family, remaining) or ""
