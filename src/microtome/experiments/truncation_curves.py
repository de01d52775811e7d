"""Curves of a truncation with bands, and costs of a cut."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..findings.intervals import Unit
from ..findings.results import Curve
from ..findings.scorecurves import difference_curve, score_curve
from ..inference.answers import Answers
from ..scores.table import find_score
from ..tasks.items import Split
from ..tasks.task import Task
from ..training.cut_store import as_answers
from .layer_heads import Arm

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

    def scores(self, task: Task) -> np.ndarray:
        """The score of every run, shape (tuned models, heads, layers); NaN where a head's training failed."""
        score, targets = find_score(task.main), [item.target for item in self.split]
        found = [
            [
                [float(score.compute(each, targets, task.labels)) for each in answers]
                for answers in arm.answers
            ]
            for arm in self.arms
        ]
        table = np.array(found, dtype=np.float64)
        for model, arm in enumerate(self.arms):
            for layer, run, _ in arm.failed:
                table[model, arm.runs.index(run), layer - 1] = np.nan
        return table

    def rows(self, task: Task) -> list[dict[str, Any]]:
        """One record a layer, tuned model and head."""
        out = []
        for seed, arm, heads in zip(self.seeds, self.arms, self.scores(task), strict=True):
            for run, line in zip(arm.runs, heads.tolist(), strict=True):
                for layer, value in zip(self.layers, line, strict=True):
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
        own, so the band is made of intervals with Bonferroni's correction for the number of layers. Seeds
        count with as many degrees of freedom as there are, also at a layer where they agree by luck.
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
                    label=said.name,
                    arm=said.name,
                    against=untuned.name,
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
            unit=max((one.unit for one in alone), key=lambda unit: bool(unit.runs)),
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
        return replace(first, unit=Unit(first.unit.of, "head seed")) if drawn and first.unit.runs else first
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


def costs_of(costs: Curve) -> dict[str, Any]:
    """What a result keeps of the costs of cuts."""
    return {name: getattr(costs, name) for name in ("x", "values", "low", "high", "band_low", "band_high")}


def by_seed(gathered: Mapping[str, Said], task: Task) -> dict[str, np.ndarray]:
    """
    Score each seed alone.

    Parameters
    ----------
    gathered : mapping of str to Said
        By the name of the arm.
    task : Task

    Returns
    -------
    dict of str to ndarray of shape (seeds, layers)
        One row a tuned model, the mean over its heads; one a head where there is one model with several.
        Under "gain" what TUNED has more than UNTUNED, where both are there.
    """
    tables = {name: one.scores(task) for name, one in gathered.items()}
    found = {
        name: table[0] if len(table) == 1 else np.array([_mean(list(heads)) for heads in table])
        for name, table in tables.items()
    }
    if "tuned" in found:
        found["gain"] = found["tuned"] - found["untuned"]
    return found
