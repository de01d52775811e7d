"""Experiments on fine-tuned models: given as they are, or fine-tuned first with several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...checks import several
from ...context import Context
from ...errors import InputError, must
from ...findings.words import counted
from ...tasks.subset import subset
from ...tasks.task import Split, Task
from ...training.multi_seed import finetune_seeds
from ...training.opening import Model, open_model, open_models, open_task
from ...training.recipe import Recipe
from ...training.request import check_seeds
from ..base import Experiment, Pieces, Plan, option
from ..grid import TrainingOptions
from ..inputs import TASK_HELP, LoadingOptions, TaskOptions, task_notes

# The recipe of Phang et al. 2021, for models whose own is not known.
RECIPE = "phang2021"


@dataclass(frozen=True, kw_only=True)
class TunedInputs:
    """
    What an experiment on fine-tuned models has opened.

    Parameters
    ----------
    task : Task
    scored : Split
    models : list of Model
        The fine-tuned models; empty where they are to be fine-tuned first.
    encoder : Encoder, optional
        The model to fine-tune first.
    depth : int
    request : TuningRequest, optional
        What the first of these fine-tunings is asked for.
    """

    task: Task
    scored: Split
    models: list[Model] = field(repr=False)
    encoder: Any = field(repr=False, default=None)
    depth: int
    request: Any = field(repr=False, default=None)


@dataclass(frozen=True, kw_only=True)
class FineTunedExperiment(TrainingOptions, TaskOptions, LoadingOptions, Experiment):
    """An experiment on fine-tuned models of one setting, one model per seed."""

    divides = ("tuned",)

    tuned: Any = option(
        "Fine-tuned models, one per seed; with --seeds, one model to fine-tune first.",
        argument=True,
        repeated=True,
        panel="Input",
        metavar="MODEL...",
    )
    task: Any = option(f"{TASK_HELP} May be repeated.", repeated=True, panel="Input", metavar="TASK")
    split: str | None = option("Split to score on; validation when absent.", None, panel="Input")
    seeds: Sequence[int] | None = option("Fine-tune MODEL first with these seeds, as 1,2,3 or 1-3.", None)
    recipe: str | Recipe | None = option(
        "Recipe: a name of `microtome ls recipes`; the model's own, or phang2021, when absent.", None
    )

    def open(self, context: Context, *, trained: Sequence[str] = ()) -> TunedInputs:
        """Open task and models; options named in `trained` need seeds, as those of a fine-tuning do."""
        models = several(self.tuned)
        if self.seeds is not None and len(models) != 1:
            raise must("the number of models", "1 with seeds, since it is fine-tuned first", len(models))
        if self.seeds is None:
            for name in (*trained, "head", "dtype", "revision", "tokenizer"):
                if getattr(self, name) not in (None, {}, type(self).__dataclass_fields__[name].default):
                    raise must(
                        name, "given with seeds, for a model that is fine-tuned first", getattr(self, name)
                    )
        task = open_task(self.task_reference(self.task))
        scored = task.split(self.split or task.validation, labeled=task.kind != "language_modeling")
        if self.seeds is None:
            tuned = open_models(models, task, context=context)
            return TunedInputs(task=task, scored=scored, models=tuned, depth=tuned[0].depth)
        encoder = open_model(self.reference(models[0]), context=context).encoder
        request = check_seeds(encoder, task, self.seeds, **self._training(context))
        return TunedInputs(
            task=task, scored=scored, models=[], encoder=encoder, depth=encoder.depth, request=request
        )

    def as_plan(self, inputs: TunedInputs, work: str, summary: dict[str, Any], prepared: Any = None) -> Plan:
        """Put the plan together: what is scored, what is fine-tuned first, and the work that follows."""
        task, updates = inputs.task, 0
        name = inputs.models[0].name if inputs.models else inputs.encoder.name
        models = len(self.seeds or inputs.models)
        tuning = counted(models, "fine-tuned model")
        if self.seeds:
            recipe, request = self.chosen_recipe(RECIPE), inputs.request
            updates = recipe.updates(len(request.data)) * models
            summary = {"recipe": recipe.name, **summary}
            tuning = (
                f"first fine-tuned with {counted(models, 'seed')}, {counted(updates, 'update')} in all, by "
                f"the recipe {recipe.name} with {_head_name(request.head)}"
            )
        sentence = (
            f"{name}, {inputs.depth} blocks; {task.title}, {inputs.scored.name} "
            f"({len(inputs.scored):,} examples); {tuning}; {work}"
        )
        counts = {
            "models": models,
            "blocks": inputs.depth,
            "examples": len(inputs.scored),
            "updates": updates,
        }
        return Plan(
            name=task.name,
            summary={**counts, **summary},
            sentence=sentence,
            inputs=(inputs, prepared),
            notes=task_notes([task]),
        )

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """One piece for each model: its fine-tuning where it comes first, and the same experiment on it."""
        inputs, prepared = plan.inputs
        models, pieces = sound(inputs.models)[0], {}
        for place, seed in enumerate(self.seeds or range(len(models))):
            alone = self if self.seeds is None else replace(self, seeds=(seed,))
            narrow = replace(inputs, models=models[place : place + 1])
            name = f"seed {seed}" if self.seeds else f"model {seed + 1}"
            alone_plan = replace(plan, inputs=(narrow, self.prepared_alone(prepared, place)))
            pieces[name] = partial(alone.run, alone_plan, context)
        return pieces

    def prepared_alone(self, prepared: Any, place: int) -> Any:
        """What a plan has prepared, for a single model."""
        return prepared

    def fine_tuned(self, inputs: TunedInputs, context: Context) -> list[Model]:
        """The models of the plan; those to be fine-tuned first are, or come from the store."""
        if self.seeds is None:
            return inputs.models
        tuned = finetune_seeds(
            inputs.encoder, inputs.task, self.seeds, context=context, **self._training(context)
        )
        return open_models(tuned, inputs.task, context=context)

    def _training(self, context: Context) -> dict[str, Any]:
        """Options of `finetune`."""
        recipe = self.chosen_recipe(RECIPE)
        return {"recipe": recipe, "train_size": self.train_size, "device": context.device, **self.settings()}


def _head_name(head: Any) -> str:
    return f"the {head} head" if isinstance(head, str) else "a head of its own"


def check_base(base: Any, depth: int, name: str) -> None:
    """Refuse an encoder before fine-tuning that has another number of blocks than the tuned model."""
    if not hasattr(base, "depth"):
        raise must("base", "what microtome.load gives, a hub id or a folder", base)
    blocks = base.depth
    if blocks != depth:
        raise InputError(f"base must have {depth} blocks, as {name} has, but {base.name} has {blocks}.")


def sound(models: Sequence[Model]) -> tuple[list[Model], tuple[str, ...]]:
    """
    Leave out models whose training failed, unless all did.

    Parameters
    ----------
    models : sequence of Model

    Returns
    -------
    models : list of Model
        At least one.
    warnings : tuple of str
        A sentence for each whose training failed.
    """
    remaining = [model for model in models if model.failure is None]
    outcome = "was left out" if remaining else "is looked at although its training failed"
    warnings = tuple(
        f"{model.name}, seed {model.seed} {outcome}: {model.failure}."
        for model in models
        if model.failure is not None
    )
    return remaining or list(models), warnings


def named_seeds(models: Sequence[Model]) -> tuple[int, ...]:
    """Seeds of the models, or their places where two have the same one."""
    seeds = tuple(model.seed for model in models)
    return seeds if len(set(seeds)) == len(seeds) else tuple(range(len(seeds)))


def trained_on(model: Model, task: Task) -> Split | None:
    """
    Find the examples that a model was trained on.

    Parameters
    ----------
    model : Model
    task : Task

    Returns
    -------
    Split or None
        None where no record says which they were, or where they are not in this task's training split.
    """
    if model.train_size is None or task.train not in task.splits:
        return None
    train = task.split(task.train)
    if model.train_size > len(train) or (model.train_size < len(train) and model.train_seed is None):
        return None
    examples = subset(train, model.train_size, seed=model.train_seed or 0)
    return examples if model.train_digest in (None, examples.digest) else None
