"""Inputs of task probing: a task, and linear heads on the pretrained pooler or on the vector itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...context import Context
from ...errors import InputError, must
from ...findings.words import counted, coverage
from ...scores.table import find_score
from ...tasks.subset import subset
from ...tasks.task import Split, Task
from ...training.heads.head import Head
from ...training.models.stock import SEQUENCE
from ...training.opening import Model, open_task
from ...training.recipe import Recipe, find_recipe
from ..layer_heads import converged_refusal, fitting_sample
from .inputs import RANDOM_BASELINE, ProbingInputs, open_encoders

if TYPE_CHECKING:
    from .probing import Probing

VECTOR = "the vector itself"
RECIPE = "tamkin2020"
# Of the plotted series; the published script names 40.
EPOCHS = 10
# Seed of the sample of training examples, where not all of them are used.
SAMPLE_SEED = 0


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


def open_task_inputs(experiment: Probing, context: Context) -> TaskInputs:
    """Open task and models, put heads on the models, and choose the training examples."""
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
    return fitting_sample(train, models.values(), SAMPLE_SEED)


def head_models(encoders: Mapping[str, Any], task: Task, longest: int) -> dict[str, Model]:
    """
    Put linear heads, initialized from seed 0, on encoders.

    Parameters
    ----------
    encoders : mapping of str to Encoder
        By name; the random baseline has the head of the first.
    task : Task
    longest : int
        Maximum number of tokens of an example.

    Returns
    -------
    dict of str to Model
    """
    from ...training.cut_store import digest_model
    from ...training.models.modeling import build
    from ...training.models.stock import trained_pooler

    models: dict[str, Model] = {}
    for name, encoder in encoders.items():
        first = next(iter(models.values())).task_model.head if name == RANDOM_BASELINE else None
        head = Head(reads="cls", dense=0)
        if first is None or first.reads != "cls":
            if hasattr(encoder, "base") and trained_pooler(encoder) is not None:
                head = Head(reads="pooler", dense=0, pooler="pretrained")
            elif first is not None:
                # The pooler of a checkpoint may lie beside its own weights, so that their copy has none.
                head = Head(reads="pooler", dense=0, pooler="fresh")
        model = build(encoder, task, head, seed=0)
        models[name] = Model(
            name=encoder.name,
            task_model=model,
            longest=longest,
            digest=digest_model(model, encoder.tokenizer),
            encoder=encoder,
        )
    return models


def reads_of(head: Head, *, random: bool = False) -> str:
    """Name what a linear head reads, of a checkpoint or of a random baseline."""
    if head.reads == "cls":
        return VECTOR
    pooler = "a randomly initialized pooler" if random else "the pooler of the checkpoint"
    return f"{pooler} (dense layer and tanh)"


def pooler_note(model: Model) -> str | None:
    """Note on a model whose pooler was not pretrained; None where it was."""
    family = model.task_model.family
    if model.task_model.head.reads == "cls":
        place = "last" if family.reads == "last" else "first"
        return (
            f"{model.name} has no pooler in its checkpoint: its published heads read the vector of the "
            f"{place} token as it is."
        )
    return f"The pooler of {model.name} was {family.pooler}." if family.pooler.startswith("never") else None


def task_methods(experiment: Probing, inputs: TaskInputs, context: Context) -> str:
    """Describe the heads, for a paper."""
    task, recipe, judged = inputs.task, inputs.recipe, inputs.judged
    score = find_score(task.main)
    models = {name: inputs.models[name].task_model for name in inputs.names}
    norm = any(model.family.final_norm is not None for model in models.values())
    parts = [
        f"Every layer of {', '.join(models)}, with all weights frozen, was probed for the labels of "
        f"{task.name}, from the layer's vector of the whole input{' behind the final norm' * norm}. Heads "
        f"were trained on {len(inputs.train):,} examples of {task.name}/{task.train}, of at most "
        f"{recipe.longest} tokens; one pass of each model, in evaluation mode, fed those of all layers."
    ]
    if "published" in inputs.solvers:
        reads = " or ".join(sorted({reads_of(model.head) for model in models.values()}))
        parts.append(
            f"Published heads are a linear layer on {reads}, which is frozen (Tamkin et al. 2020), trained "
            f"by the recipe {recipe.name}: batches of {recipe.batch}, learning rate {recipe.rate:g}, "
            f"{recipe.epochs:g} epoch{'' if recipe.epochs == 1 else 's'} "
            f"({counted(recipe.updates(len(inputs.train)), 'update')}), seeds "
            f"{', '.join(map(str, experiment.probe_seeds))}. So small a rate leaves such a head far from "
            "convergence."
        )
    if "converged" in inputs.solvers:
        parts.append(
            f"Converged heads are {inputs.regression} regression on the vector itself, without a pooler, "
            "with features of variance 1 and a penalty chosen for each layer on held-out training examples."
        )
    if experiment.random_baselines:
        pooler = ", with a pooler of its own" if reads_of(next(iter(models.values())).head) != VECTOR else ""
        parts.append(f"The random baseline is a randomly initialized copy of the first model{pooler}.")
    parts.append(
        f"Scores are {score.name} on {len(judged):,} examples of {judged.name}. Intervals of "
        f"{coverage(context.level)} are over examples and, with several seeds, over head seeds; bands "
        "hold for all layers at once."
    )
    return " ".join(parts)
