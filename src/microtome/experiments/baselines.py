"""Models that do not beat the majority baseline: which they are, and how a result keeps them."""

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
        Of the whole models.
    lines : mapping of str to float
        Of `guess_line`.
    name : str
        Of the curve or span map that rests on them.
    level : float

    Returns
    -------
    dict of str to Standing
        By that name; empty where the baseline is beaten, and where there is none.
    """
    found = against_baseline(task.main, answers, lines.get(GUESS, math.nan), task.labels, level=level)
    return {} if found is None or found.beats else {name: found}


def plain_weak(weak: Mapping[str, Standing]) -> dict[str, Any]:
    """What `Result.more` keeps of models that do not beat the majority baseline; nothing where all do."""
    return {WEAK: {name: found.plain() for name, found in weak.items()}} if weak else {}


def below_baseline(
    task: Task, reference: Answers | None, done: Sequence[Done], *, level: float
) -> Standing | None:
    """
    Find out that what an arm is held against does not beat the majority baseline.

    Parameters
    ----------
    task : Task
    reference : Answers or None
        Of the model that nothing was done to.
    done : sequence of Done
        Runs, which know the baseline.
    level : float

    Returns
    -------
    Standing or None
        None where it beats the baseline, and where there is no baseline or no sound run.
    """
    if reference is None:
        return None
    found = against_baseline(task.main, reference, baseline_of(done), task.labels, level=level)
    return None if found is None or found.beats else found


def baseline_of(done: Sequence[Done]) -> float:
    """The score of the most frequent answer; NaN where it is not known."""
    known = [run.baseline for run in done if math.isfinite(run.baseline)]
    return float(np.mean(known)) if known else math.nan
