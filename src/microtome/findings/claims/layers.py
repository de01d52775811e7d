"""Claims about the layers of similarity maps: runs that are alike, blocks, what differs, and what matches."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import MicrotomeError, SmallSampleWarning
from ..change import change_profile
from ..layer_order import layer_matching
from ..localization import Localization, localization
from ..maps import Map
from ..methods import declared
from ..stackblocks import StackBlocks, blocks_document
from .claim import Bound, Claim, Quantity, overlapping
from .stacks import ModelLayers, stack_pairs, stacks_of

if TYPE_CHECKING:
    from ..record import Maps

# Layers are alike from here on, where 1 is the largest value of the measure.
ALIKE = 0.9
FEWEST = 3  # layers of a run that is worth a claim
# Accuracy of fast arithmetic: a smaller difference from 1 is rounding error, not change.
ROUNDING = 1e-6
DEBIASED = "debiased_cka"
INFLUENCE = "influence function"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundedCells:
    """
    Some cells of a map with bounds; `together` is whether these hold for all cells at once.

    Parameters
    ----------
    values, low, high : ndarray of one shape
        `low` and `high` are NaN where there is no interval.
    together : bool
    """

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    together: bool


def map_claims(maps: Maps) -> tuple[Claim, ...]:
    """
    Claim what follows from the maps of one comparison.

    Parameters
    ----------
    maps : Maps
        Claims are made from one measure: debiased CKA, or else the first one.

    Returns
    -------
    tuple of Claim
        How the models differ and match, which layers of each are alike or undefined, and its blocks.
    """
    similarity_map = claimed_map(maps)
    claims: list[Claim] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        for later, earlier, tuned in stack_pairs(similarity_map):
            claims += _difference(similarity_map, later, earlier, tuned=tuned)
            claims += _matching(similarity_map, *((earlier, later) if tuned else (later, earlier)))
    if similarity_map.symmetric:
        for stack in stacks_of(similarity_map)[0]:
            claims += [*_alike(similarity_map, stack), *_undefined(similarity_map, stack)]
    claims += map(_blocks, maps.blocks)
    return (*claims, *_localized(maps))


def claimed_map(maps: Maps) -> Map:
    """The map that claims are made from."""
    all_maps = list(maps.values())
    return next((entry for entry in all_maps if entry.measure == DEBIASED), all_maps[0])


def bounded(similarity_map: Map, at: Any, count: int | None = None) -> BoundedCells:
    """
    Widen intervals so that they hold for several cells at once, where their distribution is known.

    Parameters
    ----------
    similarity_map : Map
    at : index
        Of the cells.
    count : int, optional
        Number of cells that a claim selects from; all defined ones when absent.

    Returns
    -------
    BoundedCells
        By Bonferroni's inequality and the normal distribution for intervals by influence functions. Others
        follow a t distribution of unknown degrees of freedom and are not widened.
    """
    values = similarity_map.values[at]
    values = np.where(np.abs(values - 1) <= ROUNDING, 1.0, values)
    if similarity_map.low is None or similarity_map.high is None:
        none = np.full(values.shape, np.nan)
        return BoundedCells(values=values, low=none, high=none, together=False)
    low, high = similarity_map.low[at], similarity_map.high[at]
    count = int(np.isfinite(values).sum()) if count is None else count
    if similarity_map.method != INFLUENCE or similarity_map.level is None or count < 1:
        return BoundedCells(values=values, low=low, high=high, together=count == 1)
    normal = NormalDist()
    wide, single = (normal.inv_cdf(1 - (1 - similarity_map.level) / (2 * c)) for c in (count, 1))
    return BoundedCells(
        values=values,
        low=values - (values - low) * wide / single,
        high=values + (high - values) * wide / single,
        together=True,
    )


def change_cells(similarity_map: Map, later: ModelLayers, earlier: ModelLayers) -> BoundedCells | None:
    """
    Similarity of each layer with the same layer of another model.

    Parameters
    ----------
    similarity_map : Map
    later, earlier : ModelLayers

    Returns
    -------
    BoundedCells or None
        None where the models have different layers, or where 1 is not the largest value of the measure.
    """
    if list(later.numbered) != list(earlier.numbered) or len(later.numbered) < 2:
        return None
    if not _reaches_one(similarity_map):
        return None
    cells = bounded(similarity_map, (list(later.numbered.values()), list(earlier.numbered.values())))
    defined = cells.values[np.isfinite(cells.values)]
    return cells if defined.size and defined.max() <= 1 else None


def _difference(similarity_map: Map, later: ModelLayers, earlier: ModelLayers, *, tuned: bool) -> list[Claim]:
    cells = change_cells(similarity_map, later, earlier)
    if cells is None or np.isfinite(cells.values).sum() < 2:
        return []
    depths, values = list(later.numbered), cells.values
    place = int(np.nanargmin(values))
    near = overlapping(values, cells.low, cells.high, place)
    profile = change_profile(values, positions=[float(depth) for depth in depths])
    defined = np.flatnonzero(np.isfinite(values))
    return [
        Claim(
            kind="changed layer",
            verdict="holds" if near == [] else "inconclusive",
            score=similarity_map.title,
            points=1.0,
            subject=later.model,
            layers=(depths[place],),
            depth=len(depths),
            n=similarity_map.n,
            estimate=Quantity(
                value=float(values[place]),
                low=float(cells.low[place]),
                high=float(cells.high[place]),
                level=similarity_map.level or 0.95,
                unit=similarity_map.unit,
            ),
            facts={
                **_basis(similarity_map, (later.places, earlier.places), together=cells.together),
                "tuned": tuned,
                "model": later.model or "the left stack",
                "against": earlier.model or "the right stack",
                "equal": bool((values[defined] == values[place]).all()),
                "others_least": None if near is None else float(np.nanmin(np.delete(cells.low, place))),
                "overlapping": [depths[k] for k in near or ()],
                "center": profile.center,
                "top_third": profile.top_third,
                "even": profile.even,
                "first": depths[defined[0]],
                "last": depths[defined[-1]],
                "left_out": [depths[k] for k in profile.left_out],
            },
        )
    ]


def _matching(similarity_map: Map, left: ModelLayers, right: ModelLayers) -> list[Claim]:
    rows, columns = left.numbered, right.numbered
    block = similarity_map.values[np.ix_(list(rows.values()), list(columns.values()))]
    if min(block.shape) < 2 or not np.isfinite(block).all():
        return []
    matching, depths = layer_matching(block), list(rows)
    return [
        Claim(
            kind="matching layers",
            verdict="holds" if matching.interval.low > matching.chance else "inconclusive",
            score=similarity_map.title,
            points=1.0,
            subject=left.model,
            depth=len(depths),
            estimate=Quantity(
                value=matching.accuracy,
                low=matching.interval.low,
                high=matching.interval.high,
                level=matching.interval.level,
                unit=matching.interval.unit,
            ),
            facts={
                "model": left.model or "the left stack",
                "against": right.model or "the right stack",
                "within_one": matching.within_one,
                "chance": matching.chance,
                "ties": [depths[k] for k in matching.ties],
            },
        )
    ]


def _alike(similarity_map: Map, stack: ModelLayers) -> list[Claim]:
    depths, places = list(stack.numbered), list(stack.numbered.values())
    if len(depths) < FEWEST or not _reaches_one(similarity_map) or _of_attention(similarity_map):
        return []
    at = np.ix_(places, places)
    symmetric = np.array_equal(similarity_map.values[at], similarity_map.values[at].T, equal_nan=True)
    cells = bounded(similarity_map, at, len(places) * (len(places) - 1) // (2 if symmetric else 1))
    has_intervals = bool(np.isfinite(cells.low).any())
    tested = cells.low if has_intervals else cells.values
    tested = np.minimum(tested, tested.T)
    np.fill_diagonal(tested, np.inf)
    if not np.isfinite(tested).any():
        return []
    # The least similar pair of each run; NaN where one is undefined, so that nothing is claimed of it.
    least = {
        (start, stop): float(tested[start:stop, start:stop].min())
        for start in range(len(depths))
        for stop in range(start + FEWEST, len(depths) + 1)
        if depths[stop - 1] - depths[start] == stop - 1 - start
    }
    runs: list[tuple[int, int]] = []
    candidates = (run for run, value in least.items() if value >= ALIKE)
    for start, stop in sorted(candidates, key=lambda run: (run[0] - run[1], -least[run])):
        if all(stop <= a or start >= b for a, b in runs):
            runs.append((start, stop))
    facts = {
        **_basis(similarity_map, (stack.places, stack.places), together=cells.together),
        "model": stack.model or "the stack",
        "intervals": has_intervals,
    }

    def claim(kind: str, run: tuple[int, int] | None, *, holds: bool) -> Claim:
        return Claim(
            kind=kind,
            verdict="holds" if holds else "inconclusive",
            score=similarity_map.title,
            points=1.0,
            subject=stack.model,
            layers=() if run is None else tuple(depths[slice(*run)]),
            depth=len(depths),
            n=similarity_map.n,
            bound=None if run is None else Bound(side="least", value=least[run], family="all pairs"),
            facts=facts,
        )

    if runs:
        return [claim("alike layers", run, holds=has_intervals) for run in runs[:2]]
    shortest = [run for run, value in least.items() if run[1] - run[0] == FEWEST and math.isfinite(value)]
    best = max(shortest, key=lambda run: (least[run], -run[0]), default=None)
    return [claim("no alike layers", best, holds=False)]


def _undefined(similarity_map: Map, stack: ModelLayers) -> list[Claim]:
    places = [place for place in stack.places if place not in stack.empty]
    values = similarity_map.values[np.ix_(places, places)]
    lost = [places[k] for k in range(len(places)) if not np.isfinite(np.delete(values[k], k)).any()]
    if not lost or len(places) < 2:
        return []
    reasons = {similarity_map.reasons[place][other] for place in lost for other in places}
    return [
        Claim(
            kind="undefined layers",
            verdict="inconclusive",
            score=similarity_map.title,
            points=1.0,
            subject=stack.model,
            depth=len(places),
            facts={
                "names": [stack.names[stack.places.index(place)] for place in lost],
                "reasons": sorted(reason for reason in reasons if reason),
            },
        )
    ]


def _blocks(blocks: StackBlocks) -> Claim:
    certain = blocks.finding.certain
    ends = dict.fromkeys(blocks.numbers[k] for block in certain for k in (block.first, block.last))
    return Claim(
        kind="blocks",
        verdict="holds" if certain else "inconclusive",
        score=blocks.measure,
        points=1.0,
        subject=blocks.stack,
        layers=tuple(int(end) for end in ends if end.isdecimal()),
        depth=blocks.finding.layers,
        facts=blocks_document(blocks),
    )


def map_localization(maps: Iterable[Map]) -> tuple[Map, Localization] | None:
    """Localization of all layers, with the map of neurons; None where one of its maps is missing."""
    square = {entry.measure: entry for entry in maps if entry.symmetric}
    if not {"neuron_correlation", "svcca"} <= set(square):
        return None
    neurons = square["neuron_correlation"]
    try:
        return neurons, localization(neurons.values, square["svcca"].values, zscore=False)
    except MicrotomeError:
        return None


def _localized(maps: Maps) -> list[Claim]:
    if (result := map_localization(maps.values())) is None:
        return []
    similarity_map, localized = result
    ends = (int(np.nanargmax(localized.scores)), int(np.nanargmin(localized.scores)))
    facts = {
        "names": [similarity_map.left[place] for place in ends],
        "scores": [float(localized.scores[place]) for place in ends],
    }
    compared = localized.compared
    return [Claim(kind="localization", verdict="inconclusive", score="", depth=compared, facts=facts)]


def _basis(similarity_map: Map, places: tuple[Any, Any], *, together: bool) -> dict[str, Any]:
    """What intervals promise, and the largest value that unrelated layers would give."""
    null = similarity_map.null_mean[np.ix_(*places)]
    finite = null[np.isfinite(null)]
    return {
        "together": together,
        "level": similarity_map.level or 0.95,
        "unit": similarity_map.unit,
        "target": similarity_map.target or "",
        "unrelated": float(finite.max()) if finite.size and np.abs(finite).max() >= 0.005 else None,
    }


def _reaches_one(similarity_map: Map) -> bool:
    """Whether 1 is the largest value of the measure, so that nearness to it means alike."""
    choice = declared(similarity_map)
    return choice is not None and float(choice.declared("range")[1]) == 1.0


def _of_attention(similarity_map: Map) -> bool:
    """Whether attention was compared, which is far from 0 for any two models."""
    choice = declared(similarity_map)
    return choice is not None and choice.declared("needs") == "attention"
