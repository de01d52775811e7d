"""Similarity of two layers, and similarity maps of two stacks of layers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ..arguments import checked
from ..errors import must
from ..findings.maps import Maps
from ..inference.estimate import Estimate
from ..measures.declare import Chosen, Measure
from ..measures.table import chosen
from ..runtime import using_threads
from .certainty import add_intervals, add_permutations
from .describe import as_map
from .request import Prepared, SimilarityOptions, prepare, with_controls
from .routes import compute as compute
from .tables import KINDS


@checked
def similarity(
    x: Any,
    y: Any,
    measure: str | Measure | Chosen = "debiased_cka",
    *,
    clusters: Any = None,
    precision: str = "exact",
    certainty: bool = False,
    device: Any = "auto",
    threads: int | None = None,
    seed: int = 0,
    level: float = 0.95,
    permutations: int = 0,
    **options: Any,
) -> Estimate:
    """
    Compare two layers.

    Parameters
    ----------
    x, y : array_like of shape (rows, features)
        NumPy or torch; the same rows in the same order.
    measure : str
        A name of `microtome ls measures`, with options as "svcca:threshold=0.95" or as keywords.
    clusters : array_like of shape (rows,), optional
        Cluster of each row, such as the sentence of each word.
    precision : {"exact", "fast"}
        Float64 throughout, or float32 products added up in float64.
    certainty : bool
        Whether to compute an interval.
    device, threads, seed, level, permutations
        As in `SimilarityOptions`.
    **options
        Options of the measure.

    Returns
    -------
    Estimate
        `float(estimate)` is its value.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(100, 8))
    >>> round(float(similarity(x, 2 * x + 1, "linear_cka")), 6)
    1.0
    """
    for name, side in (("x", x), ("y", y)):
        if getattr(side, "ndim", 2) != 2:
            raise must(name, "an array [rows, features]", f"{side.ndim} dimensions")
    maps = similarity_matrix(
        [x],
        [y],
        [chosen(measure, options)],
        clusters=clusters,
        precision=precision,
        certainty=certainty,
        device=device,
        threads=threads,
        seed=seed,
        level=level,
        permutations=permutations,
        memory="64GB",
    )
    similarity_map = next(iter(maps.values()))
    if similarity_map.shape != (1, 1):
        raise must(
            "x and y",
            "one layer each; use similarity_matrix",
            f"{similarity_map.shape[0]} and {similarity_map.shape[1]} layers",
        )
    return similarity_map.cell(0, 0)


def similarity_matrix(
    left: Any,
    right: Any = None,
    measures: str | Measure | Chosen | Iterable[str | Measure | Chosen] = "debiased_cka",
    **options: Any,
) -> Maps:
    """
    Compare every layer of one stack with every layer of another, or of itself.

    Parameters
    ----------
    left : list of arrays of shape (rows, features), array of shape (layers, rows, features), or path
        NumPy, torch, `.npy` or `.safetensors` files, or a folder of them; files are read in pieces.
    right : the same, optional
        None compares the left with itself.
    measures : str or sequence
        Names of `microtome ls measures`, with options as "svcca:threshold=0.95".
    **options
        Of `SimilarityOptions`.

    Returns
    -------
    Maps
        A `Map` for each measure.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> first = rng.normal(size=(200, 6))
    >>> maps = similarity_matrix([first, first + rng.normal(size=(200, 6))], measures=["debiased_cka"])
    >>> maps["debiased_cka"].values.shape
    (2, 2)
    """
    settings = SimilarityOptions.read(options)
    with using_threads(settings.threads):
        return compute_maps(prepare(left, right, measures, settings))


def compute_maps(prepared: Prepared) -> Maps:
    """
    Compute the maps of a comparison that was checked and planned.

    Parameters
    ----------
    prepared : Prepared

    Returns
    -------
    Maps
    """
    started = time.perf_counter()
    prepared = with_controls(prepared)
    request, options = prepared.request, prepared.options
    influence = options.certainty and any(m.measure.interval in KINDS for m in request.measures)
    raw = compute(request, prepared.plan, scores=influence, spectra=options.spectra)
    maps = {m.label: as_map(request, raw, m, request.note) for m in request.measures}
    level = options.level
    if options.certainty:
        maps = add_intervals(request, raw.scores, maps, compute, level=level, halves=options.halves)
    if options.permutations:
        maps = add_permutations(request, maps, compute, permutations=options.permutations, level=level)
    seconds = round(time.perf_counter() - started, 3)
    timed = [
        replace(m, provenance=MappingProxyType({**m.provenance, "seconds": seconds})) for m in maps.values()
    ]
    grouping = request.grouping
    if grouping is not None:
        few = (grouping.few,) if options.certainty and grouping.few else ()
        timed = [replace(m, unit=grouping.unit, warnings=(*m.warnings, *few)) for m in timed]
    return Maps(timed)
