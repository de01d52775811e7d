"""Curves of heads at every layer, with bands, and the costs of cuts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..context import Context
from ..findings.results import Curve
from ..findings.scorecurves import Failed, difference_curve, paired_curve, score_curve
from ..findings.words import Unit
from ..inference.answers import Answers
from ..scores.table import find_score
from ..tasks.task import Split, Task
from ..training.cut_store import as_answers
from .layer_heads import Arm

AXIS = "layers kept"
# What heads gain over the tuned head as it is, by their arm.
GAINS: Mapping[str, str] = MappingProxyType({"tuned": "gain", "converged": "converged gain"})
_ENDS = ("values", "low", "high", "band_low", "band_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadAnswers:
    """
    Predictions of one kind of head at every layer, on one tuned model or several.

    Parameters
    ----------
    name : str
        Of the curve.
    split : Split
    arms : tuple of Arm
        One per tuned model.
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

    @property
    def runs(self) -> tuple[int | str, ...]:
        """Heads on each model."""
        return self.arms[0].runs

    def at(self, place: int, head: int = 0) -> Answers:
        """The predictions of one head of each tuned model at one layer."""
        return as_answers(self.split, [arm.answers[head][place] for arm in self.arms], self.seeds)

    def scores(self, task: Task) -> np.ndarray:
        """The score of every run, shape (tuned models, heads, layers); NaN where a head's training failed."""
        score, targets = find_score(task.main), [item.target for item in self.split]
        table = np.array(
            [
                [
                    [float(score.compute(answers, targets, task.labels)) for answers in by_layer]
                    for by_layer in arm.answers
                ]
                for arm in self.arms
            ]
        )
        for model, arm in enumerate(self.arms):
            for layer, run, _ in arm.failed:
                table[model, arm.runs.index(run), layer - 1] = np.nan
        return table

    def rows(self, task: Task) -> list[dict[str, Any]]:
        """One record per tuned model, head and layer."""
        return [
            {
                "arm": self.name,
                "layers_kept": layer,
                "seed": seed,
                "head_seed": run if isinstance(run, int) else None,
                "score": value if math.isfinite(value) else None,
            }
            for seed, table in zip(self.seeds, self.scores(task).tolist(), strict=True)
            for run, line in zip(self.runs, table, strict=True)
            for layer, value in zip(self.layers, line, strict=True)
        ]


def curve_of(heads: HeadAnswers, task: Task, context: Context) -> Curve:
    """
    Make the curve of one kind of head.

    Parameters
    ----------
    heads : HeadAnswers
    task : Task
    context : Context

    Returns
    -------
    Curve
        With several tuned models and several heads on each, the mean over head seeds of the curves over
        tuned models: heads of one model are not independent, and the mean of their intervals is no narrower
        than that of their mean.
    """

    def draw(points: list[Answers], _: list[Answers], failed: list[Failed]) -> Curve:
        shared: dict[str, Any] = {"axis": AXIS, "level": context.level, "failed": failed}
        return score_curve(heads.name, heads.layers, points, task.main, task.labels, **shared)

    return _over_heads(heads, heads, draw)


def gain_of(heads: HeadAnswers, untuned: HeadAnswers, task: Task, context: Context) -> Curve:
    """
    Compare heads with the tuned head at the same layer, on the same examples and models.

    Parameters
    ----------
    heads : HeadAnswers
    untuned : HeadAnswers
        Of the same tuned models.
    task : Task
    context : Context

    Returns
    -------
    Curve
        Of differences, score of the head minus that of the tuned head.
    """
    facts = {"label": heads.name, "arm": heads.name, "against": untuned.name, "axis": AXIS}
    scored: dict[str, Any] = {"score": task.main, "labels": task.labels, "level": context.level}

    def draw(points: list[Answers], references: list[Answers], failed: list[Failed]) -> Curve:
        options = {"name": f"difference {heads.name}", "failed": failed, **scored, **facts}
        return paired_curve(heads.layers, points, references, **options)

    return _over_heads(heads, untuned, draw)


