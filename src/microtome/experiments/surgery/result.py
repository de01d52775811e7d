"""Results of grids of fine-tunings: curves, methods and provenance."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ...encoders.versions import provenance
from ...findings.results import Curve, Result
from ...scores.table import find_score
from ...version import VERSION
from ..baselines import baseline_of
from ..citations import cited
from ..grid import GridRuns
from ..models import GUESS
from ..run_curves import failures, rows_of
from ..runs import Done


def grid_result(
    experiment: str,
    runs: GridRuns,
    *,
    curves: Sequence[Curve],
    findings: Sequence[str],
    how: str,
    references: Sequence[str],
    rows: Sequence[Mapping[str, Any]] | None = None,
    lines: Mapping[str, float] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Result:
    """
    Put the result of a grid together.

    Parameters
    ----------
    experiment : str
    runs : GridRuns
    curves, findings
    how : str
        Sentences on what was done to the encoder, for the methods.
    references : sequence of str
        Keys of citations.
    rows : sequence of mapping, optional
        The long table; one record per run when absent.
    lines : mapping of str to float, optional
        Horizontal lines beside that of the majority baseline.
    more : mapping, optional
        With `plain_weak` of reference models that do not beat the majority baseline, where there are any.

    Returns
    -------
    Result
    """
    task, done = runs.task, runs.done
    score = find_score(task.main)
    return Result(
        experiment=experiment,
        model=runs.encoder.name,
        task=task.name,
        split=task.validation,
        score=score.name,
        points=score.points,
        higher_is_better=score.higher_is_better,
        curves=tuple(curves),
        lines=MappingProxyType({**_majority_line(done), **(lines or {})}),
        rows=tuple(rows_of(done, task=task.name) if rows is None else rows),
        findings=tuple(dict.fromkeys(findings)),
        methods=f"{how} {describe_training(runs)}",
        references=cited(*references),
        warnings=failures(done),
        more=MappingProxyType(dict(more or {})),
        provenance=MappingProxyType(_provenance(runs)),
    )


def _provenance(runs: GridRuns) -> dict[str, Any]:
    """All that is needed to reproduce a result."""
    import torch

    task, context = runs.task, runs.context
    spent = {run.address: run.course["seconds"] for run in runs.done}
    return provenance(
        {
            "model": runs.encoder.digest,
            "task": task.digest(task.validation),
            "task_source": task.source,
            "recipe": {"name": runs.recipe.name, **runs.recipe.specification()},
            "seeds": sorted({run.run.seed for run in runs.done}),
            "runs": len(spent),
            "trained_seconds": round(sum(spent.values()), 3),
            "seconds": round(time.monotonic() - runs.started, 3),
            "device": context.device,
            "precision": runs.settings["dtype"],
            "threads": context.threads or torch.get_num_threads(),
            "command": context.command,
        }
    )


def describe_training(runs: GridRuns) -> str:
    """Describe how the runs were trained and what their intervals are, for the methods of a paper."""
    task, recipe = runs.task, runs.recipe
    seeds = sorted({run.run.seed for run in runs.done})
    length = f"{recipe.steps:,} updates at most" if recipe.steps is not None else f"{recipe.epochs:g} epochs"
    citation = f" ({recipe.citation})" if recipe.citation else ""
    models = len({run.address for run in runs.done})
    return (
        f"Each of {models} models was fine-tuned on {task.title} with the recipe {recipe.name}{citation}: "
        f"batches of {recipe.batch}, learning rate {recipe.rate:g}, {length}; seeds "
        f"{', '.join(map(str, seeds))}. The score is {find_score(task.main).name} of the model after the "
        f"last update on the split {task.validation}. Intervals of {runs.context.level * 100:g} % are over "
        "examples and, with several seeds, over seeds; bands hold for all points of a curve at once; "
        "differences are paired by example. Runs that diverged were excluded and counted; runs that predict "
        f"one class for every example are included and named. Computed with microtome {VERSION}."
    )


def _majority_line(outcomes: Sequence[Done]) -> dict[str, float]:
    """The score of the majority baseline, where it is defined."""
    score = baseline_of(outcomes)
    return {GUESS: score} if math.isfinite(score) else {}
