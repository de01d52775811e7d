"""Similarity of two layers, and similarity maps of two stacks of layers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
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
from .request import prepare as prepare
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
    device: Any = "cpu",
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
        As in `similarity_matrix`.
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


@checked
def similarity_matrix(
    left: Any,
    right: Any = None,
    measures: str | Measure | Chosen | Iterable[str | Measure | Chosen] = "debiased_cka",
    *,
    clusters: Any = None,
    precision: str = "fast",
    certainty: bool = False,
    memory: str | int = "2GB",
    device: Any = "cpu",
    threads: int | None = None,
    seed: int = 0,
    level: float = 0.95,
    halves: int = 40,
    permutations: int = 0,
    rows: int | None = None,
    leave_out: Any = None,
    zscore: bool = False,
    remove_top: int = 0,
    names: Sequence[str] | None = None,
    right_names: Sequence[str] | None = None,
    spectra: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
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
    clusters : array_like of shape (rows,), optional
        Cluster of each row, such as the sentence of each word: debiasing and intervals are then computed over
        clusters. When absent, a folder that `extract` wrote supplies them: documents, where it names ten or
        more, and sentences otherwise. A distinct number for each row makes rows independent.
    precision : {"fast", "exact"}
        Float32 products added up in float64, or float64 throughout. Fast switches to exact on a CUDA
        device, where values are too small or too large for float32 products, and, for measures of
        canonical correlations and regression, where a rank would depend on rounding: layers of up to
        64 features, fewer than twice as many rows as features, an eigenvalue near the tolerance.
    certainty : bool
        Whether to read the rows again for intervals.
    memory : str or int
        Memory of the engine besides the input, such as "2GB"; layers are handled in groups to fit.
    device : str
        "cpu" or "cuda".
    threads : int, optional
        Processor threads; torch's setting when absent.
    seed : int
        For half-samples, permutations and drawn rows.
    level : float
        Nominal coverage of the intervals.
    halves : int
        Number of half-samples for the measures that have no influence function.
    permutations : int
        Number of permutations of the rows (of whole clusters, where given) of the right side.
    rows : int, optional
        Number of rows to compare on, drawn with the seed (whole clusters, where given).
    leave_out : array of bool of shape (rows,), optional
        Rows to leave out, such as the first position of a causal model.
    zscore : bool
        Standardize every neuron first.
    remove_top : int
        Number of neurons of largest variance to remove from each layer.
    names, right_names : sequence of str, optional
        Names of the layers.
    spectra : bool
        Whether `layers` of the maps also holds each layer's spectrum: its shares of variance by principal
        direction, 64 at most. It comes from the moments, and is absent where no measure needs them.
    progress : callable, optional
        Called with the name of the step, the amount done, and the total.

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
    started = time.perf_counter()
    with using_threads(threads):
        request, plan, note = prepare(
            left,
            right,
            measures,
            clusters=clusters,
            precision=precision,
            memory=memory,
            device=device,
            seed=seed,
            certainty=certainty,
            halves=halves,
            permutations=permutations,
            rows=rows,
            leave_out=leave_out,
            zscore=zscore,
            remove_top=remove_top,
            names=names,
            right_names=right_names,
            progress=progress,
        )
        if not 0 < level < 1:
            raise must("level", "between 0 and 1", level)
        influence = certainty and any(m.measure.interval in KINDS for m in request.measures)
        raw = compute(request, plan, scores=influence, spectra=spectra)
        maps = {m.label: as_map(request, raw, m, note) for m in request.measures}
        if certainty:
            maps = add_intervals(request, raw.scores, maps, compute, level=level, halves=halves)
        if permutations:
            maps = add_permutations(request, maps, compute, permutations=permutations, level=level)
    seconds = round(time.perf_counter() - started, 3)
    final_maps = [
        replace(m, provenance=MappingProxyType({**m.provenance, "seconds": seconds})) for m in maps.values()
    ]
    grouping = request.grouping
    if grouping is not None:
        few = (grouping.few,) if certainty and grouping.few else ()
        final_maps = [replace(m, unit=grouping.unit, warnings=(*m.warnings, *few)) for m in final_maps]
    return Maps(final_maps)
