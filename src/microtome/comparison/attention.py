"""Similarity maps of attention measures, accumulated sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arguments import checked
from ..encoders.versions import provenance
from ..errors import InputError, must
from ..findings.maps import Map
from ..findings.paired import Resamples
from ..findings.record import Maps
from ..inference.clusters import Clusters
from ..inference.resampling import half_interval, half_plan
from ..measures.attention import AttentionCells
from ..measures.attention_pass import AttentionPass
from ..measures.declare import Chosen, Measure
from ..measures.table import chosen_all
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
