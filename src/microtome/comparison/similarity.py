"""Similarity of two layers, and similarity maps of two stacks of layers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from ..arguments import checked, taking
from ..errors import must
from ..findings.record import Maps
from ..inference.estimate import Estimate
from ..measures.declare import Chosen, Measure
from ..measures.table import chosen
from ..runtime import using_threads
from .certainty import add_intervals, add_permutations
from .describe import as_map, timed
from .request import Request, SimilarityOptions, prepare, with_controls
from .routes import compute
from .tables import KINDS

# Options of maps that say nothing of a single pair of layers.
OF_MAPS = ("memory", "names", "right_names", "spectra", "progress")


@checked
@taking(SimilarityOptions, without=OF_MAPS)
def similarity(
    x: Any,
    y: Any,
    measure: str | Measure | Chosen = "debiased_cka",
    *,
    precision: str = "exact",
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
    precision : {"exact", "fast"}
        Float64 throughout, or float32 products added up in float64.
    **options
        Of `SimilarityOptions`, such as clusters, certainty, device, seed or level, and those of the measure.

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
    names = {option.name for option in fields(SimilarityOptions)} - set(OF_MAPS)
    shared = {name: value for name, value in options.items() if name in names}
    choice = chosen(measure, {name: value for name, value in options.items() if name not in names})
    maps = similarity_matrix([x], [y], [choice], precision=precision, memory="64GB", **shared)
    similarity_map = maps[choice.label]
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


def compute_maps(request: Request) -> Maps:
    """
    Compute the maps of a comparison that was checked.

    Parameters
    ----------
    request : Request

    Returns
    -------
    Maps
    """
    started = time.perf_counter()
    request = with_controls(request)
    options, grouping = request.options, request.grouping
    influence = options.certainty and any(m.measure.interval in KINDS for m in request.measures)
    outcome = compute(request, scores=influence, spectra=options.spectra)
    maps = {choice.label: as_map(request, outcome, choice) for choice in request.measures}
    if options.certainty:
        maps = add_intervals(request, outcome.scores, maps)
    if options.permutations:
        maps = add_permutations(request, maps)
    if grouping is not None:
        few = (grouping.few,) if options.certainty and grouping.few else ()
        maps = {
            label: replace(m, unit=grouping.unit, warnings=(*m.warnings, *few)) for label, m in maps.items()
        }
    return timed(maps.values(), started)
