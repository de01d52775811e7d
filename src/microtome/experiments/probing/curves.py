"""Curves of probing: scores over layers, and differences of models, layers and control tasks.

A control task (Hewitt and Liang 2019) measures what a probe can memorize, over one draw of labels or several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...context import Context
from ...findings.results import Curve
from ...findings.scorecurves import difference_curve, paired_curve, score_curve
from ...findings.words import Unit
from ...inference.answers import Answers
from ...probes.dataset import Asked, Probed
from ...probes.edge.counts import EDGE_F1
from ...probes.table import Probe
from .inputs import RANDOM_BASELINE

AXIS = "layer"
CONTROL = "control"
# What differences are from, beside models.
BOTTOM, SELECTIVITY = "its layer 0", "the control task"


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
        Left minus right.
    """
    several = len(left.answers[0].predictions) > 1
    scored: dict[str, Any] = {"score": left.score, "labels": left.labels, "level": context.level}
    scored["pair_seeds"] = pair_seeds and several
    curve = paired_curve(left.x, left.answers, right.answers, axis=AXIS, **scored, **facts)
    return replace(curve, note="The band is Bonferroni's over the layers.")


def with_unit(curve: Curve, asked: Asked, probe: Probe, *, draws: int) -> Curve:
    """Name the unit of a curve: the word or sentence, the cluster, and the draw of a control task."""
    names = {"group of examples": asked.unit, "example": "word" if probe.kind == "words" else "sentence"}
    of, runs = curve.unit.of, curve.unit.runs
    if runs and draws > 1 and (curve.role == "control" or curve.against == SELECTIVITY):
        runs = "control draw"
    return replace(curve, unit=Unit(names.get(of, of), runs))


def control_questions(asked: Asked, draws: int) -> list[Asked]:
    """
    Replace the labels of a probing task by those of control tasks.

    Parameters
    ----------
    asked : Asked
    draws : int
        Number of control tasks.

    Returns
    -------
    list of Asked
        A single draw has all seeds of the probe; of several, each has one: probes of one draw do not vary
        independently of each other, and the variance over draws includes that of seeds.
    """
    first = asked.seeds[0]
    if draws == 1:
        return [replace(asked, control=first)]
    seeds = [asked.seeds[draw % len(asked.seeds)] for draw in range(draws)]
    return [replace(asked, control=first + draw, seeds=(seed,)) for draw, seed in enumerate(seeds)]


def over_draws(probed: Sequence[Probed]) -> Probed:
    """
    Join the predictions of several draws, each as if it were a seed.

    Parameters
    ----------
    probed : sequence of Probed
        One per draw, of the same layers and examples.

    Returns
    -------
    Probed
        Of several draws, whether each prediction is correct: they are predictions of different tasks.
    """
    if len(probed) == 1:
        return probed[0]
    correct = [rightness(result) for result in probed]
    seeds = tuple(result.answers[0].seeds[0] for result in probed)
    return replace(
        correct[0],
        answers=tuple(
            replace(
                layer[0],
                predictions=[predicted for answers in layer for predicted in answers.predictions],
                # Names that no seed of a probe has: a draw belongs to none of them.
                seeds=tuple(f"draw {number}" for number in range(len(probed))),
            )
            for layer in zip(*(result.answers for result in correct), strict=True)
        ),
        rows=tuple(
            {**_by_draw(records), "draw": tuple(range(len(probed))), "seed": seeds}
            for records in zip(
                *(result.rows or ({},) * len(result.answers) for result in probed), strict=True
            )
        ),
        note="",
    )


def beside_draws(true: Probed, control: Probed) -> Probed:
    """
    Repeat the predictions of a single probe for every draw of the control task.

    Parameters
    ----------
    true : Probed
        Of the true labels.
    control : Probed
        From `over_draws`.

    Returns
    -------
    Probed
        As it is, where it has several seeds: they are independent of the draws. A single probe must not
        count as one draw whose variance is unknown.
    """
    draws = control.answers[0].seeds
    if len(true.answers[0].predictions) > 1 or len(draws) == 1:
        return true
    return replace(
        true,
        answers=tuple(
            replace(answers, predictions=[answers.predictions[0]] * len(draws), seeds=draws)
            for answers in true.answers
        ),
    )


def rightness(probed: Probed) -> Probed:
    """Whether each prediction is correct, so that predictions of different tasks can be compared."""

    def correct(answers: Answers) -> list[Any]:
        if probed.score is EDGE_F1:
            return list(answers.predictions)  # counts of true and false predictions already
        return [np.asarray(predicted) == np.asarray(answers.targets) for predicted in answers.predictions]

    return replace(
        probed,
        labels=(),
        answers=tuple(
            replace(answers, targets=np.ones(len(answers.ids), dtype=int), predictions=correct(answers))
            for answers in probed.answers
        ),
    )


def _by_draw(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The values of a layer, one per draw."""
    return {
        name: tuple(
            record[name][0] if isinstance(record[name], tuple) else record[name] for record in records
        )
        for name in records[0]
    }
