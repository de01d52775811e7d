"""Layer-by-layer comparison of several models on one corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..context import Context
from ..encoders.encoder import Encoder
from ..errors import InputError
from ..extraction.recording import Activations, describe, record, tuned_facts
from ..extraction.streaming import constant_layers, stream
from ..extraction.texts import Texts
from ..findings.cells import with_places
from ..findings.maps import Map
from ..findings.record import Maps
from ..findings.stackblocks import StackBlocks
from ..inference.clusters import check_balanced
from ..lazy import torch
from ..measures.declare import Chosen
from ..measures.table import chosen_all
from ..moments.streamed import StreamedMoments
from ..rows.documents import DOCUMENTS
from ..rows.planning import Rows
from ..runtime import find_device, using_threads
from .attention import attention_maps
from .inputs import prepare
from .request import SimilarityOptions
from .similarity import compute_maps, streamed_maps
from .structure import stack_blocks

# Rows that take more of the free memory of a GPU are recorded, and read again in pieces. The rest is for the
# moments, which are float64.
HELD_SHARE = 0.4
FIXED = f"fewer than {DOCUMENTS} documents have another of as many rows to change places with"
CLUSTERED = (
    "rows come in clusters, and formulas for independent rows do not hold; keep the rows to permute them"
)


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
        Whether rows are recorded in the store.
    held : bool
        Whether rows stay on the device of the models; see `fits_device`. If they are neither recorded nor
        held, they are only added to the moments.
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
    held: bool = False
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


def fits_device(encoders: Sequence[Encoder], rows: Rows, device: Any) -> bool:
    """
    Check whether the rows of all layers fit the free memory of the GPU that the models lie on.

    Parameters
    ----------
    encoders : sequence of Encoder
    rows : Rows
    device
        Where the layers are compared.
    """
    here = find_device(device)
    places = {(encoder.device.type, encoder.device.index or 0) for encoder in encoders}
    if here.type == "cpu" or places != {(here.type, here.index or 0)}:
        return False
    size = 4 * len(rows) * sum(sum(encoder.widths) for encoder in encoders)
    return size < HELD_SHARE * torch.cuda.mem_get_info(here)[0]


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
    if inputs.of_rows and (inputs.keep or inputs.held):
        clusters = None if rows.unit == "example" else rows.clusters
        if clusters is not None and any(c.measure.interval == "debiased" for c in inputs.of_rows):
            check_balanced(clusters, rows.unit)
        options = replace(options, clusters=clusters)
    # Hashes of weights, which describe a model, take another thread as long as several batches.
    with ThreadPoolExecutor() as pool:
        if inputs.of_rows and inputs.keep:
            storage = {"storage": inputs.storage, "batch_tokens": inputs.batch_tokens}
            recordings = [
                record(encoder, inputs.texts, rows, context=context.named(encoder.name), **storage)
                for encoder in encoders
            ]
            descriptions = iter(recording.facts["model"] for recording in recordings)
            stacks = [
                {recording.names[k]: recording.layers.stored[k] for k in recording.varying}
                for recording in recordings
            ]
            maps, blocks = _maps_of_rows(stacks, inputs, options)
        else:
            descriptions = pool.map(describe, encoders)
            if inputs.of_rows and inputs.held:
                maps, blocks = _maps_of_rows(_held_rows(inputs, options), inputs, options)
            elif inputs.of_rows:
                maps += _streamed_maps(inputs, options)
        if inputs.of_attention:
            maps += attention_maps(
                encoders, inputs.texts, rows, inputs.of_attention, options, causal=inputs.causal
            )
        models = [
            {**description, "tuned": tuned_facts(encoder)}
            for description, encoder in zip(descriptions, encoders, strict=True)
        ]
    labels = [choice.label for choice in inputs.measures]
    maps.sort(key=lambda similarity_map: labels.index(similarity_map.measure))
    provenance = {
        "models": models,
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


def _held_rows(inputs: ComparisonInputs, options: SimilarityOptions) -> list[dict[str, torch.Tensor]]:
    """Run the models, and leave the rows of their layers on the device."""
    rows = inputs.rows
    (window,) = stream(
        inputs.encoders,
        inputs.texts.examples,
        rows,
        # In one window, examples of like length are together, and little is padding.
        window=len(rows.ids),
        tokens=inputs.batch_tokens,
        progress=options.progress,
    )
    return [
        {
            f"{encoder.name}/{name}": layer
            for k, (name, layer) in enumerate(zip(encoder.layers, layers, strict=True))
            if k not in constant_layers(encoder, rows)
        }
        for encoder, layers in zip(inputs.encoders, window.layers, strict=True)
    ]


def _maps_of_rows(
    stacks: Sequence[Mapping[str, Any]], inputs: ComparisonInputs, options: SimilarityOptions
) -> tuple[list[Map], list[StackBlocks]]:
    """Maps of the layers of all models, and the blocks of each model where intervals are computed."""
    rows = inputs.rows
    fixed = bool(options.permutations) and _fixed(rows)
    if fixed:
        options = replace(options, permutations=0)
    names = [name for stack in stacks for name in stack]
    layers = [layer for stack in stacks for layer in stack.values()]
    request = prepare(layers, None, inputs.of_rows, replace(options, names=names, spectra=True))
    maps = list(compute_maps(request).values())
    if fixed:
        maps = [replace(similarity_map, null_note=FIXED) for similarity_map in maps]
    blocks = stack_blocks(stacks, inputs.of_rows, options, rows.unit) if options.certainty else []
    return maps, blocks


def _fixed(rows: Rows) -> bool:
    """Whether too few documents have another of the same size to be permuted with."""
    if rows.unit != "document":
        return False
    sizes = np.bincount(rows.clusters)
    return int((np.bincount(sizes)[sizes] > 1).sum()) < DOCUMENTS


def _streamed_maps(inputs: ComparisonInputs, options: SimilarityOptions) -> list[Map]:
    """
    Maps from rows that are added to the moments and not kept, without layers that are constant over the rows.

    Measures on subspaces are computed exactly, since the rows cannot be read again where float32 does not
    suffice. Permutations, and controls of neurons, need the rows, and are rejected.
    """
    encoders, rows, measures = inputs.encoders, inputs.rows, inputs.of_rows
    for name in ("permutations", "zscore", "remove_top"):
        if getattr(options, name):
            raise InputError(f"{name} must have the rows again, but keep=False lets them go.")
    grouped = rows.unit != "example"
    debiased = [choice.label for choice in measures if choice.measure.interval == "debiased"]
    if grouped and debiased:
        raise InputError(
            f"{debiased[0]} must know the {rows.unit} of each row, but keep=False lets them go; use "
            "linear_cka, or keep the rows."
        )
    exact = options.precision == "exact" or any(c.declared("subspace") is not None for c in measures)
    varying = [
        (side, k)
        for side, encoder in enumerate(encoders)
        for k in range(len(encoder.layers))
        if k not in constant_layers(encoder, rows)
    ]
    moments = StreamedMoments(
        [f"{encoders[side].name}/{encoders[side].layers[k]}" for side, k in varying],
        [encoders[side].widths[k] for side, k in varying],
        left=None,
        dtype=torch.float64 if exact else torch.float32,
        device=find_device(options.device),
    )
    windows = stream(
        encoders, inputs.texts.examples, rows, tokens=inputs.batch_tokens, progress=options.progress
    )
    with using_threads(options.threads):
        for window in windows:
            if window.stop > window.start:
                moments.add([window.layers[side][k].to(moments.device) for side, k in varying])
        maps = list(streamed_maps(moments, measures, seed=options.seed, spectra=True).values())
    if not grouped:
        return maps
    # z and p hold for independent rows only.
    blank = np.full(maps[0].values.shape, np.nan)
    return [replace(similarity_map, z=blank, p=blank, null_note=CLUSTERED) for similarity_map in maps]
