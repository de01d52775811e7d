"""Statistics of similarity maps: regions by relative depth, best matches, blocks, and agreement of maps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...findings.cells import layer_of
from ...findings.maps import Map
from ...findings.squares import layer_runs, run_pairs, usable_layers
from ...inference.estimate import quantile
from .curves import rank_correlation
from .pairs import REGIONS, Pair, depths_of, map_of, maps_of, pairs_of, region_of, stacks_of, third_of
from .values import Coverage, NotMeasuredError, Value, difference

if TYPE_CHECKING:
    from ..results import StudyResult

Array = NDArray[np.float64]
DEFAULT = "debiased_cka"
# With fewer, an interval is over rows of these models only.
LEAST_MODELS = 3


def similarity(
    result: StudyResult, *, first: Mapping[str, Any], minus: Mapping[str, Any] | None = None
) -> Value:
    """
    Mean similarity of a region of maps, minus that of another.

    Parameters
    ----------
    result : StudyResult
    first, minus : mapping
        `measure`; `between`: which models, of `KINDS`; `region`: which pairs of layers, of `REGIONS`; `left`,
        `right`: how names of models, or tasks of fine-tuned ones, begin. What `minus` leaves out is as in
        `first`.
    """

    def means(side: Mapping[str, Any]) -> list[tuple[Pair, Array]]:
        similarity_map, region = map_of(result, side.get("measure", DEFAULT)), side.get("region", "all")
        pairs = pairs_of(result, similarity_map, side["between"], side.get("left"), side.get("right"))
        cells = ((pair, region_of(pair, region)) for pair in pairs)
        # The mean of the ends of intervals is no narrower than the interval of the mean.
        parts = [(pair, np.array([t[c].mean() for t in pair.tables])) for pair, c in cells if c.any()]
        if not parts:
            raise NotMeasuredError(f"the maps have no {REGIONS[region]}")
        return parts

    subtracted = None if minus is None else means({**first, **minus})
    return _combined(result, map_of(result, first.get("measure", DEFAULT)), means(first), subtracted)


def best_match(
    result: StudyResult, *, between: str, region: str, minus: str = "", measure: str = DEFAULT
) -> Value:
    """
    Mean over the layers of a region of their largest similarity with any layer of the other model.

    Parameters
    ----------
    result : StudyResult
    between, measure : str
        As in `similarity`.
    region, minus : {"early", "middle", "late"}
    """
    similarity_map = map_of(result, measure)

    def matches(part: str) -> list[tuple[Pair, Array]]:
        out = []
        for pair in pairs_of(result, similarity_map, between):
            rows = third_of(len(pair.values), part)
            wide = _widened(similarity_map, pair, pair.values.shape[1])
            out.append((pair, np.array([_safe_max(table[rows]) for table in (pair.values, *wide)])))
        return out

    return _combined(result, similarity_map, matches(region), matches(minus) if minus else None)


def decay(result: StudyResult, *, between: str = "base", measure: str = DEFAULT) -> Value:
    """The rank correlation of similarity and distance in relative depth."""
    similarity_map = map_of(result, measure)
    parts = []
    for pair in pairs_of(result, similarity_map, between):
        u, v = depths_of(pair)
        value = rank_correlation(np.abs(u - v).round(9).ravel(), pair.values.ravel())
        parts.append((pair, np.array([value, math.nan, math.nan])))
    return _combined(result, similarity_map, parts)


def block_margin(result: StudyResult, *, between: str, count: int = 1, measure: str = DEFAULT) -> Value:
    """
    The least margin of one or two separate runs of layers: least similarity inside minus largest outside.

    Runs are chosen so that this margin is as large as possible; both are blocks where it is positive.

    Parameters
    ----------
    result : StudyResult
    between, measure : str
        As in `similarity`.
    count : {1, 2}
    """
    similarity_map = map_of(result, measure)
    parts = []
    for pair in pairs_of(result, similarity_map, between):
        same = pair.left is pair.right
        square = pair.values.shape[0] == pair.values.shape[1]
        used = usable_layers(pair.values)[0] if square else np.arange(0)
        if len(used) < 4:
            raise NotMeasuredError("blocks need two models of one depth and at least four layers")
        wide = _widened(similarity_map, pair, len(used) ** 2)
        tables = [table[np.ix_(used, used)] for table in (pair.values, *wide)]
        parts.append((pair, _margin(tables, count, not same)))
    return _combined(result, similarity_map, parts)


def certain_blocks(result: StudyResult, *, between: str = "tuned", count: int = 2) -> Value:
    """Whether most seeds have at least so many separate blocks that are certain in the comparison."""
    maps = maps_of(result)
    if not maps.blocks:
        raise NotMeasuredError("blocks were not tested; compare with certainty and debiased CKA")
    stacks = {stack.name: stack for stack in stacks_of(result, next(iter(maps.values())))}
    votes = {}
    for blocks in maps.blocks:
        stack = stacks.get(blocks.stack)
        if stack is not None and stack.tuned == (between == "tuned"):
            key = len(votes) if stack.seed is None else stack.seed
            votes[key] = float(len(blocks.finding.outermost) >= count)
    if not votes:
        raise NotMeasuredError(f"no {between} model was compared")
    n = next(iter(maps.values())).n
    value = float(np.mean(list(votes.values())))
    return Value(value=value, task=result.task, n=n, seeds=len(votes), by_seed=votes)


def similarity_beside(
    result: StudyResult,
    beside: StudyResult,
    *,
    first: Mapping[str, Any],
    minus: Mapping[str, Any],
    measure: str,
    other: str,
) -> Value:
    """A difference of similarities by one measure, minus the same by another one of other maps."""
    own = similarity(result, first={**first, "measure": measure}, minus=minus)
    return difference(own, similarity(beside, first={**first, "measure": other}, minus=minus))


def map_agreement(result: StudyResult, beside: StudyResult, *, measure: str = DEFAULT) -> Value:
    """
    The rank correlation of the cells of two maps of the same models, such as on two corpora.

    The interval is a jackknife over models, for three of them or more.

    Parameters
    ----------
    result, beside : StudyResult
    measure : str
    """
    first, second = map_of(result, measure), map_of(beside, measure)
    common = [name for name in first.left if name in second.left]
    models = np.array([layer_of(name)[0] for name in common])
    tables = []
    for entry in (first, second):
        places = [entry.left.index(name) for name in common]
        tables.append(entry.values[np.ix_(places, places)])

    def correlation(used: NDArray[np.bool_]) -> float:
        pairs = np.outer(used, used) & ~np.eye(len(used), dtype=bool)
        return rank_correlation(tables[0][pairs], tables[1][pairs])

    names = sorted(set(models.tolist()))
    value, level = correlation(models != ""), first.level or 0.95
    low = high = math.nan
    if len(names) >= LEAST_MODELS:
        low, high = Coverage(level).jackknife(value, [correlation(models != name) for name in names])
    return Value(
        value=value, low=low, high=high, level=level, unit="model", task=result.task, n=min(first.n, second.n)
    )


def _widened(similarity_map: Map, pair: Pair, count: int) -> list[Array]:
    """Ends of cells that hold for so many cells at once, by Bonferroni and normal errors."""
    level = similarity_map.level
    factor = 1.0 if level is None else quantile(1 - (1 - level) / count) / quantile(level)
    return [pair.values + factor * (end - pair.values) for end in (pair.low, pair.high)]


def _safe_max(rows: Array) -> float:
    """Mean of the largest value of each row that has any."""
    defined = rows[np.isfinite(rows).any(axis=1)]
    return float(np.nanmax(defined, axis=1).mean()) if len(defined) else math.nan


def _margin(tables: Sequence[Array], count: int, two_stacks: bool) -> Array:
    """The largest margin of runs; it is within its ends where all cells are within theirs."""
    values, low, high = (table.ravel() for table in tables)
    margins, spans = [], []
    for members, span in layer_runs(len(tables[0]), 0):
        inside, outside = run_pairs(len(tables[0]), members, span, two_stacks)
        ends = [(values, values), (low, high), (high, low)]
        margins.append(np.array([a[inside].min() - b[outside].max() for a, b in ends]))
        spans.append(span)
    if count == 2:
        # Runs come in the order of their first layers.
        pairs = itertools.combinations(range(len(spans)), 2)
        margins = [np.minimum(margins[a], margins[b]) for a, b in pairs if spans[a][1] < spans[b][0]]
    if not margins:
        raise NotMeasuredError("the model has too few layers for two separate runs")
    return np.max(margins, axis=0)


def _combined(
    result: StudyResult,
    similarity_map: Map,
    parts: Sequence[tuple[Pair, Array]],
    minus: Sequence[tuple[Pair, Array]] | None = None,
) -> Value:
    """
    The mean over pairs of models, minus that of others, with the interval of the cells.

    With pairs of three models or more that are not seeds of one, it is a jackknife over models.
    """
    ends = np.mean([part for _, part in parts], axis=0)
    if minus is not None:
        less = np.mean([part for _, part in minus], axis=0)
        ends = np.array([ends[0] - less[0], ends[1] - less[2], ends[2] - less[1]])
    runs, others = _by_seed(parts), _by_seed(minus or ())
    shared = float(np.mean([part[0] for _, part in minus])) if minus else 0.0
    runs = {seed: value - others.get(seed, shared) for seed, value in runs.items()}
    level, unit = similarity_map.level or math.nan, similarity_map.unit
    names = sorted({name for pair, _ in parts for name in (pair.left.name, pair.right.name)})
    if not runs and len(names) >= LEAST_MODELS:
        replicates = [_without(name, parts, minus) for name in names]
        if all(map(math.isfinite, replicates)):
            level, unit = similarity_map.level or 0.95, "model"
            ends = np.array([ends[0], *Coverage(level).jackknife(float(ends[0]), replicates)])
    return Value(
        value=float(ends[0]),
        low=float(ends[1]),
        high=float(ends[2]),
        level=level,
        unit=unit,
        task=result.task,
        n=similarity_map.n,
        seeds=max(len(runs), 1),
        by_seed=runs,
    )


def _by_seed(parts: Sequence[tuple[Pair, Array]]) -> dict[int, float]:
    """Means by seed; pairs of fine-tuned models share models, and have none of their own."""
    seeds: dict[int, list[float]] = {}
    for pair, part in parts:
        if pair.left.seed is not None and (pair.left is pair.right or not pair.right.tuned):
            seeds.setdefault(pair.left.seed, []).append(float(part[0]))
    return {seed: float(np.mean(values)) for seed, values in seeds.items()}


def _without(name: str, parts: Sequence[Any], minus: Sequence[Any] | None) -> float:
    """The difference of means over the pairs that a model is not in."""
    means = []
    for some in (parts, minus or ()):
        rest = [part[0] for pair, part in some if name not in (pair.left.name, pair.right.name)]
        means.append(float(np.mean(rest)) if rest else math.nan if some else 0.0)
    return means[0] - means[1]
