"""Statements on surgery: what a cut costs at most, and which block can be skipped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..figures.curves import label_of
from ..findings.results import WEAK, Curve, Result, SpanMap
from ..findings.words import at_most
from ..inference.baselines import Standing
from .lost import Losses, as_losses, digits_of, losses_of, seed_losses
from .sentences import MARGIN, Statement, amount, counted

UNTUNED = "UNTUNED"
# The line of the majority baseline, by its names in older and in newer results.
BASELINES = ("most frequent answer", "majority baseline")


def cuts(result: Result, name: str) -> list[Statement]:
    """
    Say how many of the top layers of a tuned model can go.

    Parameters
    ----------
    result : Result
        Of truncation.
    name : str
        What the model is called.

    Returns
    -------
    list of Statement
    """
    untuned = next((curve for curve in result.curves if curve.name == UNTUNED), None)
    cost = result.more.get("cost")
    if untuned is None or not cost or "values" not in cost:
        return []
    x = [int(kept_layers) for kept_layers in cost["x"]]
    depth = int(result.more.get("depth", max(x)))
    if depth < 2:
        return [Statement(text=f"{name} has one layer on {result.task}: there is no top to cut.")]
    weak = _weak_cuts(result, untuned)
    if weak is not None:
        return [_unconcluded(weak, result, name)]
    losses = _cut_losses(cost, untuned, result)
    places = [k for k, kept_layers in enumerate(x) if kept_layers < depth and math.isfinite(losses.value[k])]
    if not places:
        return [
            Statement(text=f"Nothing can be said of cuts of {name} on {result.task}: no score is defined.")
        ]
    points, score = result.points, result.score
    safe = [k for k in places if losses.most[k] <= MARGIN]
    if safe:
        k = min(safe, key=lambda place: x[place])
        most = amount(at_most(max(0.0, float(losses.most[k])), digits_of(points)), points, score)
        return [
            Statement(
                text=f"The top {depth - x[k]} of {depth} layers of {name} can go at a cost of at most {most} "
                f"on {result.task}, with its head as it is {losses.doubt}.",
                sure=True,
                headline=True,
            )
        ]
    # Of cuts that cost the same, the one that takes least away.
    k = min(places, key=lambda place: (losses.value[place], -x[place]))
    return [
        Statement(
            text=f"No cut of {name} is shown to cost at most {amount('1', points, score)} on {result.task}; "
            f"the cheapest, without the top {depth - x[k]} of {depth} layers, costs "
            f"{losses.at(k, points, score, bound='most')}.",
            headline=True,
        )
    ]


def weak_of(result: Result, name: str, value: float = math.nan, end: float | None = None) -> Standing | None:
    """
    Find that the model behind a curve or a span map does not beat the majority baseline.

    Parameters
    ----------
    result : Result
    name : str
        Of the curve or span map.
    value, end : float, optional
        The score of the model, and the worse end of its interval: older results do not keep whether it beats
        the baseline.

    Returns
    -------
    Standing or None
        None where it does, and where that is not known.
    """
    record = result.more.get(WEAK, {}).get(name)
    if record is not None:
        return Standing(
            score=result.score,
            value=float(record["value"]),
            baseline=float(record["baseline"]),
            beats=False,
            ahead=bool(record["ahead"]),
        )
    guess = next((result.lines[line] for line in BASELINES if line in result.lines), math.nan)
    sign = 1.0 if result.higher_is_better else -1.0
    gap = sign * ((value if end is None or not math.isfinite(end) else end) - guess)
    if not math.isfinite(gap) or gap > 0:
        return None
    ahead = sign * (value - guess) > 0
    return Standing(score=result.score, value=value, baseline=guess, beats=False, ahead=ahead)


def _weak_cuts(result: Result, untuned: Curve) -> Standing | None:
    end = float((untuned.low if result.higher_is_better else untuned.high)[-1])
    # Results without a record are judged by the interval over examples, never by the one over seeds.
    has_record = WEAK in result.more or untuned.seeds[-1] > 1
    return weak_of(result, UNTUNED, float(untuned.values[-1]), None if has_record else end)


def _unconcluded(weak: Standing, result: Result, name: str) -> Statement:
    return Statement(text=weak.sentence(f"{name} on {result.task}"), headline=True)


def _cut_losses(cost: Any, untuned: Curve, result: Result) -> Losses:
    """What `truncation` keeps of its costs: differences of the cut model and the whole one."""
    size = len(cost["x"])

    def line(key: str) -> np.ndarray:
        values = cost.get(key)
        return np.full(size, np.nan) if values is None else np.array(values, dtype=np.float64)

    names = ("values", "low", "high", "band_low", "band_high")
    return Losses(
        **as_losses(result, {name: line(name) for name in names}),
        level=untuned.level,
        unit=untuned.unit,
        what="all cuts at once",
        seeds=min((count for count in untuned.seeds if count), default=1),
        by_seed=seed_losses(cost, size, -result.points if result.higher_is_better else result.points),
    )


def heads(result: Result, name: str) -> list[Statement]:
    """
    Say whether training the head further helps at some layer of a truncated model.

    Parameters
    ----------
    result : Result
        Of truncation.
    name : str

    Returns
    -------
    list of Statement
    """
    gain = next((curve for curve in result.curves if curve.name == "difference TUNED"), None)
    untuned = next((curve for curve in result.curves if curve.name == UNTUNED), None)
    if gain is None or not np.isfinite(gain.values).any():
        return []
    # That nothing is concluded stands with the scores.
    if untuned is not None and _weak_cuts(result, untuned) is not None:
        return []
    # What the head gains is what is lost without.
    gains = losses_of(gain, result, "all layers at once")
    sign = result.points if result.higher_is_better else -result.points
    by_seed = seed_losses(result.more.get("gain") or {}, len(gain.x), sign)
    gains = replace(
        gains,
        value=-gains.value,
        low=-gains.high,
        high=-gains.low,
        least=-gains.most,
        most=-gains.least,
        by_seed=by_seed,
    )
    sure = [k for k in range(len(gain.x)) if gains.least[k] > 0]
    among = sure or [k for k in range(len(gain.x)) if math.isfinite(gains.value[k])]
    k = max(among, key=lambda place: gains.value[place])
    largest = gains.at(k, result.points, result.score, bound="least")
    largest_gain = f"with {gain.x[k]} of {len(gain.x)} layers kept, is {largest}"
    about = f"training the head of {name} further on {result.task} gains something is shown at"
    if sure:
        text = (
            f"That {about} {len(sure)} of {len(gain.x)} layers; the largest of these gains, {largest_gain}."
        )
        return [Statement(text=text, sure=True)]
    return [Statement(text=f"That {about} no layer; the largest gain measured, {largest_gain}.")]


def spans(span_map: SpanMap, result: Result, name: str) -> list[Statement]:
    """
    Say which block can be spared most easily, and how long a span may be left out.

    Parameters
    ----------
    span_map : SpanMap
    result : Result
        That it is part of.
    name : str
        What the model is called.

    Returns
    -------
    list of Statement
    """
    weak = weak_of(result, span_map.name, span_map.full)
    if weak is not None:
        return [_unconcluded(weak, result, name)]
    sides = (span_map.values, span_map.low, span_map.high, span_map.band_low, span_map.band_high)
    value, low, high, least, most = (result.points * side for side in sides)
    what, points, score = "all spans at once", result.points, result.score
    # With several seeds there is a map for each, too.
    seeds = [seed_map for seed_map in result.spans if seed_map.name.startswith(f"{span_map.name}, seed ")]

    def losses(places: Sequence[tuple[int, int]]) -> Losses:
        cells = [np.array([float(side[at]) for at in places]) for side in (value, low, high, least, most)]
        by_seed = [[points * float(seed_map.values[at]) for at in places] for seed_map in seeds]
        return Losses(
            value=cells[0],
            low=cells[1],
            high=cells[2],
            least=cells[3],
            most=cells[4],
            level=span_map.level,
            unit=span_map.unit,
            what=what,
            seeds=span_map.seeds,
            by_seed=np.array(by_seed) if by_seed else None,
        )

    singles = [(k, k) for k in range(span_map.depth) if math.isfinite(value[k, k])]
    statements = []
    if singles:
        single_losses = losses(singles)
        best = int(np.argmin(single_losses.value))
        block, loss = singles[best][0] + 1, single_losses.at(best, points, score)
        remaining = [k for k in range(len(singles)) if k != best]
        if not remaining:
            text = f"Skipping block {block} alone costs {name} {loss} on {result.task}."
            statements.append(Statement(text=text, headline=True))
        else:
            clear = single_losses.clear(best, remaining)
            tail = "" if clear else "; another block may cost less"
            text = f"Skipping block {block} alone costs {name} least on {result.task}, {loss}{tail}."
            statements.append(Statement(text=text, sure=clear, headline=True))
            worst = int(np.argmax(single_losses.value))
            if single_losses.value[worst] > single_losses.value[best]:
                text = f"Skipping block {singles[worst][0] + 1} alone costs most in this sample, "
                statements.append(Statement(text=f"{text}{single_losses.at(worst, points, score)}."))
    margin = amount("1", points, score)
    safe_spans = [
        (i, j) for i in range(span_map.depth) for j in range(i, span_map.depth) if most[i, j] <= MARGIN
    ]
    if safe_spans:
        at = max(safe_spans, key=lambda span: (span[1] - span[0], -most[span]))
        blocks = counted(range(at[0] + 1, at[1] + 2), "block")
        end = at_most(max(0.0, float(most[at])), digits_of(points))
        text = (
            f"The longest span of {name} that is shown to cost at most {margin} on {result.task} is "
            f"{blocks} of {span_map.depth}: at most {end} {losses([at]).doubt}."
        )
        statements.append(Statement(text=text, sure=True, headline=True))
    elif singles:
        text = f"No span of blocks of {name} is shown to cost at most {margin} on {result.task}"
        statements.append(Statement(text=f"{text} {losses(singles).doubt}."))
    return statements


def _frozen(curve: Curve, x: Any) -> str:
    return f"with the {label_of(curve)} {x} {'block' if x == 1 else 'blocks'} frozen"


def _dropped(curve: Curve, x: Any) -> str:
    noun, arm = "block" if x == 1 else "blocks", label_of(curve)
    if arm.startswith("random"):
        # A point of this curve is no single choice of blocks.
        return f"with {x} {noun} dropped ({arm}, mean of all draws)"
    return f"with {x} {noun} dropped ({arm})"


def _kept(curve: Curve, x: Any) -> str:
    return f"with {x} {'block' if x == 1 else 'blocks'} kept ({label_of(curve)})"


def _anything(curve: Curve, x: Any) -> str:
    return f"at {curve.axis} {x} ({label_of(curve)})"


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
    return f"{label_of(curve)}, {curve.axis}"


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
