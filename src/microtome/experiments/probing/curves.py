"""Curves of probing: scores over layers, and differences of models, layers and control tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...findings.results import Curve
from ...findings.scorecurves import difference_curve, score_curve
from ...inference.answers import Answers
from ...inference.pairing import compare_scores
from ...probes.dataset import Asked, Probed
from ...probes.table import Probe
from ...scores.declare import Score
from .control import beside_draws, rightness
from .facts import CONTROL
from .inputs import RANDOM_BASELINE

AXIS = "layer"
NO_SPREAD = "every group of examples has the same outcome"
SELECTIVITY = "difference, selectivity"


def probe_curves(
    probed: Mapping[str, Probed],
    controls: Mapping[str, Probed],
    names: Sequence[str],
    *,
    level: float,
    draws: int,
) -> list[Curve]:
    """
    Make the curves of one kind of input: scores, then differences.

    Parameters
    ----------
    probed, controls : mapping of str to Probed
        By curve: of the target, and of its control tasks.
    names : sequence of str
        Curves of the models, without the random baseline.
    level : float
    draws : int
        Draws of the control task.

    Returns
    -------
    list of Curve
    """
    first = probed[names[0]]
    shared: dict[str, Any] = {"axis": AXIS, "level": level}
    curves = []
    for name, result in probed.items():
        curves.append(score_curve(name, result.x, result.answers, result.score, result.labels, **shared))
    for name, result in controls.items():
        label = f"{CONTROL}, {name}"
        curves.append(score_curve(label, result.x, result.answers, result.score, result.labels, **shared))
    for name in names:
        result = probed[name]
        if result.x[0] != 0:
            continue
        label, bottom = f"difference, {name} from its layer 0", result.answers[0]
        curves.append(
            difference_curve(label, result.x, result.answers, bottom, result.score, result.labels, **shared)
        )
    for name, control in controls.items():
        # Two tasks on the same words: how much more often the true label is predicted correctly.
        true = beside_draws(rightness(probed[name]), control)
        paired = draws == 1 or true.answers[0].seeds == control.answers[0].seeds
        curves.append(
            layer_differences(
                f"{SELECTIVITY} of {name}",
                true,
                rightness(control),
                level,
                control.score,
                pair_seeds=paired,
            )
        )
    for name in [*names[1:], *(name for name in probed if name.startswith(RANDOM_BASELINE))]:
        if len(probed[name].answers) == len(first.answers):
            label = f"difference, {name} from {names[0]}"
            curves.append(layer_differences(label, probed[name], first, level, first.score))
    return curves


def layer_differences(
    name: str, left: Probed, right: Probed, level: float, score: Score, *, pair_seeds: bool = True
) -> Curve:
    """
    Subtract the scores of one model's layers from those of another's, word by word.

    Parameters
    ----------
    name : str
    left, right : Probed
        With as many layers, on the same examples.
    level : float
    score : Score
    pair_seeds : bool
        Whether a seed of one belongs to the same seed of the other, where there are several; a draw of a
        control task belongs to none.

    Returns
    -------
    Curve
        Left minus right. The band is Bonferroni's: each point at a level that holds for all of them. Seeds
        count with as many degrees of freedom as there are, also at a layer where they agree by luck.
    """
    count = len(left.answers)
    pairs: list[tuple[Answers, Answers]] = list(zip(left.answers, right.answers, strict=True))
    pointwise, together = (
        [
            compare_scores(
                score, a, b, left.labels, level=coverage, pair_seeds=pair_seeds and len(a.predictions) > 1
            )
            for a, b in pairs
        ]
        for coverage in (level, 1 - (1 - level) / count)
    )
    widest = score.range[1] - score.range[0]

    def end(comparisons: Sequence[Any], side: str) -> np.ndarray:
        ends = [
            getattr(comparison.interval, side) if comparison.interval else np.nan
            for comparison in comparisons
        ]
        return np.clip(np.array(ends, dtype=float), -widest, widest)

    return Curve(
        name=name,
        axis=AXIS,
        x=left.x,
        values=np.array([comparison.difference for comparison in pointwise]),
        low=end(pointwise, "low"),
        high=end(pointwise, "high"),
        band_low=end(together, "low"),
        band_high=end(together, "high"),
        level=level,
        unit=next((comparison.interval.unit for comparison in pointwise if comparison.interval), "example"),
        n=pointwise[0].n,
        seeds=tuple(len(a.predictions) for a, _ in pairs),
        reasons=tuple(None if comparison.interval else NO_SPREAD for comparison in pointwise),
        note="The band is Bonferroni's over the layers.",
    )


def with_unit(curve: Curve, asked: Asked, probe: Probe, *, draws: int) -> Curve:
    """Name the unit of a curve: the word or sentence, the cluster, and the draw of a control task."""
    example = "word" if probe.kind == "words" else "sentence"
    unit = curve.unit.replace("group of examples", asked.unit).replace("example", example)
    if draws > 1 and curve.name.startswith((f"{CONTROL}, ", SELECTIVITY)):
        unit = unit.replace("seed", "control draw")
    return replace(curve, unit=unit)
