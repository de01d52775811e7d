"""Results of grids of fine-tunings: curves, methods and provenance."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ...encoders.versions import provenance
from ...findings.results import Curve, Result
from ...inference.baselines import Standing
from ...scores.table import find_score
from ...version import VERSION
from ..baselines import baseline_of, plain_weak
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
    warnings: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
    weak: Mapping[str, Standing] = MappingProxyType({}),
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
        The long table; one record a run when absent.
    lines : mapping of str to float, optional
        Levels beside that of the most frequent answer.
    warnings : sequence of str
        Beside those about runs that failed.
    more : mapping, optional
    weak : mapping of str to Standing
        By the name of a curve of differences, the model that it is held against, where that does not beat the
        majority baseline: nothing is concluded from such a curve, here or in a report.

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
        lines=MappingProxyType({**_guess(done), **(lines or {})}),
        rows=tuple(rows_of(done, task=task.name) if rows is None else rows),
        findings=tuple(dict.fromkeys(findings)),
        methods=f"{how} {describe_training(runs)}",
        references=cited(*references),
        warnings=(*warnings, *failures(done)),
        more=MappingProxyType({**(more or {}), **plain_weak(weak)}),
        provenance=MappingProxyType(_provenance(runs)),
    )


def _provenance(runs: GridRuns) -> dict[str, Any]:
    """What it takes to make a result again."""
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


def _guess(done: Sequence[Done]) -> dict[str, float]:
    """The level of the most frequent answer, where it is known."""
    found = baseline_of(done)
    return {GUESS: found} if math.isfinite(found) else {}
