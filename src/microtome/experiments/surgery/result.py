"""Results of surgery experiments: curves and costs of the arms of a grid, methods and provenance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from ...findings.claims.claim import Claim
from ...findings.claims.render import few_seeds
from ...findings.results import Curve, Result
from ...findings.words import coverage
from ...inference.answers import Answers
from ...scores.table import find_score
from ...training.precision import choose_dtype
from ..citations import cited
from ..grid import GridRuns
from ..result import GUESS, make_result
from ..run_curves import RunPoints, curves_of, curves_over_draws, failures, rows_of
from ..runs import Run
from .claims import Costs, baseline_claim, below_baseline, costs_of_curve, undefined_claim


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmSummary:
    """
    Curves of one arm of a grid, and what can be concluded from them.

    Parameters
    ----------
    curves : list of Curve
        Scores, and differences from the reference, where one of its runs is sound.
    costs : Costs or None
        None where nothing can be concluded.
    claims : list of Claim
        Why not.
    """

    curves: list[Curve]
    costs: Costs | None = None
    claims: list[Claim] = field(default_factory=list)

    @property
    def weak(self) -> bool:
        """Whether the reference does not beat the majority baseline."""
        return any(claim.kind == "baseline" for claim in self.claims)


def summarize_arm(
    experiment: str,
    runs: GridRuns,
    points: RunPoints,
    reference: Answers | None,
    *,
    model: str,
    subject: str = "",
    draws: bool = False,
    **options: Any,
) -> ArmSummary:
    """
    Make the curves of an arm, and find its costs or why nothing can be concluded from it.

    Parameters
    ----------
    experiment : str
    runs : GridRuns
    points : RunPoints
        Of the arm.
    reference : Answers or None
        Predictions of the model that the arm is compared with.
    model : str
        What that model is called in a claim.
    subject : str
        The arm, where references of arms differ.
    draws : bool
        Whether random draws, not runs, are the unit beside examples; see `curves_over_draws`.
    **options
        Of `curves_of`.

    Returns
    -------
    ArmSummary
    """
    task, score = runs.task, find_score(runs.task.main)
    curves = curves_of(points, task, reference, context=runs.context, **options)
    if draws:
        curves = curves_over_draws(curves, runs.done, task, points.arm, 0)
    if len(curves) == 1:
        return ArmSummary(curves=curves, claims=[undefined_claim(experiment, score, "diverged", subject)])
    standing = below_baseline(task, reference, majority_score(runs), runs.context)
    if standing is None:
        return ArmSummary(curves=curves, costs=costs_of_curve(curves[1], score, "all points"))
    claims = [baseline_claim(standing, experiment, model, curves[1].name, subject)]
    return ArmSummary(curves=curves, claims=claims)


def majority_score(runs: GridRuns) -> float:
    """The score of the majority baseline; NaN where it is undefined."""
    scores = [outcome.baseline for outcome in runs.done if math.isfinite(outcome.baseline)]
    return float(np.mean(scores)) if scores else math.nan


def grid_result(
    experiment: str,
    runs: GridRuns,
    arms: Sequence[ArmSummary],
    claims: Sequence[Claim],
    *,
    how: str,
    references: Sequence[str],
    columns: Callable[[Run], Mapping[str, Any]] | None = None,
    lines: Mapping[str, float] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Result:
    """
    Put the result of a grid together.

    Parameters
    ----------
    experiment : str
    runs : GridRuns
    arms : sequence of ArmSummary
    claims : sequence of Claim
        Beside those of the arms.
    how : str
        Sentences on what was done to the encoder, for the methods.
    references : sequence of str
        Keys of citations.
    columns : callable, optional
        Further columns of a run in the long table.
    lines : mapping of str to float, optional
        Horizontal lines beside that of the majority baseline.
    more : mapping, optional

    Returns
    -------
    Result
    """
    task, done, baseline = runs.task, runs.done, majority_score(runs)
    majority = {GUESS: baseline} if math.isfinite(baseline) else {}
    claims = [*(claim for arm in arms for claim in arm.claims), *claims]
    return make_result(
        experiment,
        task,
        task.validation,
        started=runs.started,
        model=runs.encoder.name,
        curves=tuple(curve for arm in arms for curve in arm.curves),
        claims=[*claims, *few_seeds(claims)],
        lines=MappingProxyType({**majority, **(lines or {})}),
        rows=rows_of(done, task.name, columns),
        methods=f"{how} {describe_training(runs)}",
        references=cited(*references),
        warnings=failures(done),
        more=more or {},
        provenance=_provenance(runs),
    )


def _provenance(runs: GridRuns) -> dict[str, Any]:
    """All that is needed to reproduce a result."""
    spent = {run.address: run.course["seconds"] for run in runs.done}
    return {
        "model": runs.encoder.digest,
        "recipe": {"name": runs.recipe.name, **runs.recipe.specification()},
        "seeds": sorted({run.run.seed for run in runs.done}),
        "runs": len(spent),
        "trained_seconds": round(sum(spent.values()), 3),
        "device": runs.context.device,
        "precision": choose_dtype(runs.context.device, runs.settings["dtype"], runs.encoder.family),
    }


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
        f"last update on the split {task.validation}. Intervals of {coverage(runs.context.level)} are over "
        "examples and, with several seeds, over seeds; bands hold for all points of a curve at once; "
        "differences are paired by example. Runs that diverged were excluded and counted; runs that predict "
        "one class for every example are included and named."
    )
