"""How alike are the layers of several models on one corpus?"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

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
from ..rows.planning import Rows, plan_rows
from ..store.shelf import Shelf
from ..version import VERSION
from .models import attention_maps, say, tuned_facts
from .similarity import similarity_matrix
from .stacks import of_unit, stack_blocks
from .streamed import streamed_windows

Progress = Callable[[str, int, int], None]

# What `similarity_matrix` is told beside the rows, and of these what attention needs too.
OPTIONS = ("precision", "memory", "threads", "level", "halves", "permutations", "zscore", "remove_top")
SHARED = ("halves", "level", "threads")
FIXED = f"fewer than {DOCUMENTS} documents have another of as many rows to change places with"


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
        What one row is. Debiasing and intervals take documents as independent, where the corpus tells of
        ten or more, and else the sentence of a word or token, or the example.
    measures : str or sequence
        Names of `microtome ls measures`; those of attention are read from the models' attention.
    certainty : bool
        Whether to give intervals, and to test where debiased CKA is asked for whether the layers of each
        model fall into blocks.
    subword, special, longest, sample, exact
        As in `extract`.
    causal : bool
        For attention: compare lower triangles, so that models that read left to right can take part.
    keep : bool
        Whether rows are recorded in the store, so that no model runs on them twice. Without, they go
        straight into the moments and are gone: nothing can then be asked that needs them again.
    seed : int
    device : str
        Where the comparison is computed; models run where they are.
    dtype, tokens, store, command, progress
        As in `extract`.
    **options
        As in `similarity_matrix`: precision, memory, threads, level, halves, permutations, zscore,
        remove_top.

    Returns
    -------
    Maps
        One map a measure over the layers of all models, with what can be said of them in `findings`, and in
        `blocks` what was tested of each model. `layers` of a map holds the spectrum of each layer. A layer
        that is the same in every row has its place, and the reason in `reasons`.
    """
    for name in options:
        if name not in OPTIONS:
            raise unknown("option", name, OPTIONS)
    if not isinstance(models, Sequence) or isinstance(models, str):
        raise must("models", "a list of models", type(models).__name__)
    encoders = [as_encoder(one) for one in models]
    choices = list(chosen_all(measures))
    of_attention = [c for c in choices if c.declared("needs") == "attention"]
    of_rows = [c for c in choices if c not in of_attention]
    if of_attention and rows != "word":
        raise InputError(f"{of_attention[0].label} must be asked of rows of words, but got rows={rows!r}.")
    texts = make_texts(on)
    chosen = row_options(
        rows, subword=subword, special=special, longest=longest, sample=sample, seed=seed, exact=exact
    )
    planned = plan_rows(texts.examples, encoders, chosen, progress=progress)
    maps: list[Map] = []
    blocks: list[StackBlocks] = []
    found: list[Activations] = []
    unit = planned.unit
    clusters = None if unit == "example" else planned.clusters
    fixed = keep and bool(options.get("permutations")) and _fixed(planned)
    if fixed:
        options = {**options, "permutations": 0}
    if of_rows and not keep:
        if certainty:
            raise InputError("certainty must have the rows again, but keep=False lets them go.")
        run = partial(stream, encoders, texts.examples, planned, tokens=tokens, progress=progress)
        maps += streamed_windows(
            encoders, planned, run, of_rows, grouped=clusters is not None, seed=seed, device=device, **options
        ).values()
    elif of_rows:
        if clusters is not None and any(c.measure.interval == "debiased" for c in of_rows):
            check_balanced(clusters, unit)
        shelf = Shelf(store)
        for encoder in encoders:
            found.append(
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
            [one.layers.stored[k] for one in found for k in one.varying],
            None,
            of_rows,
            names=[one.names[k] for one in found for k in one.varying],
            clusters=clusters,
            certainty=certainty,
            seed=seed,
            device=device,
            spectra=True,
            progress=progress,
            **options,
        )
        maps += [replace(one, null_note=FIXED) if fixed else one for one in compared.values()]
        if certainty:
            told: dict[str, Any] = {"seed": seed, "device": device, "progress": progress, **options}
            blocks = stack_blocks(found, of_rows, clusters=clusters, **told)
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
    ordered = sorted(maps, key=lambda one: [c.label for c in choices].index(one.measure))
    facts = _facts(encoders, texts, planned, found)
    every = [
        replace(
            one,
            unit={"cluster": unit, "row": unit if chosen.kind in ("cls", "mean") else one.unit}.get(
                one.unit, one.unit
            ),
            provenance=MappingProxyType({**one.provenance, **facts}),
        )
        for one in ordered
    ]
    blocks = [of_unit(one, unit) for one in blocks]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        findings = [
            planned.sentence()[0].upper() + planned.sentence()[1:] + ".",
            *([planned.few] if certainty and planned.few else []),
            *say(every[0], [encoder.name for encoder in encoders]),
            *(f"{one.stack}: {one.finding.sentence(one.names)}" for one in blocks),
        ]
    return Maps(_in_place(every, encoders, planned), findings, blocks)


def _in_place(maps: Sequence[Map], encoders: Sequence[Encoder], rows: Rows) -> list[Map]:
    """Keep the places of layers that are the same in every row, which were not worth computing with."""
    names = [f"{encoder.name}/{layer}" for encoder in encoders for layer in encoder.layers]
    empty = {f"{e.name}/{e.layers[k]}": e.widths[k] for e in encoders for k in constant_layers(e, rows)}
    return [with_places(one, names, empty) for one in maps]


def _fixed(rows: Rows) -> bool:
    """Whether there are too few documents of equal sizes to change places."""
    if rows.unit != "document":
        return False
    sizes = np.bincount(rows.clusters)
    return int((np.bincount(sizes)[sizes] > 1).sum()) < DOCUMENTS


def _named(progress: Progress | None, name: str) -> Progress | None:
    if progress is None:
        return None
    return lambda what, done, total: progress(f"{name}: {what}", done, total)


def _facts(
    encoders: Sequence[Encoder], texts: Texts, rows: Rows, found: Sequence[Activations]
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
        "activations": [one.address for one in found],
    }
