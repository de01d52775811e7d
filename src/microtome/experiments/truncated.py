"""What do the answers of every layer say together? Curves with bands, costs of a cut, and sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..findings.results import Curve
from ..findings.scorecurves import difference_curve, score_curve
from ..findings.words import number
from ..inference.answers import Answers
from ..tasks.items import Split
from ..tasks.scores import find_score
from ..tasks.scores_declare import Score
from ..tasks.task import Task
from .gathering import MARGIN, lost, said_loss, within_margin
from .headarms import Arm
from .models import as_answers

AXIS = "layers kept"
_ENDS = ("values", "low", "high", "band_low", "band_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """
    What one kind of head answered at every layer, on one tuned model or several.

    Parameters
    ----------
    name : str
        Of the curve.
    split : Split
    arms : tuple of Arm
        One a tuned model.
    seeds : tuple of int
        Of the tuned models.
    """

    name: str
    split: Split
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers that are kept at each point."""
        return tuple(range(1, len(self.arms[0].answers[0]) + 1))

    def rows(self, task: Task) -> list[dict[str, Any]]:
        """One record a layer, tuned model and head."""
        score, targets = find_score(task.main), [item.target for item in self.split]
        out = []
        for seed, arm in zip(self.seeds, self.arms, strict=True):
            for run, answers in zip(arm.runs, arm.answers, strict=True):
                bad = {layer for layer, failed, _ in arm.failed if failed == run}
                for layer, each in zip(self.layers, answers, strict=True):
                    value = float(score.compute(each, targets, task.labels)) if layer not in bad else math.nan
                    out.append(
                        {
                            "arm": self.name,
                            "layers_kept": layer,
                            "seed": seed,
                            "head_seed": run if isinstance(run, int) else None,
                            "score": value if math.isfinite(value) else None,
                        }
                    )
        return out


def curve_of(said: Said, task: Task, level: float) -> Curve:
    """
    Draw the curve of one kind of head.

    Parameters
    ----------
    said : Said
    task : Task
    level : float

    Returns
    -------
    Curve
        With several tuned models and several heads on each, the mean over head seeds of the curves over
        tuned models: heads of one model are not independent, and the mean of their intervals is no narrower
        than that of their mean.
    """
    if len(said.arms) == 1 and len(said.arms[0].runs) > 1:
        arm = said.arms[0]
        points = [
            as_answers(said.split, [a[place] for a in arm.answers], arm.runs) for place in _places(said)
        ]
        return _drawn(said, points, task, level, list(arm.failed))
    curves = [_over_models(said, head, task, level) for head in range(len(said.arms[0].runs))]
    if len(curves) == 1:
        return curves[0]
    first = curves[0]
    means = {name: _mean([getattr(one, name) for one in curves]) for name in _ENDS}
    reasons = [
        list(dict.fromkeys(r for r in each if r)) for each in zip(*(c.reasons for c in curves), strict=True)
    ]
    return replace(
        first,
        **means,
        seeds=tuple(sum(each) for each in zip(*(one.seeds for one in curves), strict=True)),
        reasons=tuple("; ".join(each) or None for each in reasons),
        note=f"mean over {len(curves)} head seeds of curves over {len(said.arms)} tuned models",
    )


def _places(said: Said) -> range:
    return range(len(said.layers))


def _mean(lines: list[np.ndarray]) -> np.ndarray:
    table = np.array(lines)
    there = np.isfinite(table)
    total = np.where(there, table, 0.0).sum(0)
    return np.where(there.any(0), total / np.maximum(there.sum(0), 1), np.nan)


def model_answers(said: Said, head: int, place: int) -> Answers:
    """What one head of each tuned model answered at one layer."""
    return as_answers(said.split, [arm.answers[head][place] for arm in said.arms], said.seeds)


def _over_models(said: Said, head: int, task: Task, level: float) -> Curve:
    points = [model_answers(said, head, place) for place in _places(said)]
    failed: list[tuple[int, int | str, str]] = [
        (x, seed, why)
        for seed, arm in zip(said.seeds, said.arms, strict=True)
        for x, run, why in arm.failed
        if run == arm.runs[head]
    ]
    return _drawn(said, points, task, level, failed)


