"""How does an experiment with many runs end? With a result that says how it was made and how to repeat it."""

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
from ...tasks.task import Task
from ...training.recipe import Recipe, find_recipe
from ...version import VERSION
from ..baselines import baseline_of, plain_weak
from ..citations import cited
from ..models import GUESS
from ..run_curves import failures, rows_of
from ..runs import Done

# Options of `run_all` that say where and how runs go on, and change no run.
RUNNING = ("at_once", "threads", "store", "keep_models", "progress", "command")


def trained_with(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those options that decide what a run becomes."""
    return {name: value for name, value in options.items() if name not in RUNNING}


def concluded(
    experiment: str,
    encoder: Any,
    task: Task,
    done: Sequence[Done],
    *,
    curves: Sequence[Curve],
    findings: Sequence[str],
    how: str,
    references: Sequence[str],
    recipe: str | Recipe,
    options: Mapping[str, Any],
    level: float,
    started: float,
    rows: Sequence[Mapping[str, Any]] | None = None,
    lines: Mapping[str, float] | None = None,
    warnings: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
    weak: Mapping[str, Standing] = MappingProxyType({}),
) -> Result:
    """
    Put a result together.

    Parameters
    ----------
    experiment : str
    encoder : TransformerEncoder
    task : Task
    done : sequence of Done
        All runs.
    curves, findings
        What was found.
    how : str
        Sentences on what was done to the encoder, for the methods.
    references : sequence of str
        Keys of citations.
    recipe : str or Recipe
    options : mapping
        What `run_all` was called with.
    level : float
    started : float
        When, by `time.monotonic`.
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
    score = find_score(task.main)
    own = {name: value for name, value in options.items() if name in Recipe.__slots__}
    used = find_recipe(recipe, **own)
    return Result(
        experiment=experiment,
        model=encoder.name,
        task=task.name,
        split=task.validation,
        score=score.name,
        points=score.points,
        higher_is_better=score.higher_is_better,
        curves=tuple(curves),
        lines=MappingProxyType({**_guess(done), **(lines or {})}),
        rows=tuple(rows_of(done, task=task.name) if rows is None else rows),
        findings=tuple(dict.fromkeys(findings)),
        methods=f"{how} {said_training(task, done, used, level)}",
        references=cited(*references),
        warnings=(*warnings, *failures(done)),
        more=MappingProxyType({**(more or {}), **plain_weak(weak)}),
        provenance=MappingProxyType(_provenance(encoder, task, done, used, options, started)),
    )


def _provenance(
    encoder: Any,
    task: Task,
    done: Sequence[Done],
    recipe: Recipe,
    options: Mapping[str, Any],
    started: float,
) -> dict[str, Any]:
    """Say what it takes to make a result again."""
    import torch

    spent = {one.address: one.course["seconds"] for one in done}
    return provenance(
        {
            "model": encoder.digest,
            "task": task.digest(task.validation),
            "task_source": task.source,
            "recipe": {"name": recipe.name, **recipe.specification()},
            "seeds": sorted({one.run.seed for one in done}),
            "runs": len(spent),
            "trained_seconds": round(sum(spent.values()), 3),
            "seconds": round(time.monotonic() - started, 3),
            "device": options.get("device", "cpu"),
            "precision": options.get("precision", "float32"),
            "threads": options.get("threads") or torch.get_num_threads(),
            "command": options.get("command", ""),
        }
    )


def said_training(task: Task, done: Sequence[Done], recipe: Recipe, level: float) -> str:
    """Say how the runs were trained and what their intervals are, for the methods of a paper."""
    seeds = sorted({one.run.seed for one in done})
    length = f"{recipe.steps:,} updates at most" if recipe.steps is not None else f"{recipe.epochs:g} epochs"
    named = f" ({recipe.citation})" if recipe.citation else ""
    score = find_score(task.main)
    runs = len({one.address for one in done})
    return (
        f"Each of {runs} models was fine-tuned on {task.title} with the recipe {recipe.name}{named}: batches "
        f"of {recipe.batch}, learning rate {recipe.rate:g}, {length}; seeds {', '.join(map(str, seeds))}. "
        f"Scored was {score.name} of the model after the last update on the split {task.validation}. "
        f"Intervals of {level * 100:g}% are over examples and, with several seeds, over seeds; bands hold "
        "for all points of a curve at once; differences are taken example by example. Runs that diverged "
        "were left out and counted; runs that gave one answer to everything count as well, and are named. "
        f"Computed with microtome {VERSION}."
    )


def _guess(done: Sequence[Done]) -> dict[str, float]:
    """The level of the most frequent answer, where it is known."""
    found = baseline_of(done)
    return {GUESS: found} if math.isfinite(found) else {}
