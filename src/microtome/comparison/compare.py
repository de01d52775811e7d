"""Layer-by-layer comparison of several models on one corpus."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arguments import checked
from ..encoders.encoder import Encoder
from ..errors import InputError, SmallSampleWarning, must, unknown
from ..extraction.extracting import as_encoder
from ..extraction.recording import Activations, describe, record
from ..extraction.streaming import constant_layers, stream
from ..extraction.texts import Texts, make_texts
from ..findings.maps import Map, Maps
from ..findings.places import with_places
from ..findings.stackblocks import StackBlocks
from ..inference.clusters import check_balanced
from ..measures.declare import Chosen, Measure
from ..measures.table import chosen_all
from ..rows.documents import DOCUMENTS
from ..rows.options import row_options
from ..rows.planning import Rows, input_length, plan_rows
from ..store.shelf import Shelf
from ..version import VERSION
from .models import attention_maps, say, tuned_facts
from .similarity import similarity_matrix
from .stacks import of_unit, stack_blocks
from .streamed import streamed_windows

Progress = Callable[[str, int, int], None]

# Options that are passed on to `similarity_matrix`, and those that attention measures take too.
OPTIONS = ("precision", "memory", "threads", "level", "halves", "permutations", "zscore", "remove_top")
SHARED = ("halves", "level", "threads")
FIXED = f"fewer than {DOCUMENTS} documents have another of as many rows to change places with"


@checked
def compare(
    models: Sequence[Any],
    *,
    on: Any,
    rows: str = "word",
    measures: str | Measure | Chosen | Iterable[str | Measure | Chosen] = "debiased_cka",
    certainty: bool = False,
    subword: str = "last",
    special: str = "out",
    longest: int | None = None,
    sample: int | None = None,
    exact: str | None = None,
    causal: bool = False,
    keep: bool = True,
    seed: int = 0,
    device: Any = "cpu",
    dtype: str = "float32",
    tokens: int | None = None,
    store: str | os.PathLike[str] | None = None,
    command: str = "",
    progress: Progress | None = None,
    **options: Any,
) -> Maps:
    """
    Compare all layers of all models with one another on the same rows.

    Parameters
    ----------
    models : sequence of Encoder, hub ids or folders
        At least one; names must differ.
    on : Corpus, path or list of texts
    rows : {"cls", "mean", "token", "word"}
        What one row is. Debiasing and intervals treat documents as independent where the corpus names ten
        or more; otherwise the sentence of a word or token, or the example.
    measures : str or sequence
        Names of `microtome ls measures`; attention measures use the attention maps of the models.
    certainty : bool
        Whether to compute intervals and, where debiased CKA is among the measures, to test whether the layers
        of each model form blocks.
    subword, special, longest, sample, exact
        As in `extract`.
    causal : bool
        For attention: compare lower triangles, so that causal models can take part.
    keep : bool
        Whether rows are recorded in the store, so that no model runs on them twice. If False, they are only
        added to the moments, and nothing that needs the rows again can be computed.
    seed : int
    device : str
        Device of the comparison; models run on their own devices.
    dtype, tokens, store, command, progress
        As in `extract`.
    **options
        As in `similarity_matrix`: precision, memory, threads, level, halves, permutations, zscore,
        remove_top.

    Returns
    -------
    Maps
        One map per measure over the layers of all models; `findings` holds sentences about them, and
        `blocks` the block structure of each model. `layers` of a map holds the spectrum of each layer. A
        layer that is constant over the rows keeps its row and column, with the reason in `reasons`.
    """
    for name in options:
        if name not in OPTIONS:
            raise unknown("option", name, OPTIONS)
    if not isinstance(models, Sequence) or isinstance(models, str):
        raise must("models", "a list of models", type(models).__name__)
    encoders = [as_encoder(model) for model in models]
    of_rows, of_attention = check_measures(measures, rows=rows, certainty=certainty, keep=keep)
    choices = list(chosen_all(measures))
    texts = make_texts(on)
    longest = input_length(encoders, longest)
    row_settings = row_options(
        rows, subword=subword, special=special, longest=longest, sample=sample, seed=seed, exact=exact
    )
    planned = plan_rows(texts.examples, encoders, row_settings, progress=progress)
    maps: list[Map] = []
    blocks: list[StackBlocks] = []
    recordings: list[Activations] = []
    unit = planned.unit
    clusters = None if unit == "example" else planned.clusters
    fixed = keep and bool(options.get("permutations")) and _fixed(planned)
    if fixed:
        options = {**options, "permutations": 0}
    if of_rows and not keep:
        run = partial(stream, encoders, texts.examples, planned, tokens=tokens, progress=progress)
        maps += streamed_windows(
            encoders, planned, run, of_rows, grouped=clusters is not None, seed=seed, device=device, **options
        ).values()
    elif of_rows:
        if clusters is not None and any(c.measure.interval == "debiased" for c in of_rows):
            check_balanced(clusters, unit)
        shelf = Shelf(store)
        for encoder in encoders:
            recordings.append(
                record(
                    encoder,
                    texts,
                    planned,
                    shelf=shelf,
                    dtype=dtype,
                    tokens=tokens,
                    command=command,
                    progress=_named(progress, encoder.name),
                )
            )
        compared = similarity_matrix(
            [recording.layers.stored[k] for recording in recordings for k in recording.varying],
            None,
            of_rows,
            names=[recording.names[k] for recording in recordings for k in recording.varying],
            clusters=clusters,
            certainty=certainty,
            seed=seed,
            device=device,
            spectra=True,
            progress=progress,
            **options,
        )
        maps += [
            replace(similarity_map, null_note=FIXED) if fixed else similarity_map
            for similarity_map in compared.values()
        ]
        if certainty:
            block_options: dict[str, Any] = {"seed": seed, "device": device, "progress": progress, **options}
            blocks = stack_blocks(recordings, of_rows, clusters=clusters, **block_options)
    if of_attention:
        maps += attention_maps(
            encoders,
            texts,
            planned,
            of_attention,
            causal=causal,
            certainty=certainty,
            seed=seed,
            progress=progress,
            **{k: v for k, v in options.items() if k in SHARED},
        )
    ordered = sorted(
        maps, key=lambda similarity_map: [c.label for c in choices].index(similarity_map.measure)
    )
    facts = _facts(encoders, texts, planned, recordings)
    final_maps = [
        replace(
            similarity_map,
            unit={
                "cluster": unit,
                "row": unit if row_settings.kind in ("cls", "mean") else similarity_map.unit,
            }.get(similarity_map.unit, similarity_map.unit),
            provenance=MappingProxyType({**similarity_map.provenance, **facts}),
        )
        for similarity_map in ordered
    ]
    blocks = [of_unit(model_blocks, unit) for model_blocks in blocks]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        findings = [
            planned.sentence()[0].upper() + planned.sentence()[1:] + ".",
            *([planned.few] if certainty and planned.few else []),
            *say(final_maps[0], [encoder.name for encoder in encoders], _tuned_from(encoders)),
            *(model_blocks.sentence() for model_blocks in blocks),
        ]
    return Maps(_in_place(final_maps, encoders, planned), findings, blocks)


def check_measures(
    measures: str | Measure | Chosen | Iterable[str | Measure | Chosen],
    *,
    rows: str,
    certainty: bool,
    keep: bool,
) -> tuple[list[Chosen], list[Chosen]]:
    """
    Check that all measures can be computed from these rows.

    Parameters
    ----------
    measures, rows, certainty, keep
        As in `compare`.

    Returns
    -------
    of_rows, of_attention : list of Chosen
    """
    choices = list(chosen_all(measures))
    of_attention = [c for c in choices if c.declared("needs") == "attention"]
    of_rows = [c for c in choices if c not in of_attention]
    if of_attention and rows != "word":
        raise InputError(f"{of_attention[0].label} must be asked of rows of words, but got rows={rows!r}.")
    if of_rows and not keep and certainty:
        raise InputError("certainty must have the rows again, but keep=False lets them go.")
    return of_rows, of_attention


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


def _tuned_from(encoders: Sequence[Encoder]) -> dict[str, str]:
    """Name of the base model of each model that `finetune` wrote."""
    facts = {encoder.name: tuned_facts(encoder) for encoder in encoders}
    return {name: tuning["model"] for name, tuning in facts.items() if tuning is not None}


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
