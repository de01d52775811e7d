"""Pruning of blocks: choose a cut, and certify its loss on unseen examples."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..encoders.versions import provenance
from ..store.address import address
from ..tasks.items import Split
from ..training.cuts import Cut
from .certifying import certified
from .claims import PruningClaims
from .margin import Drop
from .procedure import Procedure
from .pruned import Pruned
from .speed import cut_model, measure_speed


def run_pruning(procedure: Procedure) -> Pruned:
    """
    Choose a cut, certify it on unseen examples, and measure what it saves.

    Parameters
    ----------
    procedure : Procedure

    Returns
    -------
    Pruned
    """
    start = time.perf_counter()
    model, task, examples = procedure.model, procedure.task, procedure.examples
    options, score = procedure.options, procedure.score
    costs, tried = procedure.choose()
    steps, recovered = procedure.certify(costs)
    standing = procedure.standing(examples.certify if steps else examples.choose)
    passed = certified(steps)
    about = PruningClaims(
        depth=model.depth,
        points=score.points,
        share=examples.share,
        chose=_units(examples.choose),
        standing=standing,
    )
    claims = about.of(steps, None if steps else _cheapest(procedure, costs))
    kept = procedure.full if passed is None else passed.candidate.what
    pruned_model, confirmed, speed = None, None, None
    if passed is not None:
        small = recovered.get(kept)
        pruned_model = cut_model(model.task_model, kept) if small is None else small.task_model
        if examples.confirm is not None:
            level = procedure.look_at(examples.confirm).level
            confirmed = procedure.drop(examples.confirm, kept, small, level=level)
            if standing is None or standing.beats:
                claims += (about.claim("confirmation", kept, confirmed, split=examples.confirm.name),)
        if options.speed:
            speed = measure_speed(model, pruned_model, examples.certify, task)
    chosen_on, certified_on = examples.said()
    return Pruned(
        name=model.name,
        task=task.name,
        score=score.name,
        unit=procedure.unit,
        depth=model.depth,
        kept=kept,
        max_drop=float(options.max_drop),
        level=procedure.context.level,
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
        claims=claims,
        notes=_notes(procedure, bool(steps)),
        recover=options.recover,
        speed=speed,
        model=pruned_model,
        whole=model,
        provenance=_provenance(procedure, time.perf_counter() - start),
    )


def _cheapest(procedure: Procedure, costs: Mapping[Cut, float]) -> tuple[Cut, Drop]:
    """The cheapest cut, with its cost on the examples that choose."""
    cut = min(costs, key=lambda candidate: costs[candidate])
    return cut, procedure.drop(procedure.examples.choose, cut, level=procedure.context.level)


def _notes(procedure: Procedure, tested: bool) -> tuple[str, ...]:
    """Sentences about the look at the examples, and about the task."""
    task = procedure.task
    look = [procedure.look.sentence()] if tested else []
    return (*look, *([f"{task.name}: {task.card['note']}."] if task.card.get("note") else []))


def _units(split: Split) -> int:
    """Number of independent units among examples, as tests count them."""
    groups = len(np.unique(split.groups))
    return groups if groups > 1 else len(split)


def _provenance(procedure: Procedure, seconds: float) -> Mapping[str, Any]:
    examples, model, options = procedure.examples, procedure.model, procedure.options
    facts = {
        "seed": options.seed,
        "share": options.share if examples.share is not None else None,
        "model": model.encoder.source.given,
        "models": [model.encoder.digest],
        "choose_digest": address({"choose": examples.choose.digest}),
        "lineage": procedure.lineage,
        "certify_digest": address({"certify": examples.certify.digest}),
        "device": str(model.task_model.device),
        "precision": model.precision,
        "seconds": round(seconds, 3),
    }
    return MappingProxyType(provenance(facts))
