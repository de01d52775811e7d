"""What is said of a map of several models, and how does attention become one?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations, product
from types import MappingProxyType
from typing import Any

import numpy as np

from ..encoders.encoder import Encoder
from ..errors import must
from ..extraction.attention import stream_attention
from ..extraction.texts import Texts
from ..findings.change import change_profile
from ..findings.maps import Map
from ..findings.matching import layer_matching
from ..inference.estimate import Sides
from ..measures.declare import Chosen
from ..rows.planning import Rows
from .attention import attention_similarity_matrix

# Numbers of attention maps that may be held for intervals: two gigabytes.
HELD = 2**28


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
        # Change is counted from 1, which only measures of which 1 is the largest value allow.
        if np.isfinite(same).sum() >= 2 and np.nanmax(same) <= 1:
            change = change_profile(block, positions=list(rows))
            names = [one.left[place] for place in columns.values()]
            sentences.append(f"From {first} to {second}, by {one.measure}: {change.sentence(names)}")
        if min(block.shape) >= 2 and np.isfinite(block).all():
            told = layer_matching(block).sentence([one.left[place] for place in rows.values()])
            sentences.append(f"{first} in {second}, by {one.measure}: {told}")
    return sentences


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
    blocks: dict[tuple[int, int], dict[str, Map]] = {}
    # Intervals of a measure with a direction do not come with those of the other one.
    for i, j in product(range(len(encoders)), repeat=2):
        if j < i and not certainty:
            continue
        pair = [encoders[i]] if i == j else [encoders[i], encoders[j]]
        stream = stream_attention(pair, texts.examples, rows, progress=progress)
        left: Iterable[Any]
        right: Iterable[Any] | None
        if certainty:
            held = _hold(stream)
            left, right = [m[0] for m in held], None if i == j else [m[1] for m in held]
        else:
            left, right = _sides(stream, i == j)
        blocks[i, j] = dict(
            attention_similarity_matrix(
                left,
                right,
                list(measures),
                causal=causal,
                certainty=certainty,
                seed=seed,
                names=names[i],
                right_names=None if i == j else names[j],
                **options,
            )
        )
    return [_assemble(choice, names, blocks) for choice in measures]


def _sides(stream: Any, alone: bool) -> tuple[Iterable[Any], Iterable[Any] | None]:
    """Two iterators over one stream that go side by side: the second gives what the first has just read."""
    if alone:
        return (one.maps[0] for one in stream), None
    latest: list[Any] = []

    def first() -> Iterable[Any]:
        for one in stream:
            latest.append(one.maps[1])
            yield one.maps[0]

    def second() -> Iterable[Any]:
        while latest:
            yield latest.pop()

    return first(), second()


def _hold(stream: Any) -> list[tuple[np.ndarray, ...]]:
    held, numbers = [], 0
    for one in stream:
        numbers += sum(maps.size for maps in one.maps)
        if numbers > HELD:
            raise must(
                "the sentences of attention with certainty",
                f"few enough to be held ({HELD:,} numbers)",
                f"more than {len(held):,} sentences",
            )
        held.append(one.maps)
    return held


def _assemble(
    choice: Chosen, names: Sequence[Sequence[str]], blocks: dict[tuple[int, int], dict[str, Map]]
) -> Map:
    """Put the maps of all pairs of models together into one."""
    label, numbers = choice.label, range(len(names))
    whole = tuple(name for own in names for name in own)
    first = blocks[0, 0][label]

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
        details=MappingProxyType({"backward": backward}),
        resamples=None,
        symmetric=True,
    )
