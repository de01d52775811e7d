"""Checks of the runs of an experiment before the first of them begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..interventions.applying import apply
from ..tasks.task import Task
from ..training.recipe import Recipe
from ..training.request import check_run
from .runs import Run


def check_runs(
    encoder: Any, task: Task, runs: Sequence[Run], *, recipe: str | Recipe = "devlin2019", **values: Any
) -> None:
    """
    Check the arguments of every run before the first one begins.

    Parameters
    ----------
    encoder, task, runs, recipe
        As in `run_all`.
    **values
        Of `finetune`, for all runs.
    """
    built: set[Any] = set()
    for run in {run.work[2]: run for run in reversed(runs)}.values():
        cached = bool(run.options.get("cached"))
        changed = apply(encoder, *run.interventions) if cached else encoder
        # Which weights learn does not depend on size and rate.
        kind = run.options.get("method"), cached
        options = {**values, "seed": run.seed, **run.options}
        check_run(changed, task, recipe, building=kind not in built, **options)
        built.add(kind)
