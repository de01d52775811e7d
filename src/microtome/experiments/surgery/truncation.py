"""Truncation experiment (Phang et al. 2021): score a head at every layer."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ...context import Context
from ...findings.claims.render import few_seeds
from ...findings.results import Result
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.cut_store import cut_answers
from ...training.cuts import every_truncation
from ...training.opening import open_model
from ..base import Plan, as_function
from ..citations import cited
from ..layer_heads import Arm, Vectors, converged_arm, fresh_model, trained_arm
from ..result import GUESS, guess_line, make_result
from ..truncation_curves import GAINS, HeadAnswers, by_seed, curve_of, cut_costs, gain_of, warnings_of
from .claims import baseline_claim, below_baseline, cut_claim, head_claims
from .fine_tuned import check_base, named_seeds
from .truncation_plan import NAMES, PreparedTruncation, TruncationOptions, methods, prepare

COST_FIELDS = ("x", "values", "low", "high", "band_low", "band_high")


@dataclass(frozen=True, kw_only=True)
class Truncation(TruncationOptions):
    """
    Score a head at every layer of fine-tuned models (Phang et al. 2021).

    UNTUNED is the tuned encoder cut after a layer, with the tuned head as it is. TUNED trains that head
    further on the layer, with the encoder left as it is. TUNEDORIG trains a newly initialized head on the
    layer of the encoder before it was fine-tuned. A pooler that the head reads is a part of it, unless it is
    kept; that of TUNEDORIG begins as the checkpoint's own, where it has one. The converged arms put a
    converged linear probe in place of the head: logistic regression for classes, ridge regression for
    numbers. UNTUNED is always there: the others are compared with it.

    Heads are trained on the examples that the model itself was trained on; on the training split, with a
    warning, where they are not known. The result has curves over "layers kept"; "difference TUNED" is that of
    TUNED and UNTUNED on the same examples and models, and so of the converged probe.

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> tuned = mt.finetune(base, task, epochs=1)
    >>> [curve.name for curve in mt.truncate(tuned, task).curves]
    ['UNTUNED', 'TUNED', 'TUNED converged', 'difference TUNED', 'difference TUNED converged']
    """

    name = "truncation"

    def plan(self, context: Context) -> Plan:
        """Open models, task and base, and decide what the heads are trained on."""
        inputs = self.open(context)
        base = self.base
        if isinstance(base, str | os.PathLike):
            base = open_model(base, context=context).encoder
        elif base is None and self.seeds is not None:
            base = inputs.encoder
        prepared = None
        if self.seeds is None:
            prepared = prepare(self, inputs, inputs.models, base)
        elif base is not None:
            check_base(base, inputs.depth, inputs.encoder.name)
        arms = list(prepared.arms if prepared else self.arms)
        return self.as_plan(
            inputs,
            f"heads at {inputs.depth} layers: {', '.join(arms)}",
            {"arms": arms, "head_seeds": list(self.head_seeds)},
            (prepared, base),
        )

    def prepared_alone(self, prepared: Any, place: int) -> Any:
        """Heads on the encoder before fine-tuning are trained once, with those of the first model."""
        truncation, base = prepared
        base = base if place == 0 else None
        if truncation is None:
            return None, base
        alone = slice(place, place + 1)
        models, trains = truncation.models[alone], truncation.trains[alone]
        return replace(truncation, models=models, trains=trains, base=base and truncation.base), base

    def run(self, plan: Plan, context: Context) -> Result:
        """Score the cuts, train the heads, and make curves and findings."""
        started = time.monotonic()
        inputs, (prepared, base) = plan.inputs
        if prepared is None:
            prepared = prepare(self, inputs, self.fine_tuned(inputs, context), base)
        arms = _score_arms(prepared, inputs.task, context)
        return _result(prepared, inputs.task, arms, context, started)


truncate = as_function(Truncation, "truncate")


def _score_arms(prepared: PreparedTruncation, task: Task, context: Context) -> dict[str, list[Arm]]:
    """The predictions of every arm, one entry per model."""
    models, recipe, head_seeds = prepared.models, prepared.recipe, prepared.head_seeds
    depth, first = models[0].depth, models[0]
    heads: dict[str, Any] = {"seeds": head_seeds, "still": prepared.still}
    cuts = list(every_truncation(depth).values())
    arms: dict[str, list[Arm]] = {"untuned": []}
    for model in models:
        predictions = cut_answers(model, task, prepared.scored, cuts, context=context)
        arms["untuned"].append(Arm(runs=("tuned",), answers=[predictions], failed=(), details={}))
    for model, train in zip(models, prepared.trains, strict=False):
        vectors = Vectors(source=model, task=task, train=train, split=prepared.scored, context=context)
        if "tuned" in prepared.arms:
            arms.setdefault("tuned", []).append(trained_arm(vectors, recipe, **heads))
        if "converged" in prepared.arms:
            arms.setdefault("converged", []).append(converged_arm(vectors))
    encoder = prepared.base
    if encoder is not None:
        vectors = _base_vectors(prepared, task, context)
        if "tunedorig" in prepared.arms:

            def initialize(seed: int) -> Any:
                return fresh_model(encoder, task, first.task_model, seed)

            arms["tunedorig"] = [trained_arm(vectors, recipe, fresh=initialize, **heads)]
        if "converged" in prepared.arms:
            arms["converged before"] = [converged_arm(vectors)]
    return arms


def _result(
    prepared: PreparedTruncation, task: Task, arms: Mapping[str, list[Arm]], context: Context, started: float
) -> Result:
    models, scored = prepared.models, prepared.scored
    first, depth, seeds = models[0], models[0].depth, named_seeds(models)
    gathered = {
        name: HeadAnswers(
            name=NAMES[name],
            split=scored,
            arms=tuple(entries),
            seeds=seeds if len(entries) == len(models) else (first.seed,),
        )
        for name, entries in arms.items()
    }
    curves = {name: curve_of(arm, task, context) for name, arm in gathered.items()}
    for arm, gain in GAINS.items():
        if arm in gathered:
            curves[gain] = gain_of(gathered[arm], gathered["untuned"], task, context)
    score, scores = find_score(task.main), by_seed(gathered, task)
    costs, lines = cut_costs(gathered["untuned"], task, context), guess_line(task, scored)
    standing = below_baseline(task, gathered["untuned"].at(depth - 1), lines.get(GUESS, math.nan), context)
    if standing is None:
        claims = [cut_claim(costs, score, scores["untuned"]), *head_claims(curves, score, scores, lines)]
    else:
        claims = [baseline_claim(standing, Truncation.name, "the whole model", NAMES["untuned"])]
    return make_result(
        Truncation.name,
        task,
        scored.name,
        started=started,
        model=first.name,
        curves=tuple(curves[name] for name in (*NAMES, *GAINS.values()) if name in curves),
        lines=MappingProxyType(lines),
        rows=tuple(row for arm in gathered.values() for row in arm.rows(task)),
        claims=[*claims, *few_seeds(claims)],
        methods=methods(prepared, task, curves, context),
        references=cited("phang2021"),
        warnings=(*prepared.notes, *warnings_of(gathered.values())),
        more={
            "depth": depth,
            "cost": {
                "each": scores["untuned"] - scores["untuned"][:, -1:],
                **{name: getattr(costs, name) for name in COST_FIELDS},
            },
            **{gain: {"each": scores[gain]} for gain in GAINS.values() if gain in scores},
            "heads": {NAMES[n]: [dict(arm.details) for arm in arms[n]] for n in arms if n != "untuned"},
        },
        provenance={
            "models": [model.digest for model in models],
            "seeds": list(seeds),
            "head_seeds": list(prepared.head_seeds),
            "train": [{"examples": len(t), "digest": t.digest} for t in prepared.trains],
            "recipe": {"name": prepared.recipe.name, **prepared.recipe.specification()},
            "device": first.device,
            "precision": first.precision,
        },
    )


def _base_vectors(prepared: PreparedTruncation, task: Task, context: Context) -> Vectors:
    """Vectors of the encoder before fine-tuning."""
    encoder, model = prepared.base, prepared.models[0]
    # The head is initialized again, so all that counts of it is its kind.
    digest = f"{encoder.digest}|{model.task_model.head}|{type(model.task_model.net).__name__}"
    before = replace(model, name=encoder.name, digest=digest, encoder=encoder)

    def make() -> Any:
        return fresh_model(encoder, task, model.task_model, prepared.head_seeds[0])

    splits: dict[str, Any] = {"train": prepared.trains[0], "split": prepared.scored}
    return Vectors(source=before, task=task, **splits, make=make, context=context)
