"""Curves of probing: scores over layers, and differences of models, layers and control tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...context import Context
from ...findings.intervals import Unit
from ...findings.results import Curve
from ...findings.scorecurves import difference_curve, score_curve
from ...inference.pairing import compare_scores
from ...probes.dataset import Asked, Probed
from ...probes.table import Probe
from .control import beside_draws, rightness
from .inputs import RANDOM_BASELINE

AXIS = "layer"
CONTROL = "control"
# What differences are from, beside models.
BOTTOM, SELECTIVITY = "its layer 0", "the control task"
NO_SPREAD = "every group of examples has the same outcome"


def probe_curves(
    probed: Mapping[str, Probed],
    controls: Mapping[str, Probed],
    names: Sequence[str],
    context: Context,
) -> list[Curve]:
    """
    Make the curves of one kind of input: scores, then differences.

    Parameters
    ----------
    probed, controls : mapping of str to Probed
        By curve: of the target, and of its control tasks.
    names : sequence of str
        Curves of the models, without the random baseline.
    context : Context

    Returns
    -------
    list of Curve
    """
    first = probed[names[0]]
    shared: dict[str, Any] = {"axis": AXIS, "level": context.level}
    curves = []
    for role, results in (("score", probed), ("control", controls)):
        for model, result in results.items():
            name = model if role == "score" else f"{CONTROL}, {model}"
            facts: dict[str, Any] = {"role": role, "model": model, **shared}
            curves.append(score_curve(name, result.x, result.answers, result.score, result.labels, **facts))
    for name in names:
        result = probed[name]
        if result.x[0] != 0:
            continue
        facts = {**difference_facts(name, BOTTOM), **shared}
        title, bottom = facts.pop("name"), result.answers[0]
        curves.append(
            difference_curve(title, result.x, result.answers, bottom, result.score, result.labels, **facts)
        )
    for name, control in controls.items():
        # Two tasks on the same words: how much more often the true label is predicted correctly.
        true = beside_draws(rightness(probed[name]), control)
        curves.append(
            layer_differences(
                true,
                rightness(control),
                context,
                pair_seeds=true.answers[0].seeds == control.answers[0].seeds,
                name=f"difference, selectivity of {name}",
                label=f"selectivity of {name}",
                model=name,
                against=SELECTIVITY,
            )
        )
    for name in [*names[1:], *(name for name in probed if name.startswith(RANDOM_BASELINE))]:
        if len(probed[name].answers) == len(first.answers):
            facts = difference_facts(name, names[0])
            curves.append(layer_differences(probed[name], first, context, **facts))
    return curves


def difference_facts(model: str, against: str) -> dict[str, Any]:
    """Name, role and models of a curve of differences between models, or of a model from its layer 0."""
    about = f"{model} from {against}"
    names = {"name": f"difference, {about}", "label": about}
    return {**names, "role": "difference", "model": model, "against": against}


def layer_differences(
    left: Probed, right: Probed, context: Context, *, pair_seeds: bool = True, **facts: Any
) -> Curve:
    """
    Subtract the scores of one model's layers from those of another's, word by word.

    Parameters
    ----------
    left, right : Probed
        With as many layers, on the same examples.
    context : Context
    pair_seeds : bool
        Whether a seed of one belongs to the same seed of the other, where there are several; a draw of a
        control task belongs to none.
    **facts
        Name, label and models of the curve.

    Returns
    -------
    Curve
        Left minus right. The band is Bonferroni's: each point at a level that holds for all of them. Seeds
        count with as many degrees of freedom as there are, also at a layer where they agree by luck.
    """
    score, level, count = left.score, context.level, len(left.answers)
    widest = score.range[1] - score.range[0]
    comparisons, ends = [], []
    for coverage in (level, 1 - (1 - level) / count):
        comparisons = [
            compare_scores(
                score, a, b, left.labels, level=coverage, pair_seeds=pair_seeds and len(a.predictions) > 1
            )
            for a, b in zip(left.answers, right.answers, strict=True)
        ]
        intervals = [comparison.interval for comparison in comparisons]
        low, high = np.array(
            [
                (np.nan, np.nan) if interval is None else (interval.low, interval.high)
                for interval in intervals
            ]
        ).T
        ends += [np.clip(low, -widest, widest), np.clip(high, -widest, widest)]
    units = [comparison.interval.unit for comparison in comparisons if comparison.interval]
    return Curve(
        axis=AXIS,
        x=left.x,
        values=np.array([comparison.difference for comparison in comparisons]),
        **dict(zip(("low", "high", "band_low", "band_high"), ends, strict=True)),
        level=level,
        unit=Unit(units[0] if units else "example"),
        n=comparisons[0].n,
        seeds=tuple(len(answers.predictions) for answers in left.answers),
        reasons=tuple(None if comparison.interval else NO_SPREAD for comparison in comparisons),
        note="The band is Bonferroni's over the layers.",
        **{"role": "difference", **facts},
    )


def with_unit(curve: Curve, asked: Asked, probe: Probe, *, draws: int) -> Curve:
    """Name the unit of a curve: the word or sentence, the cluster, and the draw of a control task."""
    names = {"group of examples": asked.unit, "example": "word" if probe.kind == "words" else "sentence"}
    of, runs = curve.unit.of, curve.unit.runs
    if runs and draws > 1 and (curve.role == "control" or curve.against == SELECTIVITY):
        runs = "control draw"
    return replace(curve, unit=Unit(names.get(of, of), runs))