def _drawn(said: Said, points: list[Answers], task: Task, level: float, failed: Any) -> Curve:
    return score_curve(
        said.name, said.layers, points, task.main, task.labels, axis=AXIS, level=level, failed=failed
    )


def cut_costs(untuned: Said, task: Task, level: float) -> Curve:
    """
    Compare the model cut after each layer with the whole one.

    Parameters
    ----------
    untuned : Said
    task : Task
    level : float

    Returns
    -------
    Curve
        Of differences, score of the cut model minus that of the whole one, example by example.
    """
    points = [model_answers(untuned, 0, place) for place in _places(untuned)]
    return difference_curve(
        "cut - whole",
        untuned.layers,
        points,
        points[-1],
        task.main,
        task.labels,
        axis=AXIS,
        level=level,
    )


def said_cut(costs: Curve, score: Score, depth: int) -> list[str]:
    """
    Say how many of the top layers can go.

    Parameters
    ----------
    costs : Curve
        Of `cut_costs`.
    score : Score
    depth : int

    Returns
    -------
    list of str
    """
    if depth == 1:
        return ["A model of one layer has no top layers to cut."]
    value, _, most = lost(costs, score)
    if not np.isfinite(value[:-1]).any():
        return ["Nothing can be said of a cut: no tuned model is sound."]
    safe = [place for place in within_margin(costs, score) if place < depth - 1]
    if safe:
        place = min(safe)
        return [
            f"The top {_layers(depth - 1 - place)} of {depth} can go at a cost of at most "
            f"{number(max(0.0, float(most[place])))} points of {score.name}, without training anything: "
            f"{said_loss(costs, place, score)}."
        ]
    place = int(np.nanargmin(value[:-1]))
    return [
        f"No cut is shown to cost at most {MARGIN:g} point. The cheapest one, without the top "
        f"{_layers(depth - 1 - place)} of {depth}, costs {said_loss(costs, place, score)}."
    ]


def said_heads(curves: Mapping[str, Curve], score: Score) -> list[str]:
    """
    Say what training the head anew gains over the tuned head, and what fine-tuning gained over the encoder.

    Parameters
    ----------
    curves : mapping of str to Curve
    score : Score

    Returns
    -------
    list of str
    """
    out = []
    sign = 1.0 if score.higher_is_better else -1.0
    untuned, tuned = curves["untuned"], curves.get("tuned")
    if tuned is not None:
        gain = sign * (tuned.values - untuned.values)
        if np.isfinite(gain).any():
            place = int(np.nanargmax(gain))
            out.append(
                f"Training the head further helps most with {_layers(place + 1)} kept: {score.name} "
                f"{_at(tuned, place, score)} instead of {_at(untuned, place, score)}."
            )
    for name, after in (("tunedorig", "tuned"), ("converged before", "converged")):
        before, later = curves.get(name), curves.get(after)
        if before is None or not np.isfinite(before.values).any():
            continue
        place = int(np.nanargmax(sign * before.values))
        text = (
            f"Before fine-tuning the best layer is {before.x[place]} ({before.name}): {score.name} "
            f"{_at(before, place, score)}"
        )
        if later is not None:
            ahead = int(np.sum(_clear(later, before, sign)))
            text += (
                f"; {later.name} has {_at(later, place, score)} there, and its band lies clear of the other "
                f"one at {ahead} of {len(before.x)} layers"
            )
        out.append(f"{text}.")
    return out


def _clear(one: Curve, other: Curve, sign: float) -> np.ndarray:
    """Where one band lies on the better side of another."""
    return one.band_low > other.band_high if sign > 0 else one.band_high < other.band_low


def _at(curve: Curve, place: int, score: Score) -> str:
    value, low, high = (score.points * float(getattr(curve, n)[place]) for n in ("values", "low", "high"))
    if not (math.isfinite(low) and math.isfinite(high)):
        return number(value)
    return f"{number(value)} [{number(low)}, {number(high)}]"


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"
