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
Failed = tuple[int, int | str, str]
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

    def draw(points: list[Answers], failed: list[Failed], _: list[Answers]) -> Curve:
        return score_curve(
            said.name, said.layers, points, task.main, task.labels, axis=AXIS, level=level, failed=failed
        )

    return _averaged(said, [draw(*each) for each in _groups(said, said)])


def gain_of(said: Said, untuned: Said, task: Task, level: float) -> Curve:
    """
    Compare heads with the tuned head at the same layer, on the same examples and models.

    Parameters
    ----------
    said : Said
    untuned : Said
        Of the same tuned models.
    task : Task
    level : float

    Returns
    -------
    Curve
        Of differences, score of the head minus that of the tuned head. Every layer has a reference of its
        own, so the band is made of intervals with Bonferroni's correction for the number of layers.
    """
    every = 1 - (1 - level) / len(said.layers)

    def draw(points: list[Answers], failed: list[Failed], references: list[Answers]) -> Curve:
        alone, banded = (
            [
                difference_curve(
                    f"difference {said.name}",
                    [layer],
                    [point],
                    reference,
                    task.main,
                    task.labels,
                    axis=AXIS,
                    level=wide,
                    failed=[one for one in failed if one[0] == layer],
                )
                for layer, point, reference in zip(said.layers, points, references, strict=True)
            ]
            for wide in (level, every)
        )
        ends = {name: np.concatenate([getattr(one, name) for one in alone]) for name in _ENDS[:3]}
        return replace(
            alone[0],
            x=said.layers,
            **ends,
            band_low=np.concatenate([one.low for one in banded]),
            band_high=np.concatenate([one.high for one in banded]),
            unit=max((one.unit for one in alone), key=len),
            n=max(one.n for one in alone),
            seeds=tuple(one.seeds[0] for one in alone),
            reasons=tuple(one.reasons[0] for one in alone),
        )

    return _averaged(said, [draw(*each) for each in _groups(said, untuned)])


def _groups(said: Said, untuned: Said) -> list[tuple[list[Answers], list[Failed], list[Answers]]]:
    """Answers of each layer with runs as seeds, which runs failed, and what the tuned head answered."""
    if len(said.arms) == 1 and len(said.arms[0].runs) > 1:
        arm, other = said.arms[0], untuned.arms[0].answers[0]
        runs = arm.runs
        points = [as_answers(said.split, [a[place] for a in arm.answers], runs) for place in _places(said)]
        # Nothing is drawn in the tuned head, so it is the pair of every head.
        pairs = [as_answers(said.split, [other[place]] * len(runs), runs) for place in _places(said)]
        return [(points, list(arm.failed), pairs)]
    pairs = [model_answers(untuned, 0, place) for place in _places(said)]
    return [
        (
            [model_answers(said, head, place) for place in _places(said)],
            [
                (x, seed, why)
                for seed, arm in zip(said.seeds, said.arms, strict=True)
                for x, run, why in arm.failed
                if run == arm.runs[head]
            ],
            pairs,
        )
        for head in range(len(said.arms[0].runs))
    ]


def _averaged(said: Said, curves: list[Curve]) -> Curve:
    first = curves[0]
    if len(curves) == 1:
        drawn = len(said.arms) == 1 and len(said.arms[0].runs) > 1
        return replace(first, unit=first.unit.replace(" and seed", " and head seed")) if drawn else first
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
    # Of cuts that cost the same, the one that takes least away.
    place = depth - 2 - int(np.nanargmin(value[:-1][::-1]))
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
        By the name of the arm, and "gain", the differences of `gain_of`.
    score : Score

    Returns
    -------
    list of str
    """
    out = []
    sign = 1.0 if score.higher_is_better else -1.0
    untuned, tuned, gain = curves["untuned"], curves.get("tuned"), curves.get("gain")
    if tuned is not None and gain is not None and np.isfinite(gain.values).any():
        # Where a band is undefined nothing is shown; NaN compares as false.
        sure = (gain.band_low > 0) if sign > 0 else (gain.band_high < 0)
        among = np.where(sure, sign * gain.values, np.nan) if sure.any() else sign * gain.values
        place = int(np.nanargmax(among))
        told = (
            f"{score.name} {_at(tuned, place, score)} instead of {_at(untuned, place, score)}, a difference "
            f"of {_at(gain, place, score, band=True)}, {gain.level * 100:g}% for all layers at once"
        )
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
        text = (
            f"Before fine-tuning the best layer is {before.x[place]} ({before.name}): {score.name} "
            f"{_at(before, place, score)}"
        )
        if later is not None and np.isfinite(later.values[place]):
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


def _at(curve: Curve, place: int, score: Score, *, band: bool = False) -> str:
    names = ("values", "band_low", "band_high") if band else ("values", "low", "high")
    value, low, high = (score.points * float(getattr(curve, name)[place]) for name in names)
    if not (math.isfinite(low) and math.isfinite(high)):
        return number(value)
    return f"{number(value)} [{number(low)}, {number(high)}]"


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"
