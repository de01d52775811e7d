"""Which blocks are dropped? By where they are, by how little they seem to do, or by chance."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...comparison.similarity import similarity_matrix
from ...encoders.cutting import refusal
from ...errors import InputError, unknown
from ...findings.results import plain
from ...randomness import generator
from ...store.shelf import Shelf
from ...tasks.items import Split
from ...tasks.subset import subset
from ...tasks.task import Task

if TYPE_CHECKING:
    import os

ROWS = 1_000  # examples of the training split that layers are read on
KIND, FILE = "contribution", "contribution.json"
_TRIES, _TOGETHER = 1_000, 32

Blocks = tuple[int, ...]
Scores = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """
    A way to choose blocks.

    Parameters
    ----------
    name : str
    summary : str
        One sentence.
    choose : callable
        `choose(depth, count, scores) -> blocks or None`, numbered from 1; None where it cannot be done.
    reads : bool
        Whether the encoder must be run on examples first.
    """

    name: str
    summary: str
    choose: Callable[[int, int, Scores], Blocks | None]
    reads: bool = False


def _top(depth: int, count: int, _: Scores) -> Blocks:
    return tuple(range(depth - count + 1, depth + 1))


def _bottom(depth: int, count: int, _: Scores) -> Blocks:
    return tuple(range(1, count + 1))


def _every_second(depth: int, count: int, start: int) -> Blocks | None:
    found = tuple(range(start, 0, -2))[:count]
    return tuple(sorted(found)) if len(found) == count else None


def _alternate(depth: int, count: int, _: Scores) -> Blocks | None:
    return _every_second(depth, count, depth)


def _alternate_even(depth: int, count: int, _: Scores) -> Blocks | None:
    return _every_second(depth, count, depth - 1)


def _symmetric(depth: int, count: int, _: Scores) -> Blocks:
    # Of an odd number of blocks that stay, the bottom gets one more: it is missed most.
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


_ALL = (
    Strategy(name="top", summary="The last blocks.", choose=_top),
    Strategy(name="bottom", summary="The first blocks.", choose=_bottom),
    Strategy(name="alternate", summary="Every second block, from the last one down.", choose=_alternate),
    Strategy(
        name="alternate_even",
        summary="Every second block, from the last but one down.",
        choose=_alternate_even,
    ),
    Strategy(
        name="symmetric", summary="Those in the middle, as many staying at either end.", choose=_symmetric
    ),
    Strategy(
        name="contribution",
        summary="Those whose output points the most in the direction of their input.",
        choose=_contribution,
        reads=True,
    ),
    Strategy(
        name="similarity",
        summary="The span whose ends are the most similar layers.",
        choose=_similarity,
        reads=True,
    ),
)
STRATEGIES: Mapping[str, Strategy] = MappingProxyType({one.name: one for one in _ALL})
RANDOM = "random"


def read_layers(
    encoder: Any,
    task: Task,
    *,
    measure: str,
    longest: int = 128,
    store: str | os.PathLike[str] | None = None,
    progress: Any = None,
) -> dict[str, np.ndarray]:
    """
    Find what blocks do to the token that stands for a training example.

    Parameters
    ----------
    encoder : TransformerEncoder
    task : Task
    measure : str
        A name of `MEASURES`.
    longest : int
        Tokens of an example at most.
    store : path, optional
        What was found is kept there.
    progress : callable, optional

    Returns
    -------
    dict of str to ndarray
        `contribution`, shape (depth,): mean cosine of a block's input and output. `similarity`, shape
        (depth + 1, depth + 1): of layers, NaN where the measure is undefined.
    """
    data = task.split(task.train)
    some = subset(data, min(ROWS, len(data)))
    specification = {
        "version": 1,
        "model": encoder.digest,
        "blocks": encoder.depth,
        "kind": task.kind,
        "examples": some.digest,
        "longest": longest,
        "measure": measure,
    }
    with Shelf(store).work(kind=KIND, specification=specification) as work:
        entry = work.entry
        if entry is None:
            layers = _states(encoder, some, task, longest, progress)
            cosines = [_cosine(below, above) for below, above in pairwise(layers)]
            values = next(iter(similarity_matrix(layers, measures=[measure]).values())).values
            told = plain({"contribution": cosines, "similarity": np.asarray(values)})
            (work.folder / FILE).write_text(json.dumps(told))
            entry = work.finish({"model": encoder.name, "task": task.name})
    read = json.loads((Path(entry.folder) / FILE).read_text())
    return {name: np.array(value, dtype=np.float64) for name, value in read.items()}


def _states(encoder: Any, some: Split, task: Task, longest: int, progress: Any) -> list[np.ndarray]:
    """States of the token that stands for an example, or for each of its choices, in every layer."""
    from ...training.inputs import encode

    features = encode(some.items, task, encoder.tokenizer, longest=longest)
    rows = [tokens for feature in features for tokens in feature.tokens]
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    out: list[np.ndarray] = [
        np.empty((len(rows), width), dtype=np.float32) for width in encoder.widths[: encoder.depth + 1]
    ]
    done = 0
    while done < len(order):
        places = order[done : done + _TOGETHER]
        last = [len(rows[place]) - 1 if encoder.family.reads == "last" else 0 for place in places]

        def visit(layer: int, states: Any, places: list[int] = places, last: list[int] = last) -> None:
            if layer <= encoder.depth:
                picked = states[range(len(places)), last]
                out[layer][places] = picked.detach().float().cpu().numpy()

        encoder.run([rows[place] for place in places], visit)
        done += len(places)
        if progress is not None:
            progress("layers", done, len(order))
    return out


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
        How many blocks go.
    scores : mapping
        Of `read_layers`, where the strategy needs them.

    Returns
    -------
    blocks : tuple of int or None
        None where the strategy has no such choice, or the model cannot be without it.
    reason : str
        Why, then.
    """
    if name not in STRATEGIES:
        raise unknown("strategy", name, (*STRATEGIES, RANDOM))
    blocks = STRATEGIES[name].choose(encoder.depth, count, scores)
    if blocks is None:
        return None, f"{name} has no choice of {count} of {encoder.depth} blocks."
    return (None, reason) if (reason := _refused(encoder, blocks)) else (blocks, "")


