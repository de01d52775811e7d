"""What is said of a map of several models, and how does attention become one?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..encoders.encoder import Encoder
from ..errors import must
from ..extraction.attention import SentenceMaps, stream_attention
from ..extraction.texts import Texts
from ..findings.change import change_profile
from ..findings.maps import Map
from ..findings.matching import layer_matching
from ..inference.estimate import Sides
from ..measures.attention_pass import AttentionPass
from ..measures.declare import Chosen
from ..rows.planning import Rows
from .attention import as_attention_map, attention_similarity_matrix
from .inputs import using_threads

Blocks = dict[tuple[int, int], dict[str, Map]]

# Numbers of attention maps that may be held for intervals: two gigabytes.
HELD = 2**28
# What fast arithmetic promises: a smaller difference from 1 is rounding, and no change.
ROUNDING = 1e-6


def say(one: Map, models: Sequence[str]) -> list[str]:
    """
    Say of every two models where they differ, and whether layers find their own depth.

    Parameters
    ----------
    one : Map
        Over the layers of all models, named `model/layer`.
    models : sequence of str

    Returns
    -------
    list of str
    """
    places: dict[str, dict[int, int]] = {name: {} for name in models}
    for place, layer in enumerate(one.left):
        model, _, depth = layer.rpartition("/")
        # A last state that is normed once more has no depth of its own.
        if model in places and depth.isdigit():
            places[model][int(depth)] = place
    sentences = []
    for first, second in combinations(models, 2):
        rows, columns = places[first], places[second]
        block = one.values[np.ix_(list(rows.values()), list(columns.values()))]
        same = np.diag(block) if list(rows) == list(columns) else np.empty(0)
        same = np.where(np.abs(same - 1) <= ROUNDING, 1.0, same)
        # Change is counted from 1, which only measures of which 1 is the largest value allow.
        if np.isfinite(same).sum() >= 2 and np.nanmax(same) <= 1:
            change = change_profile(same, positions=list(rows))
            names = [one.left[place] for place in columns.values()]
            sentences.append(f"From {first} to {second}, by {one.measure}: {change.sentence(names)}")
        if min(block.shape) >= 2 and np.isfinite(block).all():
            told = layer_matching(block).sentence([one.left[place] for place in rows.values()])
            sentences.append(f"{first} in {second}, by {one.measure}: {told}")
    return sentences


def tuned_facts(encoder: Encoder) -> dict[str, Any] | None:
    """
    Say what a model was fine-tuned on, where its folder is one that `finetune` wrote.

    Parameters
    ----------
    encoder : Encoder

    Returns
    -------
    dict or None
        `model`, the name before; `task`; and `seed`.
    """
    # Training stands above comparison; of what it writes only this file is read here.
    file = Path(encoder.source.given) / "run.json"
    try:
        told = json.loads(file.read_bytes()) if file.is_file() else None
        if told is None:
            return None
        return {"model": str(told["model"]), "task": str(told["task"]), "seed": told["seeds"]["order"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def attention_maps(
    encoders: Sequence[Encoder],
    texts: Texts,
    rows: Rows,
    measures: Sequence[Chosen],
    *,
    causal: bool = False,
    certainty: bool = False,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> list[Map]:
    """
    Compare the attention of all models on the same sentences.

    Parameters
    ----------
    encoders : sequence of Encoder
    texts : Texts
    rows : Rows
        Of words.
    measures : sequence of Chosen
    causal, certainty, seed
        As in `attention_similarity_matrix`.
    progress : callable, optional
    **options
        halves, level, threads.

    Returns
    -------
    list of Map
        One a measure, over the blocks of all models.
    """
    names = [[f"{e.name}/{k}" for k in range(1, len(e.layers)) if e.layers[k].isdigit()] for e in encoders]
    evened: list[int] = []
    stream = _counted(stream_attention(encoders, texts.examples, rows, progress=progress), evened)
    if certainty:
        held, places = _hold(stream)
        documents = rows.clusters[np.searchsorted(rows.examples, places)] if rows.unit == "document" else None
        blocks = _with_intervals(
            held, names, measures, clusters=documents, causal=causal, seed=seed, **options
        )
    else:
        with using_threads(options.get("threads")):
            blocks = _in_one_pass(stream, names, measures, causal=causal, seed=seed)
    maps = [replace(_assemble(choice, names, blocks), unit=rows.unit) for choice in measures]
    if not sum(evened):
        return maps
    told = f"{sum(evened):,} rows of attention went to no word, and were spread evenly"
    return [replace(one, warnings=(*one.warnings, told)) for one in maps]


def _counted(stream: Iterable[SentenceMaps], evened: list[int]) -> Iterable[SentenceMaps]:
    for one in stream:
        evened.append(one.evened)
        yield one


def _in_one_pass(
    stream: Iterable[SentenceMaps],
    names: Sequence[Sequence[str]],
    measures: Sequence[Chosen],
    *,
    causal: bool,
    seed: int,
) -> Blocks:
    """Compare every two models, and each with itself, sentence by sentence as they come."""
    pairs = list(combinations_with_replacement(range(len(names)), 2))
    passes = {pair: AttentionPass(list(measures), causal=causal) for pair in pairs}
    for one in stream:
        for i, j in pairs:
            passes[i, j].add(one.maps[i], None if i == j else one.maps[j])
    return {
        (i, j): {
            label: as_attention_map(cells, i == j, names[i], None if i == j else names[j], seed)
            for label, cells in passes[i, j].finish().items()
        }
        for i, j in pairs
    }


def _with_intervals(
    held: list[tuple[np.ndarray, ...]],
    names: Sequence[Sequence[str]],
    measures: Sequence[Chosen],
    **options: Any,
) -> Blocks:
    # Intervals of a measure with a direction do not come with those of the other one.
    return {
        (i, j): dict(
            attention_similarity_matrix(
                [maps[i] for maps in held],
                None if i == j else [maps[j] for maps in held],
                list(measures),
                certainty=True,
                names=names[i],
                right_names=None if i == j else names[j],
                **options,
            )
        )
        for i, j in product(range(len(names)), repeat=2)
    }


def _hold(stream: Iterable[SentenceMaps]) -> tuple[list[tuple[np.ndarray, ...]], list[int]]:
    held: list[tuple[np.ndarray, ...]] = []
    places: list[int] = []
    numbers = 0
    for one in stream:
        numbers += sum(maps.size for maps in one.maps)
        if numbers > HELD:
            raise must(
                "the sentences of attention with certainty",
                f"few enough to be held ({HELD:,} numbers)",
                f"more than {len(held):,} sentences",
            )
        held.append(one.maps)
        places.append(one.place)
    return held, places


def _assemble(
    choice: Chosen, names: Sequence[Sequence[str]], blocks: dict[tuple[int, int], dict[str, Map]]
) -> Map:
    """Put the maps of all pairs of models together into one."""
    label, numbers = choice.label, range(len(names))
    whole = tuple(name for own in names for name in own)
    first = blocks[0, 0][label]
    held = first.resamples

    def table(value: Callable[[Map], Any], other: Callable[[Map], Any]) -> np.ndarray:
        def block(i: int, j: int) -> Any:
            if (i, j) in blocks:
                return value(blocks[i, j][label])
            return np.asarray(other(blocks[j, i][label])).T

        return np.block([[block(i, j) for j in numbers] for i in numbers])

    def same(read: Callable[[Map], Any]) -> np.ndarray:
        return table(read, read)

    values = table(lambda m: m.values, lambda m: m.details["backward"])
    backward = table(lambda m: m.details["backward"], lambda m: m.values)
    reasons = same(lambda m: np.array(m.reasons, dtype=object))
    every = [found[label] for found in blocks.values()]
    blank = np.full(values.shape, np.nan)
    bounds = {} if first.low is None else {"low": same(lambda m: m.low), "high": same(lambda m: m.high)}
    return replace(
        first,
        left=whole,
        right=whole,
        values=values,
        reasons=tuple(tuple(row) for row in reasons.tolist()),
        null_mean=blank,
        z=blank,
        p=blank,
        **bounds,
        rank=Sides(None, None),
        kept=Sides(None, None),
        warnings=tuple(dict.fromkeys(warning for one in every for warning in one.warnings)),
        details=MappingProxyType({"backward": backward}),
        # The same half-samples in every block, so that cells of different models are paired.
        resamples=held and replace(held, array=same(lambda m: m.resamples and m.resamples.array)),
        symmetric=True,
    )
