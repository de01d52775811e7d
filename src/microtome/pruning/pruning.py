"""Pruning of blocks: choose a cut, and certify its loss on unseen examples."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from ..context import Context
from ..encoders.versions import provenance
from ..errors import InputError, must
from ..inference.baselines import Standing
from ..scores.table import find_score
from ..store.address import address
from ..tasks.items import Split
from ..tasks.task import Task
from ..training.cuts import Cut
from ..training.opening import open_model
from ..training.recipe import find_recipe
from .candidates import BEAM
from .certifying import Step, certified
from .examples import find_examples
from .findings import confirmation_finding, pruning_findings
from .procedure import Procedure
from .pruned import Pruned
from .recovering import Recover, recovering
from .speed import cut_model, measure_speed


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningRequest:
    """
    Options of a pruning beside model and task.

    Parameters
    ----------
    max_drop : float
        Largest acceptable loss, in points of 100; of perplexity in its own units.
    split, certify_on, confirm_on, share
        See `find_examples`.
    level : float
        One-sided: "safe" is wrong in at most 1 - level of cases, over all looks of this model at the same
        examples together; see `looks`.
    seed : int
        Of the split of the examples, and of recovery.
    beam : int
        Spans of each length that are tried in models of more than 16 blocks.
    recover : int
        Updates that each cut of the sequence is tuned for before it is tested; 0 cuts only.
    recipe : str or Recipe
        Of recovery.
    dtype : {"float32", "tf32", "bfloat16", "float16"}
        Arithmetic of matrix products in recovery.
    speed : bool
        Whether the time of both models is measured.
    values : mapping
        Values of the recipe to override.
    """

    max_drop: float = 1.0
    split: str | None = None
    certify_on: str | None = None
    confirm_on: str | None = None
    share: float = 0.5
    level: float = 0.95
    seed: int = 0
    beam: int = BEAM
    recover: int = 0
    recipe: Any = "devlin2019"
    dtype: str = "float32"
    speed: bool = True
    values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        max_drop = self.max_drop
        if not isinstance(max_drop, int | float) or isinstance(max_drop, bool) or not 0 < max_drop < math.inf:
            raise must("max_drop", "a number above 0", max_drop)
        if not 0.5 < self.level < 1:
            raise must("level", "between 0.5 and 1", self.level)
        find_recipe(self.recipe)
        if self.values and not self.recover:
            names = ", ".join(self.values)
            raise InputError(f"values of a recipe must come with recover, but got {names} alone.")

    def specification(self) -> dict[str, Any]:
        """How cuts are chosen and recovered, which tells one request from another."""
        if not self.recover:
            return {"beam": self.beam, "recover": self.recover}
        recipe = find_recipe(self.recipe, **{"steps": self.recover, "epochs": None, **self.values})
        training = {"recipe": recipe.specification(), "seed": self.seed, "precision": self.dtype}
        return {"beam": self.beam, "recover": self.recover, **training}


def open_pruning(tuned: Any, task: Task, request: PruningRequest, context: Context) -> Procedure:
    """
    Open a model and choose the examples of each role, without predicting anything.

    Parameters
    ----------
    tuned : Tuned, Encoder or path
    task : Task
    request : PruningRequest
    context : Context

    Returns
    -------
    Procedure
    """
    model = open_model(tuned, task, context=context, pooled=True)
    examples = find_examples(
        task,
        model,
        split=request.split,
        certify_on=request.certify_on,
        confirm_on=request.confirm_on,
        share=request.share,
        seed=request.seed,
        learns=request.recover > 0,
    )
    return Procedure(
        model=model,
        task=task,
        score=find_score(task.main),
        examples=examples,
        max_drop=float(request.max_drop),
        level=request.level,
        how=request.specification(),
        context=context,
    )


def run_pruning(procedure: Procedure, request: PruningRequest) -> Pruned:
    """
    Choose a cut, certify it on unseen examples, and measure what it saves.

    Parameters
    ----------
    procedure : Procedure
    request : PruningRequest

    Returns
    -------
    Pruned
    """
    start = time.perf_counter()
    model, task, examples = procedure.model, procedure.task, procedure.examples
    recover = _recovery(procedure, request) if request.recover else None
    costs, tried = procedure.choose(request.beam)
    steps, models = (
        procedure.certify(costs) if recover is None else procedure.certify_recovered(costs, recover)
    )
    standing = procedure.standing(examples.certify if steps else examples.choose)
    passed = certified(steps)
    score = procedure.score
    unit = "points" if score.points == 100 else "of perplexity"
    findings = _findings(procedure, steps, costs, standing)
    kept = procedure.full if passed is None else passed.candidate.what
    pruned_model, confirmed, timed = None, None, None
    if passed is not None:
        small = models.get(kept)
        pruned_model = cut_model(model.task_model, kept) if small is None else small.task_model
        if examples.confirm is not None:
            level = procedure.look_at(examples.confirm).level
            confirmed = procedure.drop(examples.confirm, kept, small, level=level)
            findings.append(
                confirmation_finding(confirmed, examples.confirm.name, unit, higher=score.higher_is_better)
            )
        if request.speed:
            timed = measure_speed(
                model.task_model,
                pruned_model,
                examples.certify,
                task,
                model.tokenizer,
                longest=model.longest,
                stride=model.stride,
                single=model.pooling is not None,
            )
    chosen_on, certified_on = examples.said()
    return Pruned(
        name=model.name,
        task=task.name,
        score=score.name,
        unit=unit,
        depth=model.depth,
        kept=kept,
        max_drop=procedure.max_drop,
        level=procedure.level,
        candidates=tuple(
            MappingProxyType({"kept": cut, "removed": model.depth - len(cut), "cost": cost})
            for cut, cost in costs.items()
        ),
        tried=tried,
        steps=tuple(steps),
        comparison=None if passed is None else passed.found,
        confirmed=confirmed,
        look=procedure.look if steps else None,
        chosen_on=chosen_on,
        certified_on=certified_on,
        guess=math.nan if standing is None else standing.baseline,
        findings=tuple(findings),
        recover=request.recover,
        speed=timed,
        model=pruned_model,
        whole=model,
        provenance=_provenance(procedure, request, time.perf_counter() - start),
    )


def _recovery(procedure: Procedure, request: PruningRequest) -> Recover:
    """How cuts are tuned before they are tested."""
    return recovering(
        procedure.model,
        procedure.task,
        request.recover,
        recipe=request.recipe,
        seed=request.seed,
        context=procedure.context,
        dtype=request.dtype,
        **request.values,
    )


def _findings(
    procedure: Procedure,
    steps: list[Step[Cut]],
    costs: Mapping[Cut, float],
    standing: Standing | None,
) -> list[str]:
    """Sentences about the tests, the look at the examples, and the task."""
    score, task, cheapest = procedure.score, procedure.task, None
    if not steps:
        cut = min(costs, key=lambda candidate: costs[candidate])
        cheapest = (cut, procedure.on_choosing(cut))
    findings = list(
        pruning_findings(
            steps,
            procedure.model.depth,
            "points" if score.points == 100 else "of perplexity",
            cheapest=cheapest,
            share=procedure.examples.share,
            chose=_units(procedure.examples.choose),
            higher=score.higher_is_better,
            standing=standing,
        )
    )
    if steps:
        findings.append(procedure.look.sentence())
    if task.card.get("note"):
        findings.append(f"{task.name}: {task.card['note']}.")
    return findings


def _units(split: Split) -> int:
    """Number of independent units among examples, as tests count them."""
    groups = len(np.unique(split.groups))
    return groups if groups > 1 else len(split)


def _provenance(procedure: Procedure, request: PruningRequest, seconds: float) -> Mapping[str, Any]:
    examples, model = procedure.examples, procedure.model
    return MappingProxyType(
        provenance(
            {
                "seed": request.seed,
                "share": request.share if examples.share is not None else None,
                "model": model.encoder.source.given,
                "models": [model.encoder.digest],
                "choose_digest": address({"choose": examples.choose.digest}),
                "lineage": procedure.lineage,
                "certify_digest": address({"certify": examples.certify.digest}),
                "device": str(model.task_model.device),
                "precision": model.precision,
                "seconds": round(seconds, 3),
            }
        )
    )
