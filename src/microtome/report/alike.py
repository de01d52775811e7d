"""What may be said of a map of layers? Which are alike, which form blocks, what changed most."""

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
from ..findings.words import at_least, at_most, between, number
from .sentences import Said, counted, doubt, listed, percent

# Layers are called alike from here on, where 1 is the largest value of the measure.
ALIKE = 0.9
FEWEST = 3  # layers of a run that is worth a sentence
# What fast arithmetic promises: a smaller difference from 1 is rounding, and no change.
ROUNDING = 1e-6
INFLUENCE = "influence function"
POPULATION = "population value"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
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


def bounds(one: Map, values: np.ndarray, low: np.ndarray, high: np.ndarray, count: int) -> Ends:
    """
    Widen intervals so that they hold for several cells at once, where their law is known.

    Parameters
    ----------
    one : Map
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
    if one.method != INFLUENCE or one.level is None or count < 1:
        return Ends(low=low, high=high, together=count == 1)
    law = NormalDist()
    wide, own = (law.inv_cdf(1 - (1 - one.level) / (2 * c)) for c in (count, 1))
    return Ends(
        low=values - (values - low) * wide / own, high=values + (high - values) * wide / own, together=True
    )


def alike(window: Window) -> list[Said]:
    """
    Say which neighboring layers of one model are alike.

    Parameters
    ----------
    window : Window
        Of a model with itself.

    Returns
    -------
    list of Said
        Runs of three layers or more of which every two have a similarity of at least 0.9, longest first.
    """
    one, name = window.of, window.left_model
    places = [k for k, depth in enumerate(window.left_depths) if depth is not None]
    if len(places) < FEWEST or not _reaches_one(one) or _of_attention(one):
        return []
    depths = [int(window.left_depths[k] or 0) for k in places]
    values, low, high = (window.cut(t)[np.ix_(places, places)] for t in (one.values, one.low, one.high))
    pairs = len(places) * (len(places) - 1) // 2 * (1 if _symmetric(values) else 2)
    ends = bounds(one, values, low, high, pairs)
    known = bool(np.isfinite(ends.low).any())
    tested = _worst_of_two(ends.low if known else values)
    if not np.isfinite(tested[~np.eye(len(places), dtype=bool)]).any():
        return []
    runs = _runs(tested, depths)
    if not runs:
        return [_none_alike(window, tested, depths, ends, known)]
    said = []
    for start, stop in runs[:2]:
        least = _least(tested, start, stop)
        layers = f"{counted(depths[start:stop], 'layer').capitalize()} of {name}"
        if known:
            text = (
                f"{layers} are alike: {one.title} at least {at_least(least)} between any two "
                f"{_how(ends, one, 'pair')}.{_beside(window)}"
            )
        else:
            text = (
                f"{layers} are alike in this sample: {one.title} is at least {at_least(least)} between any "
                f"two; how sure that is was not asked (no intervals).{_beside(window)}"
            )
        names = tuple(window.left_names[places[k]] for k in range(start, stop))
        said.append(Said(text=text, sure=known, layers=names, headline=True))
    return said


def _none_alike(window: Window, tested: np.ndarray, depths: list[int], ends: Ends, known: bool) -> Said:
    one, name = window.of, window.left_model
    triples = [
        (_least(tested, k, k + FEWEST), k)
        for k in range(len(depths) - FEWEST + 1)
        if depths[k + FEWEST - 1] - depths[k] == FEWEST - 1
    ]
    defined = [pair for pair in triples if math.isfinite(pair[0])]
    verb = "is shown to be" if known else "is"
    enough = f"{one.title} {ALIKE:.2f} or more between any two"
    text = f"No run of {FEWEST} layers of {name} {verb} alike, at {enough}"
    if defined:
        least, k = max(defined, key=lambda pair: (pair[0], -pair[1]))
        text += f"; highest are {counted(depths[k : k + FEWEST], 'layer')}, at least {at_least(least)}"
    how = _how(ends, one, "pair") if known else "in this sample"
    return Said(text=f"{text} {how}.{_beside(window)}")


def _how(ends: Ends, one: Map, noun: str) -> str:
    what = f"all {noun}s at once" if ends.together else f"each {noun} alone"
    if one.target and one.target != POPULATION:
        what += f"; for the {one.target}"
    return doubt(one.level or 0.95, what, one.unit)


def _beside(window: Window) -> str:
    """What unrelated rows would give, for measures that it is not 0 for."""
    null = window.cut(window.of.null_mean)
    known = null[np.isfinite(null)]
    if not known.size or np.abs(known).max() < 0.005:
        return ""
    return f" Unrelated layers would give up to {at_most(float(known.max()))}."


def _runs(tested: np.ndarray, depths: list[int]) -> list[tuple[int, int]]:
    """Runs of neighbors with every two at least ALIKE, longest first, none overlapping another."""
    found = []
    for start in range(len(depths)):
        for stop in range(start + FEWEST, len(depths) + 1):
            if depths[stop - 1] - depths[start] != stop - 1 - start:
                continue
            if _least(tested, start, stop) >= ALIKE:
                found.append((start, stop))
    kept: list[tuple[int, int]] = []
    for start, stop in sorted(found, key=lambda run: (run[0] - run[1], -_least(tested, *run))):
        if all(stop <= a or start >= b for a, b in kept):
            kept.append((start, stop))
    return kept


def _least(tested: np.ndarray, start: int, stop: int) -> float:
    """The smallest of all pairs of a run; NaN where one is undefined, so that nothing is claimed of it."""
    part = tested[start:stop, start:stop]
    return float(part[~np.eye(stop - start, dtype=bool)].min())


def _worst_of_two(table: np.ndarray) -> np.ndarray:
    return np.minimum(table, table.T)


def _symmetric(values: np.ndarray) -> bool:
    return bool(np.array_equal(values, values.T, equal_nan=True))


def _reaches_one(one: Map) -> bool:
    """Whether 1 is the largest value of the measure, so that nearness to it means alike."""
    choice = declared(one)
    return choice is not None and float(choice.declared("range")[1]) == 1.0


def _of_attention(one: Map) -> bool:
    """Whether attention was compared, which is far from 0 for any two models."""
    choice = declared(one)
    return choice is not None and choice.declared("needs") == "attention"


def block_claim(one: StackBlocks, name: str, layers: Sequence[str]) -> Said:
    """
    State which layers of a model form blocks.

    Parameters
    ----------
    one : StackBlocks
    name : str
        What the model is called.
    layers : sequence of str
        Its layers as the page calls them.

    Returns
    -------
    Said
    """
    finding = one.finding
    text = f"{name}: {finding.sentence(one.numbers)}"
    about = [k for block in finding.certain for k in (block.first, block.last)]
    named = tuple(one.names[k] for k in dict.fromkeys(about) if one.names[k] in layers)
    return Said(text=text, sure=bool(finding.certain), layers=named, headline=True)


def changed(window: Window, *, tuned: bool) -> tuple[list[Said], ChangeProfile | None, Ends | None]:
    """
    Say which layer differs most between two models of one shape.

    Parameters
    ----------
    window : Window
        The later model against the earlier one.
    tuned : bool
        Whether the one is known to be the other after fine-tuning.

    Returns
    -------
    said : list of Said
    profile : ChangeProfile or None
        1 - similarity of each layer with itself; None where the two have other layers.
    ends : Ends or None
        Bounds of these similarities, for all layers at once where that can be had.
    """
    one = window.of
    places = [k for k, depth in enumerate(window.left_depths) if depth is not None]
    others = [k for k, depth in enumerate(window.right_depths) if depth is not None]
    depths = [window.left_depths[k] for k in places]
    if depths != [window.right_depths[k] for k in others] or len(depths) < 2 or not _reaches_one(one):
        return [], None, None
    values, low, high = (window.cut(t)[places, others] for t in (one.values, one.low, one.high))
    values = np.where(np.abs(values - 1) <= ROUNDING, 1.0, values)
    defined = np.isfinite(values)
    if not defined.any() or values[defined].max() > 1:
        return [], None, None
    profile = change_profile(values, positions=[float(depth or 0) for depth in depths])
    ends = bounds(one, values, low, high, int(defined.sum()))
    said = [_changed_most(window, depths, places, values, ends, tuned)] if defined.sum() > 1 else []
    if profile.reason is None:
        first, last = (int(depths[k] or 0) for k in (np.flatnonzero(defined)[0], np.flatnonzero(defined)[-1]))
        said.append(
            Said(
                text=f"The center of this change, as measured in this sample, is at layer "
                f"{number(profile.center, 1)} (layers {first} to {last})."
            )
        )
    return said, profile, ends


def _changed_most(
    window: Window,
    depths: list[int | None],
    places: list[int],
    values: np.ndarray,
    ends: Ends,
    tuned: bool,
) -> Said:
    one = window.of
    later, earlier = window.left_model, window.right_model
    at = int(np.nanargmin(values))
    rest = [k for k in range(len(values)) if k != at and math.isfinite(values[k])]
    names = (window.left_names[places[at]],)
    about = f"fine-tuning changed most in {later}" if tuned else f"differs most between {later} and {earlier}"
    digits = _digits(float(values[at]), ends, at, rest)
    value = f"{one.title} {number(float(values[at]), digits)}"
    beside = _beside(window)
    if (values[[at, *rest]] == values[at]).all():
        text = f"No layer differs more between {later} and {earlier} than another: {value} at all of them."
        return Said(text=text, layers=names, headline=True)
    if not (math.isfinite(ends.high[at]) and np.isfinite(ends.low[rest]).all()):
        text = f"In this sample layer {depths[at]} is what {about}: {value}, without an interval.{beside}"
        return Said(text=text, layers=names, headline=True)
    how = _how(ends, one, "layer")
    value += f" {between(float(ends.low[at]), float(ends.high[at]), digits)}"
    reach = [k for k in rest if ends.low[k] <= ends.high[at]]
    if not reach:
        least = at_least(float(ends.low[rest].min()), digits)
        text = (
            f"Layer {depths[at]} is what {about}: {value}, every other layer at least {least} {how}.{beside}"
        )
        return Said(text=text, sure=True, layers=names, headline=True)
    near = counted([int(depths[k] or 0) for k in reach], "layer")
    text = (
        f"Which layer {about} is not shown: layer {depths[at]} is lowest, {value}, and the intervals of "
        f"{near} reach as low {how}.{beside}"
    )
    return Said(text=text, layers=names, headline=True)


def _digits(value: float, ends: Ends, at: int, rest: Sequence[int]) -> int:
    """Decimals that show how far a value is from 1, and keep apart intervals that do not meet."""
    far = 1 - value
    digits = 3 if far <= 0 else min(6, max(3, 1 + math.ceil(-math.log10(far))))
    top, others = float(ends.high[at]), ends.low[list(rest)]
    if math.isfinite(top) and np.isfinite(others).all() and others.min() > top:
        while digits < 6 and float(at_most(top, digits)) >= float(at_least(float(others.min()), digits)):
            digits += 1
    return digits


def undefined(window: Window) -> list[Said]:
    """Say which layers of a model have no similarity, and why."""
    values = window.cut(window.of.values)
    lost = [k for k in range(len(window.left)) if not np.isfinite(np.delete(values[k], k)).any()]
    if not lost or len(window.left) < 2:
        return []
    told = {window.of.reasons[window.left[k]][j] for k in lost for j in window.right}
    why = "; ".join(sorted(reason for reason in told if reason)) or "no reason is given"
    names = listed([window.left_names[k] for k in lost])
    return [Said(text=f"Undefined in {window.of.title}: {names} ({why}).")]


def level_of(one: Map) -> str:
    """Say what the intervals of a map promise; empty where there are none."""
    if one.low is None or one.level is None:
        return ""
    return f"{percent(one.level)} intervals by {one.method} for the {one.target} (unit: {one.unit})"
