"""How is it said which layers tell the answers of a task? Sentences with bands, and a paragraph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...findings.results import Curve
from ...findings.words import layer_list
from ...scores.declare import Score
from ...scores.table import find_score
from ...tasks.items import Split
from ...tasks.task import Task
from ...training.recipe import Recipe
from ...version import VERSION
from ..curve_claims import (
    Difference,
    above_lines,
    best_place,
    said_best,
    said_difference,
    said_lines,
    said_nothing,
)
from .task_heads import VECTOR, reads_of

if TYPE_CHECKING:
    from ...training.taskmodel import TaskModel


def task_findings(
    curves: Sequence[Curve],
    differences: Sequence[Difference],
    score: Score,
    lines: Mapping[str, float],
    task: str,
) -> tuple[str, ...]:
    """
    Say which layer is read best, which are shown to beat a guess, and how models and solvers differ.

    Parameters
    ----------
    curves : sequence of Curve
        Of `task_probing`, without the random twin's own scores.
    differences : sequence of Difference
    score : Score
    lines : mapping of str to float
        Scores without any layer.
    task : str

    Returns
    -------
    tuple of str
    """
    known = {name: value for name, value in lines.items() if math.isfinite(value)}
    said = [_best(curve, score, known, task) for curve in curves]
    said += [said_difference(one, score) for one in differences]
    return (*said, *said_lines(known))


def _best(curve: Curve, score: Score, lines: Mapping[str, float], task: str) -> str:
    best = best_place(curve, score)
    if best is None:
        return f"{curve.name}: nothing can be said of {task}, since no head is sound."
    if not above_lines(curve, best, score, lines):
        return f"{said_nothing(curve, best, score, task, lines)}."
    text = said_best(curve, best, score, task)
    for name, value in lines.items():
        # NaN compares as false: nothing is shown where a band is undefined.
        ahead = curve.band_low > value if score.higher_is_better else curve.band_high < value
        where = layer_list(int(curve.x[place]) for place in np.flatnonzero(ahead))
        text += f"; the band is clear of the {name} at {where}"
    return f"{text}."


def task_methods(
    task: Task,
    models: Mapping[str, TaskModel],
    solvers: Sequence[str],
    recipe: Recipe,
    *,
    train: Split,
    judged: Split,
    seeds: Sequence[int],
    twin: bool,
    level: float,
) -> str:
    """
    Write the paragraph for a paper.

    Parameters
    ----------
    task : Task
    models : mapping of str to TaskModel
        By name, without the random twin.
    solvers : sequence of str
    recipe : Recipe
        Of published heads.
    train, judged : Split
    seeds : sequence of int
    twin : bool
    level : float

    Returns
    -------
    str
    """
    score = find_score(task.main)
    norm = any(model.family.final_norm is not None for model in models.values())
    parts = [
        f"Answers of {task.name} were read out of every layer of {', '.join(models)}, with all weights left "
        f"as they were, from the layer's vector of the whole input{' behind the final norm' * norm}. Heads "
        f"learned from {len(train):,} examples of {task.name}/{task.train}, in at most {recipe.longest} "
        "tokens; one pass of each model, in evaluation mode, fed those of all layers."
    ]
    if "published" in solvers:
        reads = " or ".join(sorted({reads_of(model.head) for model in models.values()}))
        parts.append(
            f"Published heads are a linear layer on {reads}, which stays as it is (Tamkin et al. 2020), "
            f"trained by the recipe {recipe.name}: batches of {recipe.batch}, learning rate {recipe.rate:g}, "
            f"{recipe.epochs:g} epoch{'' if recipe.epochs == 1 else 's'} "
            f"({recipe.updates(len(train)):,} updates), seeds {', '.join(map(str, seeds))}. So small a rate "
            "leaves such a head far from convergence."
        )
    if "converged" in solvers:
        solver = "ridge regression" if task.kind == "regression" else "logistic regression"
        parts.append(
            f"Converged readouts are {solver} on the vector itself, without a pooler, with features of "
            "variance 1 and a penalty chosen for each layer on training examples that were held out."
        )
    if twin:
        drawn = ", its pooler too" if reads_of(next(iter(models.values())).head) != VECTOR else ""
        parts.append(f"The random twin has the shape of the first model and weights drawn anew{drawn}.")
    parts.append(
        f"Scored was {score.name} on {len(judged):,} examples of {judged.name}. Intervals of "
        f"{level * 100:g}% are over examples and, with several seeds, over head seeds; bands "
        f"hold for all layers at once. Computed with microtome {VERSION}."
    )
    return " ".join(parts)
