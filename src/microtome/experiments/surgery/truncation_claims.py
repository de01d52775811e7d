"""Findings of a truncation: how many layers can be removed, and whether training the head helps."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ...findings.intervals import bound_for_all, with_own_interval
from ...findings.results import Curve
from ...findings.words import at_most
from ...scores.declare import Score
from ..curve_claims import above_lines
from ..run_curves import MARGIN, loss_text, lost, within_margin


def said_cut(costs: Curve, score: Score, depth: int, each: np.ndarray | None = None) -> list[str]:
    """
    Say how many of the top layers can go.

    Parameters
    ----------
    costs : Curve
        Of `cut_costs`.
    score : Score
    depth : int
    each : ndarray of shape (seeds, layers), optional
        The scores of each seed, UNTUNED.

    Returns
    -------
    list of str
    """
    if depth == 1:
        return ["A model of one layer has no top layers to cut."]
    value, _, most = lost(costs, score)
    sign = score.points if score.higher_is_better else -score.points
    alone = np.empty((0, depth)) if each is None else sign * (each[:, -1:] - each)
    if not np.isfinite(value[:-1]).any():
        return ["Nothing can be said of a cut: no tuned model is sound."]
    safe = [place for place in within_margin(costs, score) if place < depth - 1]
    if safe:
        place = min(safe)
        return [
            f"The top {_layers(depth - 1 - place)} of {depth} can go at a cost of at most "
            f"{at_most(max(0.0, float(most[place])))} points of {score.name} ({costs.level * 100:g}% for all "
            "cuts at once), without training anything: it is "
            f"{loss_text(costs, place, score, alone[:, place].tolist())}."
        ]
    # Of cuts that cost the same, the one that takes least away.
    place = depth - 2 - int(np.nanargmin(value[:-1][::-1]))
    return [
        f"No cut is shown to cost at most {MARGIN:g} point. The cheapest one, without the top "
        f"{_layers(depth - 1 - place)} of {depth}, costs "
        f"{loss_text(costs, place, score, alone[:, place].tolist(), bound='most', family='all cuts')}."
    ]


def said_heads(
    curves: Mapping[str, Curve],
    score: Score,
    each: Mapping[str, np.ndarray] = MappingProxyType({}),
    lines: Mapping[str, float] = MappingProxyType({}),
) -> list[str]:
    """
    Say what training the head anew gains over the tuned head, and what fine-tuning gained over the encoder.

    Parameters
    ----------
    curves : mapping of str to Curve
        By the name of the arm, and "gain", the differences of `gain_of`.
    score : Score
    each : mapping of str to ndarray of shape (seeds, layers)
        The same of each seed alone.
    lines : mapping of str to float
        The majority baseline, where there is one: of an encoder none of whose layers is above it, none is
        called the best.

    Returns
    -------
    list of str
    """
    out = []
    sign = 1.0 if score.higher_is_better else -1.0

    def at(name: str, place: int) -> str:
        return _at(curves[name], place, score, each.get(name))

    tuned, gain = curves.get("tuned"), curves.get("gain")
    if tuned is not None and gain is not None and np.isfinite(gain.values).any():
        # Where a band is undefined nothing is shown; NaN compares as false.
        sure = (gain.band_low > 0) if sign > 0 else (gain.band_high < 0)
        among = np.where(sure, sign * gain.values, np.nan) if sure.any() else sign * gain.values
        place = int(np.nanargmax(among))
        told = (
            f"{score.name} {at('tuned', place)} instead of {at('untuned', place)}, a difference of "
            f"{at('gain', place)}"
        )
        if sure.any():
            end = score.points * float(min(sign * gain.band_low[place], sign * gain.band_high[place]))
            told += bound_for_all("least", end, "all layers")
        kept = f"with {_layers(place + 1)} kept"
        out.append(
            f"Training the head further helps at {int(sure.sum())} of {len(gain.x)} layers, most {kept}: "
            f"{told}."
            if sure.any()
            else "Training the head further is not shown to help at any layer. The difference is largest "
            f"{kept}: {told}."
        )
    for name, after in (("tunedorig", "tuned"), ("converged before", "converged")):
        before, later = curves.get(name), curves.get(after)
        if before is None or not np.isfinite(before.values).any():
            continue
        place = int(np.nanargmax(sign * before.values))
        if not above_lines(before, place, score, lines):
            out.append(
                f"Before fine-tuning nothing is read out ({before.name}): no layer is shown to beat the "
                f"majority baseline; the best, layer {before.x[place]}, has {score.name} {at(name, place)}."
            )
            continue
        text = (
            f"Before fine-tuning the best layer is {before.x[place]} ({before.name}): {score.name} "
            f"{at(name, place)}"
        )
        if later is not None and np.isfinite(later.values[place]):
            ahead = int(np.sum(_clear(later, before, sign)))
            text += (
                f"; {later.name} has {at(after, place)} there, and the bands do not overlap at {ahead} of "
                f"{len(before.x)} layers"
            )
        out.append(f"{text}.")
    return out


def _clear(one: Curve, other: Curve, sign: float) -> np.ndarray:
    """Where one band lies on the better side of another."""
    return one.band_low > other.band_high if sign > 0 else one.band_high < other.band_low


def _at(curve: Curve, place: int, score: Score, each: np.ndarray | None) -> str:
    """Say a score or a difference of scores with its own interval."""
    value, low, high = (score.points * float(line[place]) for line in (curve.values, curve.low, curve.high))
    return with_own_interval(
        value,
        low,
        high,
        level=curve.level,
        unit=curve.unit,
        seeds=curve.seeds[place],
        by_seed=[] if each is None else [score.points * float(row) for row in each[:, place]],
        points=score.points,
    )


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"
