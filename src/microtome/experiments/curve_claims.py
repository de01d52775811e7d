"""Findings from curves over layers: the best layer, and how two curves differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..findings.intervals import with_own_interval
from ..findings.results import Curve
from ..findings.words import layer_list, number
from ..scores.declare import Score


def differences_from(curves: Sequence[Curve], model: str) -> list[Curve]:
    """Select the differences of other models from one."""
    return [curve for curve in curves if curve.role == "difference" and curve.against == model]


def best_place(curve: Curve, score: Score) -> int | None:
    """Where a curve is best, whichever way the score runs; None where it has no value."""
    if np.isnan(curve.values).all():
        return None
    return int(np.nanargmax(curve.values if score.higher_is_better else -curve.values))


def above_lines(curve: Curve, place: int, score: Score, lines: Mapping[str, float]) -> bool:
    """Whether the band at a place is better than all that can be had without any layer."""
    known = [value for value in lines.values() if math.isfinite(value)]
    if score.higher_is_better:
        return all(curve.band_low[place] > value for value in known)
    return all(curve.band_high[place] < value for value in known)


def said_nothing(curve: Curve, place: int, score: Score, what: str, lines: Mapping[str, float]) -> str:
    """
    Say that nothing is read out, as a sentence without its end.

    Parameters
    ----------
    curve : Curve
    place : int
        Of `best_place`.
    score : Score
    what : str
        That was looked for.
    lines : mapping of str to float
        What can be had without any layer.

    Returns
    -------
    str
    """
    known = {name: value for name, value in lines.items() if math.isfinite(value)}
    name = (max if score.higher_is_better else min)(known, key=lambda each: known[each])
    better = "above" if score.higher_is_better else "below"
    return (
        f"{curve.name}: nothing of {what} is read out, since no layer is shown to be {better} what needs no "
        f"layer ({name}: {number(known[name], 3)}); the best, layer {curve.x[place]}, has {score.name} "
        f"{_at(curve, place, 1.0, 3)}"
    )


def said_best(curve: Curve, place: int, score: Score, what: str, where: str | None = None) -> str:
    """
    Say where something is read best, as a sentence without its end.

    Parameters
    ----------
    curve : Curve
    place : int
        Of `best_place`.
    score : Score
    what : str
        That is read.
    where : str, optional
        In words; "best at layer L", or at several alike, when absent.

    Returns
    -------
    str
    """
    if where is None:
        alike = np.flatnonzero(curve.values == curve.values[place])
        where = f"best at {_layers(curve, alike)}{' alike' if len(alike) > 1 else ''}"
    return f"{curve.name}: {what} is read {where}, {score.name} {_at(curve, place, 1.0, 3)}"


def said_difference(curve: Curve, score: Score) -> str:
    """
    Say at which layers more is read or less, at which nothing is shown, and where nothing can be.

    Parameters
    ----------
    curve : Curve
        Of differences.
    score : Score

    Returns
    -------
    str
    """
    head = f"{curve.model} against {curve.against}:"
    if len(curve.x) == 1:
        return f"{head} {said_points(curve, 0, score)}{doubt(curve, 0)}."
    down, up = (np.flatnonzero(side) for side in (curve.band_high < 0, curve.band_low > 0))
    if not score.higher_is_better:
        down, up = up, down
    known = [place for place in range(len(curve.x)) if has_interval(curve, place)]
    without = [place for place in range(len(curve.x)) if place not in known]
    parts = []
    for places, way in ((down, "less"), (up, "more")):
        if len(places):
            most = _largest(curve, places)
            parts.append(
                f"{way} is read at {_layers(curve, places)} by the {_band(curve)}, most so at layer "
                f"{curve.x[most]}: "
                f"{said_points(curve, most, score)}"
            )
    if not known:
        parts.append(
            f"there is no interval at any layer{_why(curve, without)}, so that no difference can be shown"
        )
        if np.isfinite(curve.values).any():
            parts.append(_said_largest(curve, without, score))
    elif not parts:
        where = _layers(curve, known) if without else "any layer"
        parts += [
            f"no difference is shown at {where} by the {_band(curve)}",
            _said_largest(curve, known, score),
        ]
    if known and without:
        it = "it is" if len(without) == 1 else "the largest is"
        most = _largest(curve, without)
        at = "" if len(without) == 1 else f" at layer {curve.x[most]}"
        parts.append(
            f"there is no interval at {_layers(curve, without)}{_why(curve, without)}, where {it} "
            f"{said_points(curve, most, score)}{at}"
        )
    return f"{head} {'; '.join(parts)}."


def said_points(curve: Curve, place: int, score: Score) -> str:
    """Say the difference at one place, in points of 100 where the score has them."""
    whole = score.points == 100
    return _at(curve, place, score.points, 1 if whole else 3, "points" if whole else "")


def has_interval(curve: Curve, place: int) -> bool:
    """Whether anything tells how far the value at a place may be off."""
    return not (np.isnan(curve.band_low[place]) or np.isnan(curve.band_high[place]))


def doubt(curve: Curve, place: int) -> str:
    """What must be said behind a difference that is not shown: that it is not sure, or has no interval."""
    if not has_interval(curve, place):
        return without_interval(curve, place)
    sure = curve.band_low[place] > 0 or curve.band_high[place] < 0
    return "" if sure else f", not significant by the {_band(curve)}"


def without_interval(curve: Curve, place: int) -> str:
    """What must be said behind a value that has no interval, with the reason; nothing behind others."""
    if has_interval(curve, place):
        return ""
    return f", for which there is no interval{_why(curve, [place])}"


def reasons_at(curve: Curve, places: Iterable[int]) -> str:
    """Reasons of some places, each once."""
    return "; ".join(dict.fromkeys(why for place in places if (why := curve.reasons[place])))


def said_lines(lines: Mapping[str, float]) -> tuple[str, ...]:
    """Say what can be had without any layer."""
    told = [f"{name} {number(value, 3)}" for name, value in lines.items() if math.isfinite(value)]
    return (f"Without any layer: {', '.join(told)}.",) if told else ()


def _said_largest(curve: Curve, places: Iterable[int], score: Score) -> str:
    most = _largest(curve, places)
    return f"the largest is {said_points(curve, most, score)} at layer {curve.x[most]}"


def _largest(curve: Curve, places: Iterable[int]) -> int:
    """Where a difference is largest, either way; what is undefined comes last."""
    return int(max(places, key=lambda place: np.nan_to_num(abs(curve.values[place]), nan=-1.0)))


def _layers(curve: Curve, places: Iterable[int]) -> str:
    return layer_list(int(curve.x[place]) for place in places)


def _why(curve: Curve, places: Iterable[int]) -> str:
    told = reasons_at(curve, places)
    return f" ({told})" if told else ""


def _at(curve: Curve, place: int, scale: float, digits: int, unit: str = "") -> str:
    value, low, high = (scale * float(line[place]) for line in (curve.values, curve.low, curve.high))
    return with_own_interval(
        value,
        low,
        high,
        level=curve.level,
        unit=curve.unit,
        noun=unit,
        digits=digits,
        seeds=curve.seeds[place],
        points=scale,
    )


def _band(curve: Curve) -> str:
    """What decides at which layers something is shown."""
    return f"{curve.level * 100:g}% {'interval' if len(curve.x) == 1 else 'band of all layers'}"