def _over_heads(
    heads: HeadAnswers,
    untuned: HeadAnswers,
    draw: Callable[[list[Answers], list[Answers], list[Failed]], Curve],
) -> Curve:
    """
    Draw one curve of all heads on one model; of heads on several models the mean of a curve for each head.

    The function takes the predictions at every layer, those of the tuned head, and the runs that failed.
    """
    places, runs = range(len(heads.layers)), heads.runs
    if len(heads.arms) == 1 and len(runs) > 1:
        arm, tuned = heads.arms[0], untuned.arms[0].answers[0]
        points = [as_answers(heads.split, [a[place] for a in arm.answers], runs) for place in places]
        # Nothing is random in the tuned head, so it is the pair of every head.
        pairs = [as_answers(heads.split, [tuned[place]] * len(runs), runs) for place in places]
        curve = draw(points, pairs, list(arm.failed))
        return replace(curve, unit=Unit(curve.unit.of, "head seed")) if curve.unit.runs else curve
    pairs, curves = [untuned.at(place) for place in places], []
    for head, name in enumerate(runs):
        failed: list[Failed] = [
            (layer, seed, why)
            for seed, arm in zip(heads.seeds, heads.arms, strict=True)
            for layer, run, why in arm.failed
            if run == name
        ]
        curves.append(draw([heads.at(place, head) for place in places], pairs, failed))
    if len(curves) == 1:
        return curves[0]
    reasons = [
        dict.fromkeys(why for why in at_point if why)
        for at_point in zip(*(curve.reasons for curve in curves), strict=True)
    ]
    return replace(
        curves[0],
        **{name: _mean([getattr(curve, name) for curve in curves]) for name in _ENDS},
        seeds=tuple(map(sum, zip(*(curve.seeds for curve in curves), strict=True))),
        reasons=tuple("; ".join(at_point) or None for at_point in reasons),
        note=f"mean over {len(curves)} head seeds of curves over {len(heads.arms)} tuned models",
    )


def _mean(lines: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over lines, without what is undefined."""
    table = np.array(lines)
    defined = np.isfinite(table)
    total = np.where(defined, table, 0.0).sum(0)
    return np.where(defined.any(0), total / np.maximum(defined.sum(0), 1), np.nan)


def cut_costs(untuned: HeadAnswers, task: Task, context: Context) -> Curve:
    """
    Compare the model cut after each layer with the whole one.

    Parameters
    ----------
    untuned : HeadAnswers
    task : Task
    context : Context

    Returns
    -------
    Curve
        Of differences, score of the cut model minus that of the whole one, example by example.
    """
    points = [untuned.at(place) for place in range(len(untuned.layers))]
    shared: dict[str, Any] = {"axis": AXIS, "level": context.level, "arm": untuned.name}
    return difference_curve(
        "cut - whole", untuned.layers, points, points[-1], task.main, task.labels, **shared
    )


def by_seed(gathered: Mapping[str, HeadAnswers], task: Task) -> dict[str, np.ndarray]:
    """
    Score each seed pointwise.

    Parameters
    ----------
    gathered : mapping of str to HeadAnswers
        By the name of the arm.
    task : Task

    Returns
    -------
    dict of str to ndarray of shape (seeds, layers)
        One row per tuned model, the mean over its heads; one per head where there is one model with several.
        Under "gain" and "converged gain" what TUNED and its converged probe have more than UNTUNED.
    """
    tables = {name: heads.scores(task) for name, heads in gathered.items()}
    scores = {
        name: table[0] if len(table) == 1 else np.array([_mean(heads) for heads in table])
        for name, table in tables.items()
    }
    gains = {gain: scores[arm] - scores["untuned"] for arm, gain in GAINS.items() if arm in scores}
    return scores | gains


def warnings_of(heads: Iterable[HeadAnswers]) -> list[str]:
    """Which heads diverged, and which linear probes did not converge."""
    warnings = []
    for kind in heads:
        for arm in kind.arms:
            warnings += [
                f"{kind.name}, layer {layer}, head seed {run} was left out: {reason}."
                for layer, run, reason in arm.failed
            ]
            layers = [str(k) for k, done in enumerate(arm.details.get("converged", ()), start=1) if not done]
            if layers:
                warnings.append(f"{kind.name} did not converge at layer {', '.join(layers)}.")
    return warnings
