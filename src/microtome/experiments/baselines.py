"""Models that do not beat the majority baseline, and their record in a result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..findings.results import WEAK
from ..inference.answers import Answers
from ..inference.baselines import Standing, against_baseline
from ..tasks.task import Task
from .models import GUESS
from .runs import Done


def weak_models(
    task: Task, answers: Answers, lines: Mapping[str, float], name: str, *, level: float
) -> dict[str, Standing]:
    """
    Find models that do not beat the majority baseline.

    Parameters
    ----------
    task : Task
    answers : Answers
        Predictions of the complete models.
    lines : mapping of str to float
        Of `guess_line`.
    name : str
        Name of the curve or span map that rests on them.
    level : float

    Returns
    -------
    dict of str to Standing
        By that name; empty where the baseline is beaten, and where there is none.
    """
    standing = against_baseline(task.main, answers, lines.get(GUESS, math.nan), task.labels, level=level)
    return {} if standing is None or standing.beats else {name: standing}


def plain_weak(weak: Mapping[str, Standing]) -> dict[str, Any]:
    """The record of `Result.more` for models that do not beat the majority baseline; empty where all do."""
    return {WEAK: {name: standing.plain() for name, standing in weak.items()}} if weak else {}


def below_baseline(
    task: Task, reference: Answers | None, outcomes: Sequence[Done], *, level: float
) -> Standing | None:
    """
    Test whether the reference of an arm fails to beat the majority baseline.

    Parameters
    ----------
    task : Task
    reference : Answers or None
        Predictions of the model without an intervention.
    outcomes : sequence of Done
        Runs with the score of the baseline.
    level : float

    Returns
    -------
    Standing or None
        None where it beats the baseline, and where there is no baseline or all runs diverged.
    """
    if reference is None:
        return None
    standing = against_baseline(task.main, reference, baseline_of(outcomes), task.labels, level=level)
    return None if standing is None or standing.beats else standing


def baseline_of(outcomes: Sequence[Done]) -> float:
    """The score of the majority baseline; NaN where it is undefined."""
    scores = [outcome.baseline for outcome in outcomes if math.isfinite(outcome.baseline)]
    return float(np.mean(scores)) if scores else math.nan
