"""Findings and methods of task probing: sentences with bands of all layers, and a methods paragraph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...findings.results import Curve
from ...findings.words import counted, layer_list
from ...scores.declare import Score
from ...scores.table import find_score
from ...version import VERSION
from ..curve_claims import (
    above_lines,
    best_place,
    said_best,
    said_difference,
    said_lines,
    said_nothing,
)
from .task_heads import VECTOR, reads_of

if TYPE_CHECKING:
    from .probing import Probing
    from .task_probing import TaskInputs


def task_findings(
    curves: Sequence[Curve],
    differences: Sequence[Curve],
    score: Score,
    lines: Mapping[str, float],
    task: str,
) -> tuple[str, ...]:
    """
    Say which layer is best, which are above the majority baseline, and how models and solvers differ.

    Parameters
    ----------
    curves : sequence of Curve
        Of scores, without those of the random baseline.
    differences : sequence of Curve
    score : Score
    lines : mapping of str to float
        Baselines that read no layer.
    task : str

    Returns
    -------
    tuple of str
    """
    baselines = {name: value for name, value in lines.items() if math.isfinite(value)}
    findings = [_best(curve, score, baselines, task) for curve in curves]
    findings += [said_difference(difference, score) for difference in differences]
    return (*findings, *said_lines(baselines))


def _best(curve: Curve, score: Score, lines: Mapping[str, float], task: str) -> str:
    best = best_place(curve, score)
    if best is None:
        return f"{curve.name}: nothing can be said of {task}, since all heads diverged."
    if not above_lines(curve, best, score, lines):
        return f"{said_nothing(curve, best, score, task, lines)}."
    text = said_best(curve, best, score, task)
    for name, value in lines.items():
        # NaN compares as false: nothing is significant where a band is undefined.
        ahead = curve.band_low > value if score.higher_is_better else curve.band_high < value
        where = layer_list(int(curve.x[place]) for place in np.flatnonzero(ahead))
        text += f"; the band does not overlap the {name} at {where}"
    return f"{text}."


def task_methods(experiment: Probing, inputs: TaskInputs, level: float) -> str:
    """Write the methods paragraph."""
    task, recipe, judged = inputs.task, inputs.recipe, inputs.judged
    score, models = find_score(task.main), {name: inputs.models[name].opened.model for name in inputs.names}
    norm = any(model.family.final_norm is not None for model in models.values())
    parts = [
        f"Every layer of {', '.join(models)}, with all weights frozen, was probed for the labels of "
        f"{task.name}, from the layer's vector of the whole input{' behind the final norm' * norm}. Heads "
        f"were trained on {len(inputs.train):,} examples of {task.name}/{task.train}, of at most "
        f"{recipe.longest} tokens; one pass of each model, in evaluation mode, fed those of all layers."
    ]
    if "published" in inputs.solvers:
        reads = " or ".join(sorted({reads_of(model.head) for model in models.values()}))
        parts.append(
            f"Published heads are a linear layer on {reads}, which is frozen (Tamkin et al. 2020), trained "
            f"by the recipe {recipe.name}: batches of {recipe.batch}, learning rate {recipe.rate:g}, "
            f"{recipe.epochs:g} epoch{'' if recipe.epochs == 1 else 's'} "
            f"({counted(recipe.updates(len(inputs.train)), 'update')}), seeds "
            f"{', '.join(map(str, experiment.probe_seeds))}. So small a rate leaves such a head far from "
            "convergence."
        )
    if "converged" in inputs.solvers:
        parts.append(
            f"Converged heads are {inputs.regression} regression on the vector itself, without a pooler, "
            "with features of variance 1 and a penalty chosen for each layer on held-out training examples."
        )
    if experiment.random_baselines:
        pooler = ", with a pooler of its own" if reads_of(next(iter(models.values())).head) != VECTOR else ""
        parts.append(f"The random baseline is a randomly initialized copy of the first model{pooler}.")
    parts.append(
        f"Scores are {score.name} on {len(judged):,} examples of {judged.name}. Intervals of "
        f"{level * 100:g}% are over examples and, with several seeds, over head seeds; bands "
        f"hold for all layers at once. Computed with microtome {VERSION}."
    )
    return " ".join(parts)