def random_blocks(encoder: Any, count: int, draws: int, seed: int = 0) -> list[Blocks]:
    """
    Draw sets of blocks, each equally likely among those that the model can be without.

    Parameters
    ----------
    encoder : TransformerEncoder
    count : int
    draws : int
        How many sets, different ones where there are as many.
    seed : int

    Returns
    -------
    list of tuple of int
    """
    found: list[Blocks] = []
    noise = generator(seed, "dropping", count)
    for _ in range(_TRIES):
        drawn = noise.choice(encoder.depth, size=count, replace=False)
        blocks = tuple(sorted(int(place) + 1 for place in drawn))
        if blocks not in found and not _refused(encoder, blocks):
            found.append(blocks)
        if len(found) == draws:
            break
    if not found:
        raise InputError(f"{encoder.name} must be able to be without some {count} blocks, but it is not.")
    return found


def _refused(encoder: Any, blocks: Sequence[int]) -> str:
    kept = tuple(block for block in range(1, encoder.depth + 1) if block not in blocks)
    return refusal(encoder.model, encoder.family, kept) or ""


def said_strategies(encoder: Any, chosen: Sequence[Any], ways: Sequence[str], measure: str) -> str:
    """Say which blocks were dropped and what was trained afterwards, for the methods of a paper."""
    told = {
        "full": "all weights were then fine-tuned",
        "head": "the head alone was then trained",
        "none": "models that were fine-tuned whole had blocks dropped and nothing trained afterwards",
    }
    names = list(dict.fromkeys(one.strategy for one in chosen))
    said = "; ".join(
        f"{name}: {STRATEGIES[name].summary[0].lower()}{STRATEGIES[name].summary[1:-1]}"
        for name in names
        if name in STRATEGIES
    )
    draws = max((one.draw for one in chosen), default=0)
    null = f" Sets of blocks drawn at random ({draws} a count) served as the null." if draws else ""
    by = f" Layers were compared by {measure}." if "similarity" in names else ""
    return (
        f"Blocks of {encoder.name} ({encoder.depth} in all) were dropped ({said}); "
        f"{', and '.join(told[way] for way in ways)}.{null}{by}"
    )
