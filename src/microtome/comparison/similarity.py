"""Similarity of two layers, and similarity maps of two stacks of layers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arguments import checked, taking
from ..encoders.versions import provenance
from ..errors import InputError, SmallSampleWarning, must
from ..findings.maps import Map
from ..findings.record import Maps
from ..findings.words import at_most
from ..inference.estimate import Estimate, Sides
from ..inference.permutation import Null, gamma_p, z_score
from ..measures.declare import Chosen, Measure
from ..measures.table import chosen, chosen_all
from ..moments.streamed import StreamedMoments
from ..runtime import using_threads
from .certainty import add_intervals, add_permutations
from .engine import run as run_engine
from .inputs import prepare, row_digest, with_controls
from .request import Request, SimilarityOptions
from .routes import compute
from .tables import AllPairs, Table

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
    outcome = compute(request, scores=options.certainty, spectra=options.spectra)
    maps = {choice.label: as_map(request, outcome, choice) for choice in request.measures}
    if options.certainty:
        maps = add_intervals(request, outcome, maps)
    if options.permutations:
        maps = add_permutations(request, maps)
    if grouping is not None:
        few = (grouping.few,) if options.certainty and grouping.few else ()
        maps = {
            label: replace(m, unit=grouping.unit, warnings=(*m.warnings, *few)) for label, m in maps.items()
        }
    return timed(maps.values(), started)


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


def as_map(request: Request, outcome: AllPairs, choice: Chosen) -> Map:
    """
    Build a map from a table of values, with its null, estimator, warnings and provenance.

    Parameters
    ----------
    request : Request
    outcome : AllPairs
    choice : Chosen
        Which measure.
    """
    table = outcome.tables[choice.label]
    blank = np.full(table.values.shape, np.nan)
    z, p = blank, blank.copy()
    explanation = "no formula is known for its spread; ask for permutations"
    if choice.declared("null") in ("cka", "debiased"):
        if request.clusters is not None:
            explanation = (
                "rows come in clusters, so the formula for independent rows does not hold; "
                "ask for permutations"
            )
        else:
            explanation = ""
            null = Null(mean=table.null_mean, sd=table.null_sd)
            z = z_score(table.values, null)
            shape = null
            if "biased_null_mean" in table.details:
                shape = Null(mean=table.details["biased_null_mean"], sd=table.details["biased_null_sd"])
            p = gamma_p(table.values, null, like=shape)
    if not np.isfinite(table.null_mean).any():
        explanation = "no formula is known for what unrelated rows would give; ask for permutations"
    elif request.clusters is not None and choice.declared("null") not in ("debiased", "zero"):
        # The mean over permutations of single rows does not hold for unrelated clusters.
        explanation += "; the null mean is that of single rows, and too low for clusters"
    messages = _warnings(request, outcome, choice, table)
    return Map(
        measure=choice.label,
        left=request.left.names,
        right=request.sides[-1].names,
        values=table.values,
        reasons=tuple(tuple(row) for row in table.reasons.tolist()),
        n=request.n,
        estimator=_estimator(choice, request),
        null_mean=table.null_mean,
        z=z,
        p=p,
        null_note=explanation,
        unit="row" if request.clusters is None else "cluster",
        rank=table.rank,
        kept=table.kept,
        lost=table.lost,
        layers=Sides(MappingProxyType(outcome.left), MappingProxyType(outcome.right)),
        precision="exact" if choice.declared("needs") == "rows" else outcome.precision,
        warnings=messages,
        details=MappingProxyType(table.details),
        symmetric=request.right is None,
        provenance=MappingProxyType(
            provenance(
                {
                    "device": str(request.device),
                    "seed": request.options.seed,
                    "rows_digest": row_digest(request.n, request.left.index, request.clusters),
                }
            )
        ),
    )


def _estimator(choice: Chosen, request: Request) -> str:
    name = choice.declared("title")
    unused = ("folds", "ridge", "seed") if choice.options.get("estimator") == "in_sample" else ()
    parts = [f"{key} {value}" for key, value in choice.options.items() if key not in unused]
    if choice.measure.name == "debiased_cka":
        name = "debiased CKA" if request.clusters is None else "cluster-debiased CKA"
        parts.append(
            "rows taken as independent"
            if request.clusters is None
            else f"pairs within {len(request.clusters)} clusters left out"
        )
    if choice.measure.name == "linear_cka":
        parts.append("biased")
    if choice.declared("subspace") is not None:
        parts.append("rank tolerance 1e-6")
    if request.note:
        parts.append(request.note)
    return f"{name} ({', '.join(parts)})" if parts else str(name)


def _warnings(request: Request, outcome: AllPairs, choice: Chosen, table: Table) -> tuple[str, ...]:
    messages = []
    n = request.n
    if table.kept.left is not None:
        most = int(max(side.max() for side in table.kept))
        if n < 5 * most:
            text = (
                f"{choice.label} compares up to {most} dimensions on {n} rows; "
                f"below {5 * most} rows it is inflated"
                + (", and at so few rows it is near 1 whatever the data" if n < 2 * most else "")
            )
            messages.append(text)
            warnings.warn(text, SmallSampleWarning, stacklevel=4)
    elif choice.measure.name == "linear_cka":
        mean = float(np.nanmax(table.null_mean)) if np.isfinite(table.null_mean).any() else 0.0
        if mean > 0.1:
            messages.append(
                f"linear_cka of unrelated rows would be up to {at_most(mean)} here; debiased_cka has no such "
                "floor"
            )
    flagged = [
        name
        for stack, facts in ((request.left, outcome.left), (request.sides[-1], outcome.right))
        for name, outlier in zip(stack.names, facts["outlier"], strict=True)
        if outlier
    ]
    if flagged:
        names = ", ".join(dict.fromkeys(flagged))
        messages.append(
            f"three neurons hold more than half of the variance of layer {names}; see zscore and remove_top"
        )
    return tuple(messages)


def timed(maps: Iterable[Map], started: float) -> Maps:
    """Collect the maps of a comparison that started at a time of `time.perf_counter`."""
    seconds = round(time.perf_counter() - started, 3)
    return Maps([replace(m, provenance=MappingProxyType({**m.provenance, "seconds": seconds})) for m in maps])
