"""Intervals and permutation tests for the cells of similarity maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from ..findings.maps import Map
from ..findings.paired import Resamples
from ..inference.estimate import Band
from ..inference.permutation import max_statistic, permutation_plan
from ..inference.resampling import (
    ANOTHER_SAMPLE,
    POPULATION,
    biased_scores,
    debiased_scores,
    half_interval,
    half_plan,
    jackknife_interval,
    scores_interval,
)
from ..measures.cka import ROUNDING
from ..measures.declare import Chosen
from .inputs import row_digest
from .request import Request
from .routes import compute
from .tables import AllPairs, Scores
from .units import scored_units


def add_intervals(request: Request, outcome: AllPairs, maps: Mapping[str, Map]) -> dict[str, Map]:
    """
    Add an interval to every cell of every map.

    Debiased CKA gets influence-function intervals for the population value, or, with few rows or
    clusters, a jackknife. Every other measure has a bias that depends on n, so its interval is for the value
    of another sample of the same size: from influence scores for linear CKA and canonical correlations, from
    half-samples otherwise.

    Parameters
    ----------
    request : Request
    outcome : AllPairs
        With the contributions of rows or clusters to norms and to canonical correlations.
    maps : mapping of str to Map
        By the label of the measure.

    Returns
    -------
    dict of str to Map
    """
    units, seed, scores = request.units, request.options.seed, outcome.scores
    out, influences = dict(maps), _influences(request, outcome, maps)
    halved: list[Chosen] = []
    for choice in request.measures:
        kind, label = choice.measure.interval, choice.label
        if kind in scores:
            band, psi = _score_band(maps[label].values, scores[kind], kind, units.unit)
            out[label] = _with_band(request, choice, maps, band, "scores", psi)
        elif kind == "debiased":
            values = _left_out_values(request, maps[label].values, scores.get("left out"))
            sizes = units.sizes
            band = jackknife_interval(maps[label].values, values, sizes=sizes, unit=units.unit)
            out[label] = _with_band(request, choice, maps, band, "jackknife", values, sizes)
        elif label in influences:
            psi = influences[label]
            band = scores_interval(maps[label].values, psi, unit=units.unit, target=ANOTHER_SAMPLE)
            out[label] = _with_band(request, choice, maps, band, "scores", psi)
        else:
            halved.append(choice)
    if halved:
        plan = half_plan(units, request.options.halves, seed)
        replicates = _repeated(
            request, halved, (request.take(rows) for rows in plan), "half-samples", len(plan)
        )
        for choice in halved:
            values = replicates[choice.label]
            band = half_interval(maps[choice.label].values, values, units=len(units), unit=units.unit)
            out[choice.label] = _with_band(request, choice, maps, band, "halves", values)
    return out


def _influences(request: Request, outcome: AllPairs, maps: Mapping[str, Map]) -> dict[str, np.ndarray]:
    """
    What each scored unit adds to the error of canonical correlations, shape (left, right, units).

    A cluster that is larger than others also adds rows, and the value falls with the number of rows: about as
    c / n, with c from a half-sample.
    """
    measures = [choice for choice in request.measures if choice.label in outcome.influences]
    if not measures:
        return {}
    units, chosen, n = request.units, scored_units(request), request.n
    psi = {choice.label: outcome.influences[choice.label].copy() for choice in measures}
    if units.sizes.min() < units.sizes.max():
        half = half_plan(units, 2, request.options.seed)[0]
        values = _repeated(request, measures, [request.take(half)], "half-sample", 1)
        rows_more = (units.sizes - units.sizes.mean())[chosen]
        for label, scores in psi.items():
            slope = (maps[label].values - values[label][0]) / (n**2 / len(half) - n)
            scores += slope[:, :, None] * rows_more
    # A sample of the units stands for all.
    return {
        label: (scores - scores.mean(-1, keepdims=True)) * np.sqrt(len(units) / len(chosen))
        for label, scores in psi.items()
    }


def _score_band(values: np.ndarray, scores: Scores, kind: str, unit: str) -> tuple[Band, np.ndarray]:
    influence, target = (
        (debiased_scores, POPULATION) if kind == "debiased" else (biased_scores, ANOTHER_SAMPLE)
    )
    psi = influence(
        values,
        scores.cross,
        scores.left[:, None],
        scores.right[None],
        scores.left_h[:, None],
        scores.right_h[None],
    )
    return scores_interval(values, psi, unit=unit, target=target), psi


def _left_out_values(request: Request, values: np.ndarray, scores: Scores | None) -> np.ndarray:
    """Debiased CKA without each unit, shape (units, left, right); NaN where it is undefined."""
    if scores is None:
        return np.full((len(request.units), *values.shape), np.nan)
    tolerance = ROUNDING[request.dtype.itemsize]
    left, right = (
        np.where(own > tolerance * norms[:, None], own, np.nan)
        for own, norms in ((scores.left, scores.left_h), (scores.right, scores.right_h))
    )
    return np.moveaxis(scores.cross / (np.sqrt(left)[:, None] * np.sqrt(right)[None]), 2, 0)


def _repeated(
    request: Request, measures: list[Chosen], samples: Iterable[Request], what: str, count: int
) -> dict[str, np.ndarray]:
    """Compute measures on several samples of the rows: for each label, shape (samples, left, right)."""
    values: dict[str, list[np.ndarray]] = {choice.label: [] for choice in measures}
    for done, sample in enumerate(samples, 1):
        outcome = compute(replace(sample, measures=tuple(measures), progress=None))
        for label, tables in values.items():
            tables.append(outcome.tables[label].values)
        if request.progress is not None:
            request.progress(what, done, count)
    return {label: np.stack(tables) for label, tables in values.items()}


def _with_band(
    request: Request,
    choice: Chosen,
    maps: Mapping[str, Map],
    band: Band,
    kind: Literal["scores", "halves", "jackknife"],
    array: np.ndarray,
    sizes: np.ndarray | None = None,
) -> Map:
    # Scores of a sample of the units cannot be paired with those of all.
    count = array.shape[2] if kind == "scores" else len(array)
    rows = row_digest(request.n, request.left.index, request.clusters)
    digest = f"{kind}/{count}/{request.options.seed}/{rows}"
    resamples = Resamples(kind=kind, array=array, units=len(request.units), sizes=sizes, digest=digest)
    band = replace(band, level=request.options.level)
    return with_interval(maps[choice.label], band, resamples, choice.declared("range"))


def with_interval(
    similarity_map: Map, band: Band, resamples: Resamples, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Map:
    """
    Add an interval to every cell of a map, and the resamples that it was made of.

    Parameters
    ----------
    similarity_map : Map
    band : Band
    resamples : Resamples
    bounds : pair of float
        The interval is clipped to them; the range of the measure, outside of which no value lies.
    """
    undefined = ~np.isfinite(similarity_map.values)
    low, high = np.clip(band.low, *bounds), np.clip(band.high, *bounds)
    low[undefined] = high[undefined] = np.nan
    lost = int((~undefined & ~np.isfinite(low)).sum())
    measure = similarity_map.measure
    lost_warning = f"{lost} cells have no interval: on part of the rows {measure} is undefined there"
    return replace(
        similarity_map,
        warnings=(*similarity_map.warnings, *([lost_warning] if lost else [])),
        low=low,
        high=high,
        level=band.level,
        method=band.method,
        unit=band.unit,
        target=band.target,
        resamples=resamples,
    )


def add_permutations(request: Request, maps: Mapping[str, Map]) -> dict[str, Map]:
    """
    Permute the rows of the right side, or whole clusters among those of equal size.

    Parameters
    ----------
    request : Request
    maps : mapping of str to Map

    Returns
    -------
    dict of str to Map
        With `p` and `p_map` from the permutations, and `null_mean` and `z` where no formula gives them.
    """
    count = request.options.permutations
    plan = permutation_plan(request.units, count, request.options.seed)
    permutable = request if plan.left_out == 0 else request.take(plan.rows)
    right = permutable.sides[-1]
    samples = (replace(permutable, right=right.take(order)) for order in plan.permutations)
    permuted = _repeated(request, list(request.measures), samples, "permutations", count)
    observed = {label: similarity_map.values for label, similarity_map in maps.items()}
    if plan.left_out:
        tables = compute(replace(permutable, progress=None)).tables
        observed = {label: table.values for label, table in tables.items()}
    return {
        choice.label: _with_permutations(
            maps[choice.label],
            observed[choice.label],
            permuted[choice.label],
            plan.left_out,
            # Formulas hold for independent rows; only a null mean of zero also holds for clusters.
            formula=request.clusters is None or choice.declared("null") in ("debiased", "zero"),
        )
        for choice in request.measures
    }


def _with_permutations(
    similarity_map: Map, observed: np.ndarray, permuted: np.ndarray, left_out: float, *, formula: bool
) -> Map:
    """Add permutation p-values; a null mean or z from a formula has no sampling error and is kept."""
    max_test = max_statistic(observed, permuted)
    sd = permuted.std(axis=0, ddof=1) if len(permuted) > 1 else np.full(observed.shape, np.nan)
    mean = permuted.mean(axis=0)
    # Where every permutation gives the same value, the deviation is only rounding error.
    moves = sd > 1e-12 * np.abs(mean)
    z = np.where(moves, (observed - mean) / np.where(moves, sd, 1.0), np.nan)
    has_null_mean = np.isfinite(similarity_map.null_mean) & formula
    has_z = np.isfinite(similarity_map.z)
    note = f"from {len(permuted)} orders of the {similarity_map.unit}s of the right side"
    if has_null_mean.any():
        note = f"by formula, and {'p is' if has_z.any() else 'z and p are'} {note}"
    if left_out:
        note += (
            f"; {left_out * 100:.0f} % of the rows stayed out, whose clusters are the only ones of their size"
        )
    return replace(
        similarity_map,
        null_mean=np.where(has_null_mean, similarity_map.null_mean, mean),
        z=np.where(has_z, similarity_map.z, z),
        p=max_test.p,
        p_map=max_test.familywise,
        null_note=note,
    )
