"""Layer-by-layer comparison of several models on one corpus."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ..encoders.encoder import Encoder
from ..errors import InputError
from ..extraction.recording import Activations, describe, record
from ..extraction.streaming import Progress, constant_layers, stream
from ..extraction.texts import Texts
from ..findings.maps import Map, Maps
from ..findings.places import with_places
from ..findings.stackblocks import StackBlocks
from ..inference.clusters import check_balanced
from ..measures.declare import Chosen
from ..measures.table import chosen_all
from ..rows.documents import DOCUMENTS
from ..rows.planning import Rows
from ..store.shelf import Shelf
from ..version import VERSION
from .models import attention_maps, tuned_facts
from .request import SimilarityOptions, prepare
from .similarity import compute_maps
from .streamed import streamed_windows
from .structure import of_unit, stack_blocks

FIXED = f"fewer than {DOCUMENTS} documents have another of as many rows to change places with"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparisonInputs:
    """
    Models, rows and measures of a comparison, opened and checked.

    Parameters
    ----------
    encoders : sequence of Encoder
    texts : Texts
    rows : Rows
        That all encoders have.
    measures : tuple of Chosen
    causal : bool
        For attention: compare lower triangles, so that causal models can take part.
    keep : bool
        Whether rows are recorded in the store. If False, they are only added to the moments.
    storage : {"float32", "float16", "bfloat16"}
    batch_tokens : int, optional
        As in `record`.
    """

    encoders: Sequence[Encoder]
    texts: Texts
    rows: Rows
    measures: tuple[Chosen, ...]
    causal: bool = False
    keep: bool = True
    storage: str = "float32"
    batch_tokens: int | None = None

    @property
    def of_attention(self) -> list[Chosen]:
        """The measures of attention maps."""
        return [choice for choice in self.measures if choice.declared("needs") == "attention"]

    @property
    def of_rows(self) -> list[Chosen]:
        """The measures of rows."""
        return [choice for choice in self.measures if choice.declared("needs") != "attention"]


def choose_measures(measures: Any, *, rows: str, certainty: bool, keep: bool) -> tuple[Chosen, ...]:
    """
    Find measures, and check that all of them can be computed from these rows.

    Parameters
    ----------
    measures : str or sequence
        Names of `microtome ls measures`.
    rows : {"cls", "mean", "token", "word"}
    certainty, keep : bool
        Whether intervals are computed, and whether rows are recorded.

    Returns
    -------
    tuple of Chosen
    """
    choices = tuple(chosen_all(measures))
    of_attention = [choice for choice in choices if choice.declared("needs") == "attention"]
    if of_attention and rows != "word":
        raise InputError(f"{of_attention[0].label} must be asked of rows of words, but got rows={rows!r}.")
    if len(of_attention) < len(choices) and not keep and certainty:
        raise InputError("certainty must have the rows again, but keep=False lets them go.")
    return choices


def compare_layers(
    inputs: ComparisonInputs,
    options: SimilarityOptions,
    *,
    store: str | os.PathLike[str] | None = None,
    command: str = "",
) -> Maps:
    """
    Compare all layers of all models with one another on the same rows.

    Parameters
    ----------
    inputs : ComparisonInputs
    options : SimilarityOptions
        Without clusters, names and a sample, which follow from the rows.
    store, command
        As in `record`.

    Returns
    -------
    Maps
        One map per measure over the layers of all models; `claims` holds what follows from them, and
        `blocks` the block structure of each model. `layers` of a map holds the spectrum of each layer. A
        layer that is constant over the rows keeps its row and column, with the reason in `reasons`.
    """
    rows = inputs.rows
    maps: list[Map] = []
    blocks: list[StackBlocks] = []
    recordings: list[Activations] = []
    fixed = inputs.keep and bool(options.permutations) and _fixed(rows)
    if fixed:
        options = replace(options, permutations=0)
    if inputs.of_rows and inputs.keep:
        clusters = None if rows.unit == "example" else rows.clusters
        options = replace(options, clusters=clusters)
        if clusters is not None and any(c.measure.interval == "debiased" for c in inputs.of_rows):
            check_balanced(clusters, rows.unit)
        recordings = _record(inputs, options.progress, Shelf(store), command)
        maps += _recorded_maps(recordings, inputs.of_rows, options)
        if fixed:
            maps = [replace(similarity_map, null_note=FIXED) for similarity_map in maps]
        if options.certainty:
            blocks = stack_blocks(recordings, inputs.of_rows, options)
    elif inputs.of_rows:
        run = partial(
            stream,
            inputs.encoders,
            inputs.texts.examples,
            rows,
            tokens=inputs.batch_tokens,
            progress=options.progress,
        )
        maps += streamed_windows(inputs.encoders, rows, run, inputs.of_rows, options).values()
    if inputs.of_attention:
        maps += attention_maps(
            inputs.encoders, inputs.texts, rows, inputs.of_attention, options, causal=inputs.causal
        )
    maps = _described(maps, inputs, recordings)
    blocks = [of_unit(model_blocks, rows.unit) for model_blocks in blocks]
    return Maps(_in_place(maps, inputs.encoders, rows), _notes(rows, options.certainty), blocks)


def _record(
    inputs: ComparisonInputs, progress: Progress | None, shelf: Shelf, command: str
) -> list[Activations]:
    return [
        record(
            encoder,
            inputs.texts,
            inputs.rows,
            shelf=shelf,
            storage=inputs.storage,
            batch_tokens=inputs.batch_tokens,
            command=command,
            progress=_named(progress, encoder.name),
        )
        for encoder in inputs.encoders
    ]


def _recorded_maps(
    recordings: Sequence[Activations], measures: Sequence[Chosen], options: SimilarityOptions
) -> list[Map]:
    layers = [recording.layers.stored[k] for recording in recordings for k in recording.varying]
    names = [recording.names[k] for recording in recordings for k in recording.varying]
    return list(
        compute_maps(prepare(layers, None, measures, replace(options, names=names, spectra=True))).values()
    )


def _described(maps: Sequence[Map], inputs: ComparisonInputs, recordings: Sequence[Activations]) -> list[Map]:
    """In the order of the measures, with their unit and their provenance."""
    labels = [choice.label for choice in inputs.measures]
    facts = _facts(inputs.encoders, inputs.texts, inputs.rows, recordings)
    unit = inputs.rows.unit
    units = {"cluster": unit, **({"row": unit} if inputs.rows.options.kind in ("cls", "mean") else {})}
    return [
        replace(
            similarity_map,
            unit=units.get(similarity_map.unit, similarity_map.unit),
            provenance=MappingProxyType({**similarity_map.provenance, **facts}),
        )
        for similarity_map in sorted(maps, key=lambda similarity_map: labels.index(similarity_map.measure))
    ]


def _notes(rows: Rows, certainty: bool) -> list[str]:
    """Sentences about the rows."""
    extent = rows.sentence()
    return [f"{extent[0].upper()}{extent[1:]}.", *([rows.few] if certainty and rows.few else [])]


def _in_place(maps: Sequence[Map], encoders: Sequence[Encoder], rows: Rows) -> list[Map]:
    """Add rows and columns for layers that are constant over the rows, which were left out so far."""
    names = [f"{encoder.name}/{layer}" for encoder in encoders for layer in encoder.layers]
    empty = {f"{e.name}/{e.layers[k]}": e.widths[k] for e in encoders for k in constant_layers(e, rows)}
    return [with_places(similarity_map, names, empty) for similarity_map in maps]


def _fixed(rows: Rows) -> bool:
    """Whether too few documents have another of the same size to be permuted with."""
    if rows.unit != "document":
        return False
    sizes = np.bincount(rows.clusters)
    return int((np.bincount(sizes)[sizes] > 1).sum()) < DOCUMENTS


def _named(progress: Progress | None, name: str) -> Progress | None:
    if progress is None:
        return None
    return lambda what, done, total: progress(f"{name}: {what}", done, total)


def _facts(
    encoders: Sequence[Encoder], texts: Texts, rows: Rows, recordings: Sequence[Activations]
) -> dict[str, Any]:
    import torch
    import transformers

    return {
        "microtome": VERSION,
        "torch": str(torch.__version__),
        "transformers": transformers.__version__,
        "models": [{**describe(encoder), "tuned": tuned_facts(encoder)} for encoder in encoders],
        "texts": dict(texts.facts),
        "rows": {"digest": rows.digest, "count": len(rows), "what": rows.options.sentence()},
        "activations": [recording.address for recording in recordings],
    }
