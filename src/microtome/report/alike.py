"""Statements on a map of layers: which are alike, which form blocks, which changed most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from ..findings.change import ChangeProfile, change_profile
from ..findings.maps import Map
from ..findings.methods import declared
from ..findings.stackblocks import StackBlocks
from ..findings.words import at_least, at_most, between, listed, number, numbered
from .sentences import Statement, doubt, percent

# Layers are called alike from here on, where 1 is the largest value of the measure.
ALIKE = 0.9
FEWEST = 3  # layers of a run that is worth a sentence
# What fast arithmetic promises: a smaller difference from 1 is rounding, and no change.
ROUNDING = 1e-6
INFLUENCE = "influence function"
POPULATION = "population value"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapWindow:
    """
    A part of a map: some layers against some others.

    Parameters
    ----------
    of : Map
    left, right : tuple of int
        Places of the layers in the map.
    left_model, right_model : str
        What the two sides are called in a sentence.
    left_depths, right_depths : tuple of (int or None)
        The number of each layer in its model; None for one that has none, such as a normed last state.
    left_names, right_names : tuple of str
        As the page calls them.
    """

    of: Map
    left: tuple[int, ...]
    right: tuple[int, ...]
    left_model: str
    right_model: str
    left_depths: tuple[int | None, ...] = field(repr=False)
    right_depths: tuple[int | None, ...] = field(repr=False)
    left_names: tuple[str, ...] = field(repr=False)
    right_names: tuple[str, ...] = field(repr=False)

    def cut(self, table: np.ndarray | None) -> np.ndarray:
        """The part of a table of the map; NaN throughout where there is none."""
        if table is None:
            return np.full((len(self.left), len(self.right)), np.nan)
        return np.asarray(table, dtype=np.float64)[np.ix_(self.left, self.right)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ends:
    """
    Bounds of some cells, and what they promise.

    Parameters
    ----------
    low, high : ndarray
        NaN where there is no interval.
    together : bool
        Whether they hold for all cells at once; else each for its cell alone.
    """

    low: np.ndarray
    high: np.ndarray
    together: bool


def bounds(similarity_map: Map, values: np.ndarray, low: np.ndarray, high: np.ndarray, count: int) -> Ends:
    """
    Widen intervals so that they hold for several cells at once, where their law is known.

    Parameters
    ----------
    similarity_map : Map
    values, low, high : ndarray of one shape
        Cells of the map, and the intervals of each alone.
    count : int
        How many cells a statement is chosen from.

    Returns
    -------
    Ends
        By Bonferroni's inequality and the normal law for intervals by influence functions. Others have a t
        law whose degrees of freedom no file tells: they stay as they are, and `together` says so.
    """
    if similarity_map.method != INFLUENCE or similarity_map.level is None or count < 1:
        return Ends(low=low, high=high, together=count == 1)
    law = NormalDist()
    wide, single = (law.inv_cdf(1 - (1 - similarity_map.level) / (2 * c)) for c in (count, 1))
    return Ends(
        low=values - (values - low) * wide / single,
        high=values + (high - values) * wide / single,
        together=True,
    )


def alike(window: MapWindow) -> list[Statement]:
    """
    Say which neighboring layers of one model are alike.

    Parameters
    ----------
    window : MapWindow
        Of a model with itself.

    Returns
    -------
    list of Statement
        Runs of three layers or more of which every two have a similarity of at least 0.9, longest first.
    """
    similarity_map, name = window.of, window.left_model
    places = [k for k, depth in enumerate(window.left_depths) if depth is not None]
    if len(places) < FEWEST or not _reaches_one(similarity_map) or _of_attention(similarity_map):
        return []
    depths = [int(window.left_depths[k] or 0) for k in places]
    values, low, high = (
        window.cut(t)[np.ix_(places, places)]
        for t in (similarity_map.values, similarity_map.low, similarity_map.high)
    )
    pairs = len(places) * (len(places) - 1) // 2 * (1 if _symmetric(values) else 2)
    ends = bounds(similarity_map, values, low, high, pairs)
    has_intervals = bool(np.isfinite(ends.low).any())
    tested = _worst_of_two(ends.low if has_intervals else values)
    if not np.isfinite(tested[~np.eye(len(places), dtype=bool)]).any():
        return []
    runs = _runs(tested, depths)
    if not runs:
        return [_none_alike(window, tested, depths, ends, has_intervals)]
    statements = []
    for start, stop in runs[:2]:
        least = _least(tested, start, stop)
        layers = f"{numbered(depths[start:stop], 'layer').capitalize()} of {name}"
        if has_intervals:
            text = (
                f"{layers} are alike: {similarity_map.title} at least {at_least(least)} between any two "
                f"{_how(ends, similarity_map, 'pair')}.{_beside(window)}"
            )
        else:
            text = (
                f"{layers} are alike in this sample: {similarity_map.title} is at least {at_least(least)} "
                f"between any two; no intervals were computed.{_beside(window)}"
            )
        names = tuple(window.left_names[places[k]] for k in range(start, stop))
        statements.append(Statement(text=text, sure=has_intervals, layers=names, headline=True))
    return statements


def _none_alike(
    window: MapWindow, tested: np.ndarray, depths: list[int], ends: Ends, has_intervals: bool
) -> Statement:
    similarity_map, name = window.of, window.left_model
    triples = [
        (_least(tested, k, k + FEWEST), k)
        for k in range(len(depths) - FEWEST + 1)
        if depths[k + FEWEST - 1] - depths[k] == FEWEST - 1
    ]
    defined = [pair for pair in triples if math.isfinite(pair[0])]
    verb = "is shown to be" if has_intervals else "is"
    enough = f"{similarity_map.title} {ALIKE:.2f} or more between any two"
    text = f"No run of {FEWEST} layers of {name} {verb} alike, at {enough}"
    if defined:
        least, k = max(defined, key=lambda pair: (pair[0], -pair[1]))
        text += f"; highest are {numbered(depths[k : k + FEWEST], 'layer')}, at least {at_least(least)}"
    how = _how(ends, similarity_map, "pair") if has_intervals else "in this sample"
    return Statement(text=f"{text} {how}.{_beside(window)}")


def _how(ends: Ends, similarity_map: Map, noun: str) -> str:
    what = f"all {noun}s at once" if ends.together else f"each {noun} alone"
    if similarity_map.target and similarity_map.target != POPULATION:
        what += f"; for the {similarity_map.target}"
    return doubt(similarity_map.level or 0.95, what, similarity_map.unit)


def _beside(window: MapWindow) -> str:
    """What unrelated rows would give, for measures that it is not 0 for."""
    null = window.cut(window.of.null_mean)
    finite = null[np.isfinite(null)]
    if not finite.size or np.abs(finite).max() < 0.005:
        return ""
    return f" Unrelated layers would give up to {at_most(float(finite.max()))}."


def _runs(tested: np.ndarray, depths: list[int]) -> list[tuple[int, int]]:
    """Runs of neighbors with every two at least ALIKE, longest first, none overlapping another."""
    candidates = []
    for start in range(len(depths)):
        for stop in range(start + FEWEST, len(depths) + 1):
            if depths[stop - 1] - depths[start] != stop - 1 - start:
                continue
            if _least(tested, start, stop) >= ALIKE:
                candidates.append((start, stop))
    runs: list[tuple[int, int]] = []
    for start, stop in sorted(candidates, key=lambda run: (run[0] - run[1], -_least(tested, *run))):
        if all(stop <= a or start >= b for a, b in runs):
            runs.append((start, stop))
    return runs


def _least(tested: np.ndarray, start: int, stop: int) -> float:
    """The smallest of all pairs of a run; NaN where one is undefined, so that nothing is claimed of it."""
    part = tested[start:stop, start:stop]
    return float(part[~np.eye(stop - start, dtype=bool)].min())


def _worst_of_two(table: np.ndarray) -> np.ndarray:
    return np.minimum(table, table.T)


def _symmetric(values: np.ndarray) -> bool:
    return bool(np.array_equal(values, values.T, equal_nan=True))


def _reaches_one(similarity_map: Map) -> bool:
    """Whether 1 is the largest value of the measure, so that nearness to it means alike."""
    choice = declared(similarity_map)
    return choice is not None and float(choice.declared("range")[1]) == 1.0


def _of_attention(similarity_map: Map) -> bool:
    """Whether attention was compared, which is far from 0 for any two models."""
    choice = declared(similarity_map)
    return choice is not None and choice.declared("needs") == "attention"


def block_claim(blocks: StackBlocks, name: str, layers: Sequence[str]) -> Statement:
    """
    State which layers of a model form blocks.

    Parameters
    ----------
    blocks : StackBlocks
    name : str
        What the model is called.
    layers : sequence of str
        Its layers as the page calls them.

    Returns
    -------
    Statement
    """
    finding = blocks.finding
    text = f"{name}: {finding.sentence(blocks.numbers)}"
    about = [k for block in finding.certain for k in (block.first, block.last)]
    named = tuple(blocks.names[k] for k in dict.fromkeys(about) if blocks.names[k] in layers)
    return Statement(text=text, sure=bool(finding.certain), layers=named, headline=True)


def changed(window: MapWindow, *, tuned: bool) -> tuple[list[Statement], ChangeProfile | None, Ends | None]:
    """
    Say which layer differs most between two models of one shape.

    Parameters
    ----------
    window : MapWindow
        The later model against the earlier one.
    tuned : bool
        Whether the one is known to be the other after fine-tuning.

    Returns
    -------
    statements : list of Statement
    profile : ChangeProfile or None
        1 - similarity of each layer with itself; None where the two have other layers.
    ends : Ends or None
        Bounds of these similarities, for all layers at once where that can be had.
    """
    similarity_map = window.of
    places = [k for k, depth in enumerate(window.left_depths) if depth is not None]
    right_places = [k for k, depth in enumerate(window.right_depths) if depth is not None]
    depths = [window.left_depths[k] for k in places]
    if (
        depths != [window.right_depths[k] for k in right_places]
        or len(depths) < 2
        or not _reaches_one(similarity_map)
    ):
        return [], None, None
    values, low, high = (
        window.cut(t)[places, right_places]
        for t in (similarity_map.values, similarity_map.low, similarity_map.high)
    )
    values = np.where(np.abs(values - 1) <= ROUNDING, 1.0, values)
    defined = np.isfinite(values)
    if not defined.any() or values[defined].max() > 1:
        return [], None, None
    profile = change_profile(values, positions=[float(depth or 0) for depth in depths])
    ends = bounds(similarity_map, values, low, high, int(defined.sum()))
    statements = [_changed_most(window, depths, places, values, ends, tuned)] if defined.sum() > 1 else []
    if profile.reason is None:
        first, last = (int(depths[k] or 0) for k in (np.flatnonzero(defined)[0], np.flatnonzero(defined)[-1]))
        statements.append(
            Statement(
                text=f"The center of this change, as measured in this sample, is at layer "
                f"{number(profile.center, 1)} (layers {first} to {last})."
            )
        )
    return statements, profile, ends


def _changed_most(
    window: MapWindow,
    depths: list[int | None],
    places: list[int],
    values: np.ndarray,
    ends: Ends,
    tuned: bool,
) -> Statement:
    similarity_map = window.of
    later, earlier = window.left_model, window.right_model
    at = int(np.nanargmin(values))
    remaining = [k for k in range(len(values)) if k != at and math.isfinite(values[k])]
    names = (window.left_names[places[at]],)
    about = f"fine-tuning changed most in {later}" if tuned else f"differs most between {later} and {earlier}"
    digits = _digits(float(values[at]), ends, at, remaining)
    value = f"{similarity_map.title} {number(float(values[at]), digits)}"
    beside = _beside(window)
    if (values[[at, *remaining]] == values[at]).all():
        text = f"No layer differs more between {later} and {earlier} than another: {value} at all of them."
        return Statement(text=text, layers=names, headline=True)
    if not (math.isfinite(ends.high[at]) and np.isfinite(ends.low[remaining]).all()):
        text = f"In this sample layer {depths[at]} is what {about}: {value}, without an interval.{beside}"
        return Statement(text=text, layers=names, headline=True)
    how = _how(ends, similarity_map, "layer")
    value += f" {between(float(ends.low[at]), float(ends.high[at]), digits)}"
    reach = [k for k in remaining if ends.low[k] <= ends.high[at]]
    if not reach:
        least = at_least(float(ends.low[remaining].min()), digits)
        text = (
            f"Layer {depths[at]} is what {about}: {value}, every other layer at least {least} {how}.{beside}"
        )
        return Statement(text=text, sure=True, layers=names, headline=True)
    near = numbered([int(depths[k] or 0) for k in reach], "layer")
    text = (
        f"Which layer {about} is not shown: layer {depths[at]} is lowest, {value}, and the intervals of "
        f"{near} reach as low {how}.{beside}"
    )
    return Statement(text=text, layers=names, headline=True)


def _digits(value: float, ends: Ends, at: int, remaining: Sequence[int]) -> int:
    """Decimals that show how far a value is from 1, and keep apart intervals that do not meet."""
    far = 1 - value
    digits = 3 if far <= 0 else min(6, max(3, 1 + math.ceil(-math.log10(far))))
    top, lows = float(ends.high[at]), ends.low[list(remaining)]
    if math.isfinite(top) and np.isfinite(lows).all() and lows.min() > top:
        while digits < 6 and float(at_most(top, digits)) >= float(at_least(float(lows.min()), digits)):
            digits += 1
    return digits


def undefined(window: MapWindow) -> list[Statement]:
    """Say which layers of a model have no similarity, and why."""
    values = window.cut(window.of.values)
    lost = [k for k in range(len(window.left)) if not np.isfinite(np.delete(values[k], k)).any()]
    if not lost or len(window.left) < 2:
        return []
    reasons = {window.of.reasons[window.left[k]][j] for k in lost for j in window.right}
    why = "; ".join(sorted(reason for reason in reasons if reason)) or "no reason is given"
    names = listed([window.left_names[k] for k in lost])
    return [Statement(text=f"Undefined in {window.of.title}: {names} ({why}).")]


def level_of(similarity_map: Map) -> str:
    """Say what the intervals of a map promise; empty where there are none."""
    if similarity_map.low is None or similarity_map.level is None:
        return ""
    how = f"{similarity_map.method} for the {similarity_map.target} (unit: {similarity_map.unit})"
    return f"{percent(similarity_map.level)} intervals by {how}"
