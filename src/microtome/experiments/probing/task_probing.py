"""Task probing (Tamkin et al. 2020): linear heads on the vector of the whole input, at every layer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...context import Context
from ...findings.results import Curve, Result
from ...findings.words import counted
from ...probes.dataset import Probed
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.cut_store import as_answers
from ..base import Pieces, Plan
from ..citations import cited
from ..inputs import task_notes
from ..layer_heads import Arm, Vectors, converged_arm, trained_arm
from ..result import guess_line, make_result
from ..truncation_curves import HeadAnswers, curve_of, warnings_of
from .claims import baseline_claims, reading_claims
from .curves import AXIS, difference_facts, layer_differences
from .inputs import RANDOM_BASELINE
from .task_heads import TaskInputs, open_task_inputs, reads_of, task_methods

if TYPE_CHECKING:
    from .probing import Probing

Key = tuple[str, str]


def plan(experiment: Probing, context: Context) -> Plan:
    """Open task and models, put heads on the models, and count examples and updates."""
    inputs = open_task_inputs(experiment, context)
    task, seeds = inputs.task, experiment.probe_seeds
    updates, judged = inputs.recipe.updates(len(inputs.train)), len(inputs.judged)
    heads = {
        "published": f"published heads ({counted(updates, 'update')} of {inputs.recipe.batch}, "
        f"{counted(len(seeds), 'seed')})",
        "converged": f"{inputs.regression}-regression heads",
    }
    return Plan(
        name=task.name,
        summary={
            "target": f"task:{task.name}",
            "models": inputs.names,
            "examples": {"train": len(inputs.train), "judged": judged},
            "solvers": list(inputs.solvers),
            "updates": updates,
            "seeds": list(seeds),
        },
        sentence=f"{task.title}: {' and '.join(heads[solver] for solver in inputs.solvers)}, trained on "
        f"{counted(len(inputs.train), 'example')} of {task.source} and tested on {judged:,} "
        f"({task.validation}), at all layers of {counted(len(inputs.names), 'model')}"
        f"{' and a random baseline' if experiment.random_baselines else ''}",
        inputs=inputs,
        notes=task_notes([task]),
    )


def run(experiment: Probing, plan: Plan, context: Context) -> Result:
    """Train the heads of all layers, and make curves and claims."""
    started, inputs = time.monotonic(), plan.inputs
    task, names, judged = inputs.task, inputs.names, inputs.judged
    arms = {
        key: HeadAnswers(name=f"{key[0]} ({key[1]})", split=judged, arms=(arm,), seeds=(0,))
        for model in inputs.models
        for key, arm in _arms(experiment, inputs, model, inputs.solvers, context).items()
    }
    curves = {key: replace(curve_of(arm, task, context), axis=AXIS) for key, arm in arms.items()}
    differences, missing = _differences(arms, curves, names[0], task, context)
    score, lines = find_score(task.main), guess_line(task, judged)
    return make_result(
        experiment.name,
        task,
        judged.name,
        started=started,
        model=", ".join(names),
        curves=(*curves.values(), *differences),
        lines=MappingProxyType(lines),
        rows=_rows(arms, task),
        claims=(
            *reading_claims(
                [*curves.values(), *differences],
                [curve.name for (name, _), curve in curves.items() if name != RANDOM_BASELINE],
                score,
                task.name,
                lines,
            ),
            *baseline_claims(lines, score),
        ),
        methods=task_methods(experiment, inputs, context),
        references=cited("tamkin2020"),
        warnings=[*inputs.notes, *missing, *warnings_of(arms.values())],
        more={
            "target": f"task:{task.name}",
            "probe": ", ".join(inputs.solvers),
            "examples": {"train": len(inputs.train), "judged": len(judged)},
            "depth": {name: model.depth for name, model in inputs.models.items()},
            "reads": {
                name: reads_of(model.task_model.head, random=name == RANDOM_BASELINE)
                for name, model in inputs.models.items()
            },
            "heads": {arm.name: dict(arm.arms[0].details) for arm in arms.values()},
        },
        provenance={
            "models": {name: model.digest for name, model in inputs.models.items()},
            "seeds": list(experiment.probe_seeds),
            "train": {"examples": len(inputs.train), "digest": inputs.train.digest},
            "recipe": {"name": inputs.recipe.name, **inputs.recipe.specification()},
            "device": inputs.models[names[0]].device,
        },
    )


def pieces(experiment: Probing, plan: Plan, context: Context) -> Pieces:
    """For each model and solver, the heads of all layers."""
    inputs = plan.inputs
    return {
        f"{model} ({solver})": partial(_arms, experiment, inputs, model, [solver], context)
        for model in inputs.models
        for solver in inputs.solvers
    }


def _arms(
    experiment: Probing, inputs: TaskInputs, name: str, solvers: Sequence[str], context: Context
) -> dict[Key, Arm]:
    """Predictions of the heads of all layers of a model, by model and solver."""
    from ...training.heads.layer_heads import pooler_names
    from ...training.models.modeling import build

    model, task = inputs.models[name], inputs.task
    vectors = Vectors(source=model, task=task, train=inputs.train, split=inputs.judged, context=context)
    arms: dict[Key, Arm] = {}
    if "published" in solvers:
        arms[name, "published"] = trained_arm(
            vectors,
            inputs.recipe,
            seeds=experiment.probe_seeds,
            fresh=lambda seed: build(model.encoder, task, model.task_model.head, seed=seed),
            still=pooler_names(model.task_model),
        )
    if "converged" in solvers:
        arms[name, "converged"] = converged_arm(vectors)
    return arms


def _differences(
    arms: Mapping[Key, HeadAnswers], curves: Mapping[Key, Curve], first: str, task: Task, context: Context
) -> tuple[list[Curve], list[str]]:
    """Of the other models and the random baseline from the first, and of converged from published heads."""
    differences, notes = [], []
    pairs = [
        (name, f"{first} ({solver})", (name, solver), (first, solver))
        for name, solver in arms
        if name != first
    ]
    solvers = (first, "converged"), (first, "published")
    if all(key in arms for key in solvers):
        pairs.append((arms[solvers[0]].name, arms[solvers[1]].name, *solvers))
    for left, right, *keys in pairs:
        facts = difference_facts(left, right)
        name = facts["label"]
        sides = [arms[key] for key in keys]
        if len(sides[0].layers) != len(sides[1].layers):
            notes.append(f"{name}: no difference, since they have different numbers of layers.")
        elif any(side.arms[0].failed for side in sides):
            notes.append(f"{name}: no difference, since some heads diverged.")
        else:
            seeds = max((side.arms[0].runs for side in sides), key=len)
            probed = [_probed(side, seeds, task) for side in sides]
            curve = layer_differences(probed[0], probed[1], context, **facts)
            # What is independent in either of them is so in their difference.
            unit = max((curves[key].unit for key in keys), key=lambda unit: bool(unit.runs))
            differences.append(replace(curve, x=sides[0].layers, unit=unit))
    return differences, notes


def _probed(arm: HeadAnswers, seeds: Sequence[int | str], task: Task) -> Probed:
    """Predictions of every layer, repeated for all seeds where heads are deterministic."""
    answers = arm.arms[0].answers
    answers = answers * len(seeds) if len(answers) == 1 else answers
    return Probed(
        answers=tuple(
            as_answers(arm.split, [by_layer[layer] for by_layer in answers], seeds)
            for layer in range(len(arm.layers))
        ),
        score=find_score(task.main),
        labels=task.labels,
    )


def _rows(arms: Mapping[Key, HeadAnswers], task: Task) -> list[dict[str, Any]]:
    rows = []
    for (name, solver), arm in arms.items():
        facts = arm.arms[0].details
        for row in arm.rows(task):
            layer = row["layers_kept"]
            rows.append(
                {
                    "model": name,
                    "solver": solver,
                    "layer": layer,
                    "seed": row["head_seed"],
                    "score": row["score"],
                    "penalty": facts["penalty"][layer - 1] if "penalty" in facts else None,
                }
            )
    return rows
