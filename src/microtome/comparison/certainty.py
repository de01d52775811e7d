"""Intervals and permutation tests for the cells of similarity maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..findings.maps import Map
from ..findings.paired import Resamples
from ..inference.clusters import Clusters, groups
from ..inference.halves import ANOTHER_SAMPLE, half_interval, half_plan
from ..inference.influence import ENOUGH_CLUSTERS, biased_scores, influence_interval, scores_band
from ..inference.jackknife import Band, jackknife_interval
from ..inference.permutation import max_statistic, permutation_plan
from ..measures.declare import Chosen
from .inputs import read_clusters
from .tables import Scores

if TYPE_CHECKING:
    from .request import Request
    from .routes import Raw

Compute = Callable[..., "Raw"]


def add_intervals(
    request: Request,
    scores: dict[str, Scores],
    maps: dict[str, Map],
    compute: Compute,
    *,
    level: float,
    halves: int,
) -> dict[str, Map]:
    """
    Add an interval to every cell of every map.

    Debiased CKA gets influence-function intervals for the population value, or, with few rows or
    clusters, a jackknife. Every other measure has a bias that depends on n, so its interval is for the value
    of another sample of the same size: from influence scores for linear CKA, from half-samples otherwise.

    Parameters
    ----------
    request : Request
    scores : dict of str to Scores
        From the second pass over the rows, for debiased and biased norms.
    maps : dict of str to Map
    compute : callable
        Computes all tables of a request.
    level : float
    halves : int
        Number of half-samples.

    Returns
    -------
    dict of str to Map
    """
    units = Clusters.singletons(request.n) if request.clusters is None else request.clusters
    out = dict(maps)
    enough = len(units) >= ENOUGH_CLUSTERS
    choices_by_method: dict[str, list[Chosen]] = {"influence": [], "jackknife": [], "halves": []}
    for choice in request.measures:
        kind = choice.measure.interval
        scored = kind in scores and enough
        choices_by_method["influence" if scored else "jackknife" if kind == "debiased" else "halves"].append(
            choice
        )
    for choice in choices_by_method["influence"]:
        kind = choice.measure.interval
        out[choice.label] = _influenced(request, units, maps[choice.label], scores[kind], kind, level)
    for name, add in (("jackknife", _jackknifed), ("halves", partial(_halved, halves=halves))):
        if choices_by_method[name]:
            selected_maps = {m.label: maps[m.label] for m in choices_by_method[name]}
            out |= add(
                replace(request, measures=tuple(choices_by_method[name])),
                units,
                selected_maps,
                compute,
                level,
            )
    return out


def _influenced(
    request: Request, units: Clusters, similarity_map: Map, scores: Scores, kind: str, level: float
) -> Map:
    side_scores = (scores.left[:, None], scores.right[None], scores.left_h[:, None], scores.right_h[None])
    if kind == "debiased":
        influence = influence_interval(
            similarity_map.values, scores.cross, *side_scores, level, unit=units.unit
        )
        psi, band = influence.psi, influence.band
    else:
        psi = biased_scores(similarity_map.values, scores.cross, *side_scores)
        band = scores_band(similarity_map.values, psi, level, unit=units.unit, target=ANOTHER_SAMPLE)
    resamples = Resamples(kind="scores", array=psi, units=len(units), digest=_digest(request, "scores"))
    return _with_band(similarity_map, band, resamples, _range(request, similarity_map.measure))


def _digest(request: Request, kind: str) -> str:
    from .inputs import row_digest

    return f"{kind}/{request.seed}/{row_digest(request.n, request.left.index, request.clusters)}"


def _range(request: Request, label: str) -> tuple[float, float]:
    return next(m.declared("range") for m in request.measures if m.label == label)


def _with_band(similarity_map: Map, band: Band, resamples: Resamples, bounds: tuple[float, float]) -> Map:
    undefined = ~np.isfinite(similarity_map.values)
    # No value lies outside the range of its measure, so clipping the interval to it loses nothing.
    low, high = np.clip(band.low, *bounds), np.clip(band.high, *bounds)
    low[undefined] = high[undefined] = np.nan
    lost = int((~undefined & ~np.isfinite(low)).sum())
    lost_warning = (
        f"{lost} cells have no interval: on part of the rows {similarity_map.measure} is undefined there",
    )
    return replace(
        similarity_map,
        warnings=similarity_map.warnings + (lost_warning if lost else ()),
        low=low,
        high=high,
        level=band.level,
        method=band.method,
        unit=band.unit,
        target=band.target,
        resamples=resamples,
    )


def subset(request: Request, rows: np.ndarray) -> Request:
    """Restrict a request to some of its rows."""
    clusters = request.clusters
    return replace(
        request,
        left=request.left.take(rows),
        right=None if request.right is None else request.right.take(rows),
        clusters=None if clusters is None else read_clusters(clusters.codes[rows], len(rows), balanced=False),
        settings=replace(request.settings, progress=None),
    )


def _repeated(request: Request, plan: list[np.ndarray], compute: Compute, what: str) -> dict[str, np.ndarray]:
    """Compute every measure on each set of rows, shape (sets, left, right)."""
    replicates: dict[str, list[np.ndarray]] = {m.label: [] for m in request.measures}
    for done, rows in enumerate(plan, 1):
        raw = compute(subset(request, rows))
        for label, values in replicates.items():
            values.append(raw.tables[label].values)
        if request.settings.progress is not None:
            request.settings.progress(what, done, len(plan))
    return {label: np.stack(values) for label, values in replicates.items()}


def _jackknifed(
    request: Request, units: Clusters, maps: dict[str, Map], compute: Compute, level: float
) -> dict[str, Map]:
    replicates, sizes = leave_out_values(request, units, len(units), compute)
    out = {}
    for label, similarity_map in maps.items():
        band = jackknife_interval(
            similarity_map.values, replicates[label], level, sizes=sizes, unit=units.unit
        )
        resamples = Resamples(
            kind="jackknife",
            array=replicates[label],
            units=len(units),
            sizes=sizes,
            digest=_digest(request, "jackknife"),
        )
        out[label] = _with_band(similarity_map, band, resamples, _range(request, label))
    return out


def leave_out_values(
    request: Request, units: Clusters, count: int, compute: Compute
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """
    Compute every map without each group of clusters in turn.

    Parameters
    ----------
    request : Request
    units : Clusters
    count : int
        Number of groups.
    compute : callable

    Returns
    -------
    values : dict of str to ndarray of shape (groups, left, right)
    sizes : ndarray of shape (groups,)
        Rows of each group.
    """
    codes = groups(units, min(count, len(units)), request.seed)
    plan = [units.rows(codes != g) for g in range(int(codes.max()) + 1)]
    sizes = np.array([units.n - len(rows) for rows in plan])
    return _repeated(request, plan, compute, "jackknife"), sizes


def _halved(
    request: Request, units: Clusters, maps: dict[str, Map], compute: Compute, level: float, halves: int
) -> dict[str, Map]:
    plan = half_plan(units, halves, request.seed)
    replicates = _repeated(request, plan, compute, "half-samples")
    out = {}
    for label, similarity_map in maps.items():
        band = half_interval(
            similarity_map.values, replicates[label], level, units=len(units), unit=units.unit
        )
        resamples = Resamples(
            kind="halves", array=replicates[label], units=len(units), digest=_digest(request, "halves")
        )
        out[label] = _with_band(similarity_map, band, resamples, _range(request, label))
    return out


def add_permutations(
    request: Request, maps: dict[str, Map], compute: Compute, *, permutations: int, level: float
) -> dict[str, Map]:
    """
    Permute the rows of the right side, or whole clusters among those of equal size.

    Parameters
    ----------
    request : Request
    maps : dict of str to Map
    compute : callable
    permutations : int
    level : float

    Returns
    -------
    dict of str to Map
        With `p` and `p_map` from the permutations, and `null_mean` and `z` where no formula gives them.
    """
    units = Clusters.singletons(request.n) if request.clusters is None else request.clusters
    plan = permutation_plan(units, permutations, request.seed)
    permutable_request = request if plan.left_out == 0 else subset(request, plan.rows)
    right_stack = permutable_request.left if permutable_request.right is None else permutable_request.right
    permuted_values: dict[str, list[np.ndarray]] = {m.label: [] for m in request.measures}
    for done, order in enumerate(plan.permutations, 1):
        raw = compute(
            replace(
                permutable_request,
                right=right_stack.take(order),
                settings=replace(permutable_request.settings, progress=None),
            )
        )
        for label, values in permuted_values.items():
            values.append(raw.tables[label].values)
        if request.settings.progress is not None:
            request.settings.progress("permutations", done, permutations)
    observed = {label: similarity_map.values for label, similarity_map in maps.items()}
    if plan.left_out:
        observed = {label: table.values for label, table in compute(permutable_request).tables.items()}
    # Formulas hold for independent rows; only a null mean of zero also holds for clusters.
    formula_holds = {
        m.label: request.clusters is None or m.declared("null") in ("debiased", "zero")
        for m in request.measures
    }
    return {
        label: _with_permutations(
            similarity_map,
            observed[label],
            np.stack(permuted_values[label]),
            level,
            plan.left_out,
            formula=formula_holds[label],
        )
        for label, similarity_map in maps.items()
    }


def _with_permutations(
    similarity_map: Map,
    observed: np.ndarray,
    permuted: np.ndarray,
    level: float,
    left_out: float,
    *,
    formula: bool,
) -> Map:
    """Add permutation p-values; a null mean or z from a formula has no sampling error and is kept."""
    max_test = max_statistic(observed, permuted, level)
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
        note += f"; {left_out:.0%} of the rows stayed out, their clusters having no other of the same size"
    return replace(
        similarity_map,
        null_mean=np.where(has_null_mean, similarity_map.null_mean, mean),
        z=np.where(has_z, similarity_map.z, z),
        p=max_test.p,
        p_map=max_test.familywise,
        null_note=note,
    )
