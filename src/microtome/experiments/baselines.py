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
from .runs import Done


def plain_weak(weak: Mapping[str, Standing]) -> dict[str, Any]:
    """The record of `Result.more` for models that do not beat the majority baseline; empty where all do."""
    return {WEAK: {name: standing.plain() for name, standing in weak.items()}} if weak else {}


def below_baseline(task: Task, answers: Answers | None, baseline: float, *, level: float) -> Standing | None:
    """
    Test whether a model fails to beat the majority baseline.

    Parameters
    ----------
    task : Task
    answers : Answers or None
        Predictions of the model without an intervention; None where all runs diverged.
    baseline : float
        Score of the baseline on the same examples; NaN where there is none.
    level : float

    Returns
    -------
    Standing or None
        None where it beats the baseline, and where one of them is missing.
    """
    if answers is None:
        return None
    standing = against_baseline(task.main, answers, baseline, task.labels, level=level)
    return None if standing is None or standing.beats else standing


def baseline_of(outcomes: Sequence[Done]) -> float:
    """The score of the majority baseline; NaN where it is undefined."""
    scores = [outcome.baseline for outcome in outcomes if math.isfinite(outcome.baseline)]
    return float(np.mean(scores)) if scores else math.nan
