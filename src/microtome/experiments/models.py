"""Fine-tuned models of one setting: their seeds, failures, training examples and majority baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..scores.table import find_score
from ..tasks.baselines import baseline
from ..tasks.items import Split
from ..tasks.subset import subset
from ..tasks.task import Task
from ..training.evaluating import guessed_from
from ..training.opening import Model

GUESS = "majority baseline"


def sound(models: Sequence[Model]) -> tuple[list[Model], tuple[str, ...]]:
    """
    Leave out models whose training failed, unless all did.

    Parameters
    ----------
    models : sequence of Model

    Returns
    -------
    models : list of Model
        At least one.
    warnings : tuple of str
        A sentence for each whose training failed.
    """
    remaining = [model for model in models if model.failure is None]
    outcome = "was left out" if remaining else "is looked at although its training failed"
    warnings = tuple(
        f"{model.name}, seed {model.seed} {outcome}: {model.failure}."
        for model in models
        if model.failure is not None
    )
    return remaining or list(models), warnings


def named_seeds(models: Sequence[Model]) -> tuple[int, ...]:
    """Seeds of the models, or their places where two have the same one."""
    seeds = tuple(model.seed for model in models)
    return seeds if len(set(seeds)) == len(seeds) else tuple(range(len(seeds)))


def trained_on(model: Model, task: Task) -> Split | None:
    """
    Find the examples that a model was trained on.

    Parameters
    ----------
    model : Model
    task : Task

    Returns
    -------
    Split or None
        None where no record says which they were, or where they are not in this task's training split.
    """
    if model.train_size is None or task.train not in task.splits:
        return None
    train = task.split(task.train)
    if model.train_size > len(train) or (model.train_size < len(train) and model.train_seed is None):
        return None
    examples = subset(train, model.train_size, seed=model.train_seed or 0)
    return examples if model.train_digest in (None, examples.digest) else None


def guess_line(task: Task, split: Split) -> dict[str, float]:
    """Score the majority baseline of the whole training split, by its name, where it is known."""
    train = guessed_from(task)
    if train is None or task.kind == "language_modeling":
        return {}
    targets = [item.target for item in split]
    answers = baseline(task.kind, [item.target for item in train], targets, task.labels)
    value = math.nan if answers is None else find_score(task.main).compute(answers, targets, task.labels)
    return {GUESS: float(value)} if math.isfinite(value) else {}
