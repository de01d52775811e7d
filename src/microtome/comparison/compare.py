"""Layer-by-layer comparison of several models on one corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ..context import Context
from ..encoders.encoder import Encoder
from ..errors import InputError
from ..extraction.recording import Activations, describe, record
from ..extraction.streaming import constant_layers, stream
from ..extraction.texts import Texts
from ..findings.maps import Map
from ..findings.places import with_places
from ..findings.record import Maps
from ..findings.stackblocks import StackBlocks
from ..inference.clusters import check_balanced
from ..measures.declare import Chosen
from ..measures.table import chosen_all
from ..rows.documents import DOCUMENTS
from ..rows.planning import Rows
from .models import attention_maps, tuned_facts
from .request import SimilarityOptions, prepare
from .similarity import compute_maps
from .streamed import streamed_windows
from .structure import stack_blocks

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


def compare_layers(inputs: ComparisonInputs, options: SimilarityOptions, context: Context) -> Maps:
    """
    Compare all layers of all models with one another on the same rows.

    Parameters
    ----------
    inputs : ComparisonInputs
    options : SimilarityOptions
        Without clusters, names and a sample, which follow from the rows.
    context : Context
        Its store, command and progress.

    Returns
    -------
    Maps
        One map per measure over the layers of all models; `claims` holds what follows from them, and
        `blocks` the block structure of each model. `layers` of a map holds the spectrum of each layer. A
        layer that is constant over the rows keeps its row and column, with the reason in `reasons`.
    """
    encoders, rows = inputs.encoders, inputs.rows
    maps: list[Map] = []
    blocks: list[StackBlocks] = []
    recordings: list[Activations] = []
    if inputs.of_rows and inputs.keep:
        clusters = None if rows.unit == "example" else rows.clusters
        if clusters is not None and any(c.measure.interval == "debiased" for c in inputs.of_rows):
            check_balanced(clusters, rows.unit)
        options = replace(options, clusters=clusters)
        recordings = _record(inputs, context)
        maps, blocks = _recorded_maps(recordings, inputs, options)
    elif inputs.of_rows:
        run = partial(
            stream,
            encoders,
            inputs.texts.examples,
            rows,
            tokens=inputs.batch_tokens,
            progress=options.progress,
        )
        maps += streamed_windows(encoders, rows, run, inputs.of_rows, options).values()
    if inputs.of_attention:
        maps += attention_maps(
            encoders, inputs.texts, rows, inputs.of_attention, options, causal=inputs.causal
        )
    labels = [choice.label for choice in inputs.measures]
    maps.sort(key=lambda similarity_map: labels.index(similarity_map.measure))
    provenance = {
        "models": [{**describe(encoder), "tuned": tuned_facts(encoder)} for encoder in encoders],
        "texts": dict(inputs.texts.facts),
        "rows": {"digest": rows.digest, "count": len(rows), "what": rows.options.sentence()},
        "activations": [recording.address for recording in recordings],
    }
    units = {"cluster": rows.unit, **({"row": rows.unit} if rows.options.kind in ("cls", "mean") else {})}
    maps = [
        replace(
            similarity_map,
            unit=units.get(similarity_map.unit, similarity_map.unit),
            provenance=MappingProxyType({**similarity_map.provenance, **provenance}),
        )
        for similarity_map in maps
    ]
    extent = rows.sentence()
    notes = [f"{extent[0].upper()}{extent[1:]}.", *([rows.few] if options.certainty and rows.few else [])]
    # Layers that are constant over the rows were left out so far.
    names = [f"{encoder.name}/{layer}" for encoder in encoders for layer in encoder.layers]
    empty = {f"{e.name}/{e.layers[k]}": e.widths[k] for e in encoders for k in constant_layers(e, rows)}
    return Maps([with_places(similarity_map, names, empty) for similarity_map in maps], notes, blocks)


def _record(inputs: ComparisonInputs, context: Context) -> list[Activations]:
    return [
        record(
            encoder,
            inputs.texts,
            inputs.rows,
            context=context.named(encoder.name),
            storage=inputs.storage,
            batch_tokens=inputs.batch_tokens,
        )
        for encoder in inputs.encoders
    ]


def _recorded_maps(
    recordings: Sequence[Activations], inputs: ComparisonInputs, options: SimilarityOptions
) -> tuple[list[Map], list[StackBlocks]]:
    """Maps of the recorded layers, and the blocks of each model where intervals are computed."""
    rows = inputs.rows
    fixed = bool(options.permutations) and _fixed(rows)
    if fixed:
        options = replace(options, permutations=0)
    layers = [recording.layers.stored[k] for recording in recordings for k in recording.varying]
    names = [recording.names[k] for recording in recordings for k in recording.varying]
    request = prepare(layers, None, inputs.of_rows, replace(options, names=names, spectra=True))
    maps = list(compute_maps(request).values())
    if fixed:
        maps = [replace(similarity_map, null_note=FIXED) for similarity_map in maps]
    blocks = stack_blocks(recordings, inputs.of_rows, options, rows.unit) if options.certainty else []
    return maps, blocks


def _fixed(rows: Rows) -> bool:
    """Whether too few documents have another of the same size to be permuted with."""
    if rows.unit != "document":
        return False
    sizes = np.bincount(rows.clusters)
    return int((np.bincount(sizes)[sizes] > 1).sum()) < DOCUMENTS
