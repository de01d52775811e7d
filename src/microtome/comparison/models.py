"""Attention maps of several models, and what each was fine-tuned on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..encoders.encoder import Encoder
from ..errors import must
from ..extraction.attention import SentenceMaps, stream_attention
from ..extraction.texts import Texts
from ..findings.maps import Map
from ..inference.estimate import Sides
from ..measures.attention_pass import AttentionPass
from ..measures.declare import Chosen
from ..rows.planning import Rows
from ..runtime import using_threads
from .attention import as_attention_map, attention_similarity_matrix
from .request import SimilarityOptions

Blocks = dict[tuple[int, int], dict[str, Map]]

# Attention values that may be held in memory for intervals: two gigabytes.
HELD = 2**28


def tuned_facts(encoder: Encoder) -> dict[str, Any] | None:
    """
    Read what a model was fine-tuned on, where `finetune` wrote its folder.

    Parameters
    ----------
    encoder : Encoder

    Returns
    -------
    dict or None
        `model`, the name of the base model; `task`; and `seed`.
    """
    # `training` is a higher layer than `comparison`; of what it writes only this file is read here.
    try:
        run_record = json.loads((Path(encoder.source.given) / "run.json").read_bytes())
        return {
            "model": str(run_record["model"]),
            "task": str(run_record["task"]),
            "seed": run_record["seeds"]["order"],
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def attention_maps(
    encoders: Sequence[Encoder],
    texts: Texts,
    rows: Rows,
    measures: Sequence[Chosen],
    options: SimilarityOptions | None = None,
    *,
    causal: bool = False,
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
    options : SimilarityOptions, optional
        certainty, seed, halves, level, threads and progress.
    causal : bool
        As in `attention_similarity_matrix`.

    Returns
    -------
    list of Map
        One per measure, over the layers of all models.
    """
    options = options or SimilarityOptions()
    names = [[f"{e.name}/{k}" for k in range(1, len(e.layers)) if e.layers[k].isdigit()] for e in encoders]
    evened: list[int] = []
    stream = _counted(stream_attention(encoders, texts.examples, rows, progress=options.progress), evened)
    if options.certainty:
        held, example_indices = _hold(stream)
        documents = (
            rows.clusters[np.searchsorted(rows.examples, example_indices)]
            if rows.unit == "document"
            else None
        )
        shared = {name: getattr(options, name) for name in ("halves", "level", "seed", "threads")}
        blocks = _with_intervals(held, names, measures, clusters=documents, causal=causal, **shared)
    else:
        with using_threads(options.threads):
            blocks = _in_one_pass(stream, names, measures, causal=causal, seed=options.seed)
    maps = [replace(_assemble(choice, names, blocks), unit=rows.unit) for choice in measures]
    if not sum(evened):
        return maps
    warning = f"{sum(evened):,} rows of attention went to no word, and were spread evenly"
    return [replace(attention_map, warnings=(*attention_map.warnings, warning)) for attention_map in maps]


def _counted(stream: Iterable[SentenceMaps], evened: list[int]) -> Iterable[SentenceMaps]:
    for sentence in stream:
        evened.append(sentence.evened)
        yield sentence


def _in_one_pass(
    stream: Iterable[SentenceMaps],
    names: Sequence[Sequence[str]],
    measures: Sequence[Chosen],
    *,
    causal: bool,
    seed: int,
) -> Blocks:
    """Compare each pair of models, and each model with itself, in one pass over the sentences."""
    pairs = list(combinations_with_replacement(range(len(names)), 2))
    passes = {pair: AttentionPass(list(measures), causal=causal) for pair in pairs}
    for sentence in stream:
        for i, j in pairs:
            passes[i, j].add(sentence.maps[i], None if i == j else sentence.maps[j])
    blocks: Blocks = {}
    for i, j in pairs:
        right_names = None if i == j else names[j]
        blocks[i, j] = {
            label: as_attention_map(cells, i == j, names[i], right_names, seed)
            for label, cells in passes[i, j].finish().items()
        }
        if i != j:
            blocks[j, i] = {label: _swapped(block) for label, block in blocks[i, j].items()}
    return blocks


def _swapped(block: Map) -> Map:
    """The map of two models with its sides swapped: the other direction of the measure."""
    return replace(
        block,
        left=block.right,
        right=block.left,
        values=block.details["backward"].T,
        reasons=tuple(zip(*block.reasons, strict=True)),
        details=MappingProxyType({"backward": block.values.T}),
    )


def _with_intervals(
    held: list[tuple[np.ndarray, ...]],
    names: Sequence[Sequence[str]],
    measures: Sequence[Chosen],
    **options: Any,
) -> Blocks:
    # Intervals of one direction of an asymmetric measure do not give those of the other.
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
    example_indices: list[int] = []
    numbers = 0
    for sentence in stream:
        numbers += sum(maps.size for maps in sentence.maps)
        if numbers > HELD:
            raise must(
                "the sentences of attention with certainty",
                f"few enough to be held ({HELD:,} numbers)",
                f"more than {len(held):,} sentences",
            )
        held.append(sentence.maps)
        example_indices.append(sentence.place)
    return held, example_indices


def _assemble(choice: Chosen, names: Sequence[Sequence[str]], blocks: Blocks) -> Map:
    """Join the maps of all pairs of models into one."""
    label, numbers = choice.label, range(len(names))
    layer_names = tuple(name for model_layers in names for name in model_layers)
    first = blocks[0, 0][label]

    def table(getter: Callable[[Map], Any]) -> np.ndarray:
        return np.block([[getter(blocks[i, j][label]) for j in numbers] for i in numbers])

    values, reasons = table(lambda m: m.values), table(lambda m: np.array(m.reasons, dtype=object))
    blank = np.full(values.shape, np.nan)
    bounds = {} if first.low is None else {"low": table(lambda m: m.low), "high": table(lambda m: m.high)}
    # The same half-samples in every block, so that cells of different models are paired.
    resamples = first.resamples and replace(
        first.resamples, array=table(lambda m: m.resamples and m.resamples.array)
    )
    messages = (warning for maps in blocks.values() for warning in maps[label].warnings)
    return replace(
        first,
        left=layer_names,
        right=layer_names,
        values=values,
        reasons=tuple(tuple(row) for row in reasons.tolist()),
        null_mean=blank,
        z=blank,
        p=blank,
        **bounds,
        rank=Sides(None, None),
        kept=Sides(None, None),
        warnings=tuple(dict.fromkeys(messages)),
        details=MappingProxyType({"backward": table(lambda m: m.details["backward"])}),
        resamples=resamples,
        symmetric=True,
    )
