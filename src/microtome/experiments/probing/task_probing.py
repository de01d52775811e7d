"""Task probing (Tamkin et al. 2020): linear heads on the vector of the whole input, at every layer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...context import Context
from ...encoders.versions import provenance
from ...errors import InputError, must
from ...findings.results import Curve, Result
from ...findings.words import counted
from ...probes.dataset import Probed
from ...scores.table import find_score
from ...tasks.items import Split
from ...tasks.subset import subset
from ...tasks.task import Task
from ...training.cut_store import as_answers
from ...training.models.stock import SEQUENCE
from ...training.opening import Model, open_task
from ...training.recipe import Recipe, find_recipe
from ..base import Plan
from ..citations import cited
from ..inputs import task_notes
from ..layer_heads import Arm, Vectors, converged_arm, converged_refusal, fitting_size, trained_arm
from ..models import guess_line
from ..truncation_curves import HeadAnswers, curve_of
from .claims import baseline_claims, reading_claims
from .curves import AXIS, difference_facts, layer_differences
from .inputs import RANDOM_BASELINE, ProbingInputs, open_encoders
from .methods import task_methods
from .task_heads import head_models, pooler_note, reads_of

if TYPE_CHECKING:
    from .probing import Probing

RECIPE = "tamkin2020"
# Of the plotted series; the published script names 40.
EPOCHS = 10
# Seed of the sample of training examples, where not all of them are used.
SAMPLE_SEED = 0
Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskInputs(ProbingInputs):
    """
    A task, and models with heads for it.

    Parameters
    ----------
    task : Task
    models : mapping of str to Model
    solvers : tuple of {"published", "converged"}
    recipe : Recipe
        Of published heads.
    train, judged : Split
    notes : tuple of str
        Warnings of the result.
    """

    task: Task
    models: Mapping[str, Model] = field(repr=False)
    solvers: tuple[str, ...]
    recipe: Recipe
    train: Split = field(repr=False)
    judged: Split = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def regression(self) -> str:
        """The kind of regression of converged heads."""
        return "ridge" if self.task.kind == "regression" else "logistic"


def plan(experiment: Probing, context: Context) -> Plan:
    """Open task and models, put heads on the models, and count examples and updates."""
    inputs = _open(experiment, context)
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
        for key, arm in _arms(experiment, inputs, context).items()
    }
    curves = {key: replace(curve_of(arm, task, context), axis=AXIS) for key, arm in arms.items()}
    differences, missing = _differences(arms, curves, names[0], task, context)
    score, lines = find_score(task.main), guess_line(task, judged)
    return Result(
        experiment=experiment.name,
        model=", ".join(names),
        task=task.name,
        split=judged.name,
        score=score.name,
        points=score.points,
        higher_is_better=score.higher_is_better,
        curves=(*curves.values(), *differences),
        lines=MappingProxyType(lines),
        rows=tuple(_rows(arms, task)),
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
        warnings=tuple(dict.fromkeys([*inputs.notes, *missing, *_warnings(arms)])),
        more=MappingProxyType(
            {
                "target": f"task:{task.name}",
                "probe": ", ".join(inputs.solvers),
                "examples": {"train": len(inputs.train), "judged": len(judged)},
                "depth": {name: model.depth for name, model in inputs.models.items()},
                "reads": {
                    name: reads_of(model.task_model.head, random=name == RANDOM_BASELINE)
                    for name, model in inputs.models.items()
                },
                "heads": {arm.name: dict(arm.arms[0].details) for arm in arms.values()},
            }
        ),
        provenance=MappingProxyType(
            provenance(
                {
                    "models": {name: model.digest for name, model in inputs.models.items()},
                    "seeds": list(experiment.probe_seeds),
                    "task": task.digest(judged.name),
                    "task_source": task.source,
                    "train": {"examples": len(inputs.train), "digest": inputs.train.digest},
                    "recipe": {"name": inputs.recipe.name, **inputs.recipe.specification()},
                    "device": inputs.models[names[0]].device,
                    "seconds": round(time.monotonic() - started, 3),
                    "command": context.command,
                }
            )
        ),
    )


def _open(experiment: Probing, context: Context) -> TaskInputs:
    recipe = find_recipe(RECIPE, epochs=EPOCHS if experiment.epochs is None else experiment.epochs)
    target = experiment.target
    name = target.removeprefix("task:") if isinstance(target, str) else target
    task = open_task(experiment.task_reference(name))
    if task.kind not in SEQUENCE:
        raise InputError(
            "a task that is probed must have one label per input (classification, regression, multiple "
            f"choice), but {task.name} is {task.kind.replace('_', ' ')}."
        )
    solvers, notes = _possible(experiment.solvers, task)
    judged = task.split(task.validation, labeled=True)
    encoders = open_encoders(experiment, context)
    models = head_models(encoders, task, recipe.longest)
    if "published" in solvers:
        notes += [
            note
            for name, model in models.items()
            if name != RANDOM_BASELINE and (note := pooler_note(model)) is not None
        ]
    train, sampled = _train_split(task, models, experiment.train_size)
    return TaskInputs(
        encoders=encoders,
        task=task,
        models=models,
        solvers=solvers,
        recipe=recipe,
        train=train,
        judged=judged,
        notes=(*notes, *sampled),
    )


def _possible(solvers: Sequence[str], task: Task) -> tuple[tuple[str, ...], list[str]]:
    """The solvers that the task supports, and why others are left out."""
    refusal = converged_refusal(task.kind) if "converged" in solvers else None
    if refusal is None:
        return tuple(solver for solver in ("published", "converged") if solver in solvers), []
    if "published" not in solvers:
        raise InputError(refusal)
    return ("published",), [f"converged was left out: {refusal}"]


def _train_split(task: Task, models: Mapping[str, Model], size: int | None) -> tuple[Split, list[str]]:
    """The same training examples for all models: as many as were asked for, or as fit into memory."""
    train = task.split(task.train, labeled=True)
    if size is not None:
        if size > len(train):
            raise must("train_size", f"at most {len(train):,}, the size of {task.name}/{task.train}", size)
        return subset(train, size, seed=SAMPLE_SEED), []
    fitting = [fits for model in models.values() if (fits := fitting_size(model, train)) is not None]
    if not fitting:
        return train, []
    part = subset(train, min(fitting), seed=SAMPLE_SEED)
    return part, [
        f"Heads were trained on a random sample of {len(part):,} of {len(train):,} examples (seed "
        f"{SAMPLE_SEED}): the vectors of more would not fit into memory."
    ]


def _arms(experiment: Probing, inputs: TaskInputs, context: Context) -> dict[Key, Arm]:
    """Predictions of the heads of all layers, by model and solver."""
    from ...training.heads.layer_heads import pooler_names
    from ...training.models.modeling import build

    arms: dict[Key, Arm] = {}
    for name, model in inputs.models.items():
        split: dict[str, Any] = {"train": inputs.train, "split": inputs.judged}
        vectors = Vectors(source=model, task=inputs.task, **split, context=context)
        if "published" in inputs.solvers:

            def initialize(seed: int, model: Model = model) -> Any:
                return build(model.encoder, inputs.task, model.task_model.head, seed=seed)

            arms[name, "published"] = trained_arm(
                vectors,
                inputs.recipe,
                seeds=experiment.probe_seeds,
                fresh=initialize,
                still=pooler_names(model.task_model),
            )
        if "converged" in inputs.solvers:
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


def _warnings(arms: Mapping[Key, HeadAnswers]) -> list[str]:
    warnings = []
    for arm in arms.values():
        heads = arm.arms[0]
        warnings += [
            f"{arm.name}, layer {layer}, seed {seed} was left out: {why}."
            for layer, seed, why in heads.failed
        ]
        unconverged = [
            str(place + 1) for place, done in enumerate(heads.details.get("converged", ())) if not done
        ]
        if unconverged:
            warnings.append(f"{arm.name} did not converge at layer {', '.join(unconverged)}.")
    return warnings
