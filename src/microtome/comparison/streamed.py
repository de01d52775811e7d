"""Similarity maps from streamed moments, without recorded rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..encoders.encoder import Encoder
from ..errors import InputError
from ..extraction.streaming import Window, constant_layers
from ..findings.maps import Map
from ..findings.record import Maps
from ..lazy import torch
from ..measures.declare import Chosen
from ..measures.table import chosen_all
from ..moments.streamed import StreamedMoments
from ..rows.planning import Rows
from ..runtime import find_device, using_threads
from .describe import as_map, timed
from .engine import run as run_engine
from .request import Request, SimilarityOptions

CLUSTERED = (
    "rows come in clusters, and formulas for independent rows do not hold; keep the rows to permute them"
)

# There is only one pass, so all its moments must fit into memory.
UNBOUNDED = 2**62


def streamed_maps(moments: StreamedMoments, measures: Any, *, seed: int = 0, spectra: bool = False) -> Maps:
    """
    Compute measures from moments alone.

    Parameters
    ----------
    moments : StreamedMoments
        Nothing can be added to them afterwards.
    measures : str or sequence
        Names of measures that need moments only.
    seed : int
        Recorded in the provenance.
    spectra : bool
        As in `similarity_matrix`.

    Returns
    -------
    Maps
    """
    started = time.perf_counter()
    choices = tuple(chosen_all(measures))
    for choice in choices:
        if choice.declared("needs") != "moments":
            raise InputError(
                f"{choice.label} must see the rows again, but they were not kept; record them, and ask again."
            )
    crossing = moments.finish()
    if crossing.n < 4 and any(c.measure.name == "debiased_cka" for c in choices):
        raise InputError(f"debiased_cka must have at least 4 rows, but got {crossing.n}.")
    left, right = moments.stack()
    exact = moments.tile.dtype.itemsize == 8
    request = Request(
        left=left,
        right=right,
        measures=choices,
        options=SimilarityOptions(seed=seed),
        exact=exact,
        device=moments.device,
        memory=UNBOUNDED,
    )
    outcome = run_engine(request, source=lambda *_, **__: crossing, spectra=spectra)
    precision = "exact" if exact else "fast"
    if outcome.near_tolerance and not exact:
        precision = "fast; an eigenvalue lies near the rank tolerance, and the rows are gone"
    outcome = replace(outcome, precision=precision)
    return timed([as_map(request, outcome, choice) for choice in choices], started)


def streamed_windows(
    encoders: Sequence[Encoder],
    rows: Rows,
    run: Callable[[], Iterable[Window]],
    measures: Sequence[Chosen],
    options: SimilarityOptions,
) -> Maps:
    """
    Compare the layers of several models on rows that are added to the moments and not kept.

    Parameters
    ----------
    encoders : sequence of Encoder
    rows : Rows
    run : callable
        Yields the windows of rows of all encoders.
    measures : sequence of Chosen
    options : SimilarityOptions
        Measures on subspaces are computed exactly, since the rows cannot be read again where float32 does not
        suffice. Permutations, and controls of neurons, need the rows, and are rejected.

    Returns
    -------
    Maps
        Without the layers that are constant over the rows.
    """
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
    constant = [constant_layers(encoder, rows) for encoder in encoders]
    varying = [
        (side, k)
        for side, encoder in enumerate(encoders)
        for k in range(len(encoder.layers))
        if k not in constant[side]
    ]
    moments = StreamedMoments(
        [f"{encoders[side].name}/{encoders[side].layers[k]}" for side, k in varying],
        [encoders[side].widths[k] for side, k in varying],
        left=None,
        dtype=torch.float64 if exact else torch.float32,
        device=find_device(options.device),
    )
    with using_threads(options.threads):
        for window in run():
            if window.stop > window.start:
                moments.add([window.layers[side][k].to(moments.device) for side, k in varying])
        maps = streamed_maps(moments, list(measures), seed=options.seed, spectra=True)
    return Maps([_of_clusters(similarity_map) for similarity_map in maps.values()]) if grouped else maps


def _of_clusters(similarity_map: Map) -> Map:
    """Remove z and p, which hold for independent rows only."""
    blank = np.full(similarity_map.values.shape, np.nan)
    return replace(similarity_map, z=blank, p=blank, null_note=CLUSTERED)
