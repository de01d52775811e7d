"""Similarity maps of attention measures, accumulated sentence by sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, product, zip_longest
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arguments import checked
from ..encoders.encoder import Encoder
from ..encoders.versions import provenance
from ..errors import InputError, must
from ..extraction.attention import SentenceMaps, stream_attention
from ..extraction.texts import Texts
from ..findings.maps import Map
from ..findings.paired import Resamples
from ..findings.record import Maps
from ..inference.clusters import Clusters
from ..inference.estimate import Sides
from ..inference.resampling import half_interval, half_plan
from ..measures.attention_rows import AttentionCells, AttentionPass
from ..measures.declare import Chosen, Measure
from ..measures.table import chosen_all
from ..rows.planning import Rows
from ..runtime import using_threads
from .certainty import with_interval
from .inputs import row_digest
from .request import SimilarityOptions

# What of the options concerns attention.
OPTIONS = ("certainty", "clusters", "halves", "level", "seed", "threads", "names", "right_names")


@checked
def attention_similarity_matrix(
    left: Iterable[Any],
    right: Iterable[Any] | None = None,
    measures: str | Measure | Chosen | Iterable[str | Measure | Chosen] = "attention_js",
    *,
    causal: bool = False,
    **options: Any,
) -> Maps:
    """
    Compare the attention of every layer of one model with every layer of another, or of itself.

    Parameters
    ----------
    left : iterable of arrays of shape (layers, heads, words, words)
        Word-level attention, one array per sentence; rows sum to 1, and padding is removed.
    right : the same sentences through another model, optional
        None compares the left with itself.
    measures : str or sequence
        Attention measures of `microtome ls measures`.
    causal : bool
        Cut every model's attention to the lower triangle and renormalize it, so that causal and
        bidirectional models can be compared.
    **options
        Of `SimilarityOptions`: certainty (half-sampling intervals over sentences; both sides must then be
        lists), clusters (one per sentence, such as its document), halves, level, seed, threads, names and
        right_names. Attention is compared on the processor.

    Returns
    -------
    Maps

    Examples
    --------
    >>> import microtome as mt
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> attention = [rng.dirichlet(np.ones(5), size=(3, 2, 5)) for sentence in range(20)]
    >>> mt.attention_similarity_matrix(attention)["attention_js"].shape
    (3, 3)
    """
    settings = SimilarityOptions.read(options, OPTIONS)
    choices = chosen_all(measures)
    for choice in choices:
        if choice.declared("needs") != "attention":
            raise InputError(f"{choice.label} must be given rows, not attention maps; use similarity_matrix.")
    if settings.certainty and not (
        isinstance(left, Sequence) and (right is None or isinstance(right, Sequence))
    ):
        raise InputError("certainty must be asked of lists of sentences, which can be read again.")
    with using_threads(settings.threads):
        cells_by_measure = _read(left, right, choices, causal)
        maps = {
            label: as_attention_map(cells, right is None, settings.names, settings.right_names, settings.seed)
            for label, cells in cells_by_measure.items()
        }
        if settings.certainty:
            maps = _with_intervals(maps, left, right, choices, causal, settings)
    return Maps(list(maps.values()))


def _read(
    left: Iterable[Any], right: Iterable[Any] | None, choices: Sequence[Chosen], causal: bool
) -> dict[str, AttentionCells]:
    for side, sentences in (("left", left), ("right", right)):
        if (sentences is not None or side == "left") and (
            not isinstance(sentences, Iterable) or isinstance(sentences, (str, bytes, Mapping))
        ):
            raise must(side, "the attention of sentences, an array each", sentences)
    reading = AttentionPass(choices, causal=causal)
    if right is None:
        for left_maps in left:
            reading.add(left_maps)
        return reading.finish()
    for count, (left_maps, right_maps) in enumerate(zip_longest(left, right)):
        if left_maps is None or right_maps is None:
            side = "left" if left_maps is None else "right"
            raise InputError(f"both sides must have the same sentences, but the {side} ends after {count}.")
        reading.add(left_maps, right_maps)
    return reading.finish()


def _names(names: Sequence[str] | None, count: int, side: str) -> tuple[str, ...]:
    if names is None:
        return tuple(str(k + 1) for k in range(count))
    if len(names) != count:
        raise must(f"names of the {side} layers", f"{count}, one a layer", len(names))
    return tuple(names)


def as_attention_map(
    cells: AttentionCells,
    symmetric: bool,
    names: Sequence[str] | None,
    right_names: Sequence[str] | None,
    seed: int,
) -> Map:
    """
    Build the map of an attention measure from its cells.

    Parameters
    ----------
    cells : AttentionCells
    symmetric : bool
        Whether a model was compared with itself.
    names, right_names : sequence of str, optional
        Names of the layers.
    seed : int
        Recorded in the provenance.
    """
    blank = np.full(cells.forward.shape, np.nan)
    left_layers = _names(names, cells.forward.shape[0], "left")
    right_layers = left_layers if symmetric else _names(right_names, cells.forward.shape[1], "right")
    dropped = []
    if cells.dropped_sentences or cells.dropped_words:
        dropped.append(f"{cells.dropped_sentences} sentences and {cells.dropped_words} words were left out")
    return Map(
        measure=cells.label,
        left=left_layers,
        right=right_layers,
        values=cells.forward,
        reasons=cells.reasons,
        n=cells.words,
        estimator=f"{cells.estimator}; {cells.sentences} sentences, {cells.words} words",
        null_mean=blank,
        z=blank,
        p=blank,
        null_note="no formula is known for attention measures",
        unit="sentence",
        rank=cells.rank,
        kept=cells.kept,
        precision="exact",
        warnings=tuple(dropped),
        details=MappingProxyType({"backward": cells.backward}),
        symmetric=symmetric,
        provenance=MappingProxyType(provenance({"sentences": cells.sentences, "seed": seed})),
    )


def _with_intervals(
    maps: dict[str, Map],
    left: Any,
    right: Any,
    choices: Sequence[Chosen],
    causal: bool,
    options: SimilarityOptions,
) -> dict[str, Map]:
    seed = options.seed
    units = (
        Clusters.singletons(len(left))
        if options.clusters is None
        else Clusters.from_ids(options.clusters, len(left), balanced=False)
    )
    unit = "sentence" if units.single else "cluster"
    digest = f"attention/{seed}/{len(left)}"
    if not units.single:
        digest += f"/{row_digest(len(left), None, units)}"
    plan = half_plan(units, options.halves, seed)
    replicate_lists: dict[str, list[np.ndarray]] = {label: [] for label in maps}
    for indices in plan:
        part = _read(
            [left[i] for i in indices],
            None if right is None else [right[i] for i in indices],
            choices,
            causal,
        )
        for label, values in replicate_lists.items():
            values.append(part[label].forward)
    out = {}
    for label, attention_map in maps.items():
        replicates = np.stack(replicate_lists[label])
        band = half_interval(attention_map.values, replicates, units=len(units), unit=unit)
        resamples = Resamples(kind="halves", array=replicates, units=len(units), digest=digest)
        band = replace(band, level=options.level)
        out[label] = with_interval(attention_map, band, resamples)
    return out


Blocks = dict[tuple[int, int], dict[str, Map]]

# Attention values that may be held in memory for intervals: two gigabytes.
HELD = 2**28


def attention_maps(
    encoders: Sequence[Encoder],
    texts: Texts,
    rows: Rows,
    measures: Sequence[Chosen],
    options: SimilarityOptions,
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
    options : SimilarityOptions
        certainty, seed, halves, level, threads and progress.
    causal : bool
        As in `attention_similarity_matrix`.

    Returns
    -------
    list of Map
        One per measure, over the layers of all models.
    """
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
        blocks = _blocks_with_intervals(held, names, measures, clusters=documents, causal=causal, **shared)
    else:
        with using_threads(options.threads):
            blocks = _blocks_in_one_pass(stream, names, measures, causal=causal, seed=options.seed)
    maps = [replace(_assemble(choice, names, blocks), unit=rows.unit) for choice in measures]
    if not sum(evened):
        return maps
    warning = f"{sum(evened):,} rows of attention went to no word, and were spread evenly"
    return [replace(attention_map, warnings=(*attention_map.warnings, warning)) for attention_map in maps]


def _counted(stream: Iterable[SentenceMaps], evened: list[int]) -> Iterable[SentenceMaps]:
    for sentence in stream:
        evened.append(sentence.evened)
        yield sentence


def _blocks_in_one_pass(
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


def _blocks_with_intervals(
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
