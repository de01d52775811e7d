"""Statements on grids of fine-tunings: what an intervention costs at most, or where it costs least."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..findings.claims.claim import MARGIN
from ..findings.results import WEAK, Curve, Result
from ..findings.words import amount, at_most
from ..inference.baselines import Standing
from .lost import Losses, digits_of, losses_of
from .sentences import Statement


def weak_of(result: Result, name: str) -> Standing | None:
    """The standing of the model behind a curve, where it does not beat the majority baseline."""
    record = result.more.get(WEAK, {}).get(name)
    return None if record is None else Standing(score=result.score, beats=False, **record)


def _unconcluded(weak: Standing, result: Result, name: str) -> Statement:
    return Statement(text=weak.sentence(f"{name} on {result.task}"), headline=True)


def _frozen(curve: Curve, x: Any) -> str:
    return f"with the {curve.label} {x} {'block' if x == 1 else 'blocks'} frozen"


def _dropped(curve: Curve, x: Any) -> str:
    noun, arm = "block" if x == 1 else "blocks", curve.label
    if arm.startswith("random"):
        # A point of this curve is no single choice of blocks.
        return f"with {x} {noun} dropped ({arm}, mean of all draws)"
    return f"with {x} {noun} dropped ({arm})"


def _kept(curve: Curve, x: Any) -> str:
    return f"with {x} {'block' if x == 1 else 'blocks'} kept ({curve.label})"


def _anything(curve: Curve, x: Any) -> str:
    return f"at {curve.axis} {x} ({curve.label})"


# How a point of a curve is called by its axis, and whether larger numbers change a model more; None where
# points have no such order.
POINTS: dict[str, tuple[Callable[[Curve, Any], str], bool | None]] = {
    "blocks frozen": (_frozen, True),
    "blocks dropped": (_dropped, True),
    "blocks kept": (_kept, False),
}


def points(curve: Curve, result: Result, name: str) -> list[Statement]:
    """
    Say of a curve of differences how far one may go, or which point costs least.

    Parameters
    ----------
    curve : Curve
    result : Result
        Of freezing, re-initialization, permutation, dropping, or anything else with such curves.
    name : str
        What the model is called.

    Returns
    -------
    list of Statement
    """
    weak = weak_of(result, curve.name)
    if weak is not None:
        return [_unconcluded(weak, result, name)]
    call, larger = POINTS.get(curve.axis, (_anything, None))
    losses = losses_of(curve, result, "all points of the curve at once")
    unchanged = 0 if larger else max((x for x in curve.x if isinstance(x, int)), default=None)
    # The point where nothing was done differs from itself by nothing.
    places = [
        k
        for k, x in enumerate(curve.x)
        if math.isfinite(losses.value[k]) and not (larger is not None and x == unchanged)
    ]
    if not places:
        return []
    score, factor = result.score, result.points
    margin = amount("1", factor, score)
    if larger is None:
        return _least_and_most(curve, result, name, losses, places, call)
    safe = [k for k in places if losses.most[k] <= MARGIN]
    if safe:
        k = (max if larger else min)(safe, key=lambda place: float(curve.x[place]))
        most = amount(at_most(max(0.0, float(losses.most[k])), digits_of(factor)), factor, score)
        last = (max if larger else min)(places, key=lambda place: float(curve.x[place]))
        beyond = "" if k == last else f"; at no point beyond it is a loss of at most {margin} shown"
        text = f"{name} on {result.task}, {call(curve, curve.x[k])}: at most {most} are lost {losses.doubt}"
        return [Statement(text=f"{text}{beyond}.", sure=True, headline=True)]
    k = min(places, key=lambda place: losses.value[place])
    text = (
        f"{name} on {result.task}, {_arm_words(curve)}: a loss of at most {margin} is shown at no point; the "
        f"smallest, {call(curve, curve.x[k])}, is {losses.at(k, factor, score, bound='most')}."
    )
    return [Statement(text=text, headline=True)]


def _arm_words(curve: Curve) -> str:
    return f"{curve.label}, {curve.axis}"


def _least_and_most(
    curve: Curve,
    result: Result,
    name: str,
    losses: Losses,
    places: Sequence[int],
    call: Callable[[Curve, Any], str],
) -> list[Statement]:
    best, worst = (pick(places, key=lambda k: losses.value[k]) for pick in (min, max))
    score, factor = result.score, result.points
    start = f"{name} on {result.task}, {call(curve, curve.x[best])}"
    if len(places) == 1:
        return [Statement(text=f"{start}: {losses.at(best, factor, score)} lost.", headline=True)]
    clear = losses.clear(best, [k for k in places if k != best])
    tail = "" if clear else "; another point may lose less"
    text = f"{start}: least is lost, {losses.at(best, factor, score)}{tail}."
    statements = [Statement(text=text, sure=clear, headline=True)]
    if losses.value[worst] > losses.value[best]:
        text = (
            f"Most is lost in this sample {call(curve, curve.x[worst])}: {losses.at(worst, factor, score)}."
        )
        statements.append(Statement(text=text))
    return statements
