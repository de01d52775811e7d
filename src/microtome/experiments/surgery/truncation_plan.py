"""Preparation of a truncation, and how it is described: which heads are trained, on what, by which recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...checks import several
from ...context import Context
from ...errors import must
from ...findings.results import Curve
from ...findings.words import coverage
from ...scores.table import find_score
from ...tasks.subset import subset
from ...tasks.task import Split, Task
from ...training.cuts import depth_of
from ...training.heads.head import Head
from ...training.heads.head_inputs import heads_refusal
from ...training.heads.layer_heads import pooler_names
from ...training.models.stock import trained_pooler
from ...training.opening import Model
from ...training.recipe import Recipe, find_recipe
from ...training.tuned import RUN
from ..base import option
from ..layer_heads import converged_refusal, fitting_sample
from .fine_tuned import RECIPE, FineTunedExperiment, TunedInputs, check_base, named_seeds, sound, trained_on

ARMS = ("untuned", "tuned", "tunedorig", "converged")
POOLER = ("trained", "kept")
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "untuned": "UNTUNED",
        "tuned": "TUNED",
        "tunedorig": "TUNEDORIG",
        "converged": "TUNED converged",
        "converged before": "TUNEDORIG converged",
    }
)


@dataclass(frozen=True, kw_only=True)
class TruncationOptions(FineTunedExperiment):
    """Options of a truncation."""

    base: Any = option("Model before fine-tuning, for the arm tunedorig.", None, panel="Input")
    arms: Sequence[str] = option(
        "Heads to score: the fine-tuned head as it is (untuned), trained further at each layer (tuned), "
        "trained on the model before fine-tuning (tunedorig), or logistic regression (converged).",
        ARMS,
        choices=ARMS,
    )
    head_seeds: Sequence[int] = option("Seeds of the trained heads.", (0, 1, 2))
    pooler: str = option(
        "Pooler that a head reads, in TUNED and TUNEDORIG: trained with the head, or kept.",
        "trained",
        choices=POOLER,
    )
    train_seed: int | None = option(
        "Seed of the sample of training examples; that of the model's own when absent.", None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTruncation:
    """
    A truncation that can begin.

    Parameters
    ----------
    models : list of Model
        The tuned models that are sound.
    scored : Split
        What is scored on.
    recipe : Recipe
        Of the heads.
    head_seeds : tuple of int
    arms : list of str
    base : Encoder, optional
        The encoder before fine-tuning, where an arm reads it.
    trains : list of Split
        What the heads of each model learn from; empty where none does.
    recorded : bool
        Whether these are the examples that the models were trained on.
    still : frozenset of str
        Names of the weights of heads that are not trained.
    notes : tuple of str
        What a reader must know.
    """

    models: list[Model]
    scored: Split
    recipe: Recipe
    head_seeds: tuple[int, ...]
    arms: list[str]
    base: Any
    trains: list[Split]
    recorded: bool
    still: frozenset[str]
    notes: tuple[str, ...]


def prepare(
    truncation: TruncationOptions, inputs: TunedInputs, models: Sequence[Model], base: Any
) -> PreparedTruncation:
    """
    Decide what the heads of a truncation are trained on, and refuse what cannot work.

    Parameters
    ----------
    truncation : Truncation
        The options.
    inputs : TunedInputs
    models : sequence of Model
        The fine-tuned models.
    base : Encoder, optional
        The encoder before fine-tuning.

    Returns
    -------
    PreparedTruncation
    """
    task = inputs.task
    sound_models, failures = sound(models)
    arms = ["untuned", *(arm for arm in ARMS[1:] if arm in truncation.arms)]
    arms, notes = _possible(arms, task.kind, base)
    notes = [*failures, *notes]
    recipe = find_recipe(truncation.recipe or _recipe_of(truncation), **truncation.changes)
    encoder, train_splits, recorded = None, [], True
    if arms != ["untuned"]:
        if base is not None:
            check_base(base, sound_models[0].depth, sound_models[0].name)
            encoder = base
        # Models that are fine-tuned here know their examples, which groups may make fewer than the size.
        size = None if truncation.seeds else truncation.train_size
        train_splits, recorded, sizes = _train_splits(task, sound_models, size, truncation.train_seed)
        notes += sizes
        recipe.rising(recipe.updates(len(train_splits[0])))
    return PreparedTruncation(
        models=sound_models,
        scored=inputs.scored,
        recipe=recipe,
        head_seeds=tuple(truncation.head_seeds),
        arms=arms,
        base=encoder,
        trains=train_splits,
        recorded=recorded,
        still=pooler_names(sound_models[0].task_model) if truncation.pooler == "kept" else frozenset(),
        notes=tuple(notes),
    )


def _possible(arms: list[str], kind: str, base: Any) -> tuple[list[str], list[str]]:
    """Leave out arms that the kind of task or a missing base does not allow, with a note for each."""
    refused, notes = {}, []
    for arm in arms[1:]:
        reason = converged_refusal(kind) if arm == "converged" else heads_refusal(kind)
        if arm == "tunedorig" and base is None:
            reason = "TUNEDORIG must be given the encoder before fine-tuning (base), but there is none."
        if reason is not None:
            refused[arm] = reason
            notes.append(f"{NAMES[arm]} was left out: {reason}")
    if "converged" in arms and "converged" not in refused and base is None and "tunedorig" not in arms:
        notes.append("TUNEDORIG converged was left out: the encoder before fine-tuning (base) was not given.")
    return [arm for arm in arms if arm not in refused], list(dict.fromkeys(notes))


def _recipe_of(truncation: TruncationOptions) -> str | Recipe:
    """The recipe that the models themselves were fine-tuned with, where it is known."""
    first = several(truncation.tuned)[0]
    if isinstance(getattr(first, "recipe", None), Recipe):
        return first.recipe
    if truncation.seeds is None and isinstance(first, str | Path) and (Path(first) / RUN).is_file():
        record = json.loads((Path(first) / RUN).read_text())
        values = record["recipe_values"]
        return Recipe(name=record["recipe"], **{**values, "betas": tuple(values["betas"])})
    return RECIPE


def _train_splits(
    task: Task, models: Sequence[Model], size: int | None, seed: int | None
) -> tuple[list[Split], bool, list[str]]:
    """What heads of each model learn from: what the model itself did, where that is known."""
    splits, recorded, notes = [], True, []
    for model in models:
        train = trained_on(model, task)
        if train is None:
            recorded = False
            train = task.split(task.train, labeled=True)
            notes.append(
                f"Which examples {model.name} was trained on is not known: its heads learned from "
                f"{task.name}/{task.train}, which may be more."
            )
        subset_seed = (model.train_seed or 0) if seed is None else seed
        if size is not None:
            if size > len(train):
                raise must("train_size", f"at most {len(train):,}, what {model.name} was trained on", size)
            splits.append(subset(train, size, seed=subset_seed))
            continue
        sample, more = fitting_sample(train, [model], subset_seed)
        splits.append(sample)
        notes += more
    return splits, recorded, list(dict.fromkeys(notes))


def methods(prepared: PreparedTruncation, task: Task, curves: Mapping[str, Curve], context: Context) -> str:
    """
    Write how the heads were trained and what was scored.

    Parameters
    ----------
    prepared : PreparedTruncation
    task : Task
    curves : mapping of str to Curve
        By the name of the arm.
    context : Context

    Returns
    -------
    str
    """
    models, scored, recipe = prepared.models, prepared.scored, prepared.recipe
    head_seeds, trains = prepared.head_seeds, prepared.trains
    score, first = find_score(task.main), models[0]
    norm = " behind its final norm" if first.task_model.family.final_norm is not None else ""
    count = f"{len(models)} models trained with seeds {', '.join(map(str, named_seeds(models)))}"
    parts = [
        f"{first.name} ({count if len(models) > 1 else 'one model'}) was cut after each of its "
        f"{depth_of(first.task_model)} layers, and its tuned head read the states of that layer{norm} "
        f"(UNTUNED; Phang et al. 2021){_length(first)}. One pass of the encoder fed the head at every "
        "layer."
    ]
    if trains:
        length = f"{recipe.updates(len(trains[0])):,} updates"
        whose = (
            f" that {'each' if len(models) > 1 else 'the'} model was trained on," if prepared.recorded else ""
        )
        parts.append(
            f"Heads were trained on {len(trains[0]):,} examples of {task.name}/{task.train},{whose} with the "
            f"encoder left as it was, in evaluation mode, by the recipe {recipe.name}: batches of "
            f"{recipe.batch}, learning rate {recipe.rate:g}, {length}, head seeds "
            f"{', '.join(map(str, head_seeds))}."
        )
    if "tuned" in curves:
        parts.append(
            f"TUNED heads began as the tuned head{_pooler(prepared)}; their difference from it is that on "
            "the same examples and models, and its band has Bonferroni's correction for the number of layers."
        )
    if "tunedorig" in curves:
        parts.append(f"TUNEDORIG heads, on the encoder before fine-tuning, {_initialized(prepared)}.")
    if "converged" in curves:
        solver = "ridge regression" if task.kind == "regression" else "logistic regression"
        parts.append(
            f"Converged linear probes are {solver} on what the head reads, with features of variance 1 and a "
            "penalty chosen for each layer within the training examples: by 5-fold cross-validation, or, for "
            "classes with more than 12,500 rows, by fitting 10,000 and predicting others."
        )
    parts.append(
        f"Scored was {score.name} on {len(scored):,} examples of {scored.name}. Intervals of "
        f"{coverage(context.level)} are over examples and, with several seeds, over seeds; bands hold for "
        "all layers at once."
    )
    return " ".join(parts)


def _length(model: Model) -> str:
    """How long inputs were, where the model says how it was trained."""
    return (
        "" if model.longest is None else f", on inputs of at most {model.longest} tokens, as in its training"
    )


def _pooler(prepared: PreparedTruncation) -> str:
    """What is trained of a head that reads a pooler."""
    if not pooler_names(prepared.models[0].task_model):
        return ""
    if prepared.still:
        return ", of which the pooler was kept as fine-tuning left it, and the rest was trained"
    return ", and its pooler was trained with it"


def _initialized(prepared: PreparedTruncation) -> str:
    """What is newly initialized and what is trained, on the encoder before fine-tuning."""
    like = prepared.models[0].task_model
    if not pooler_names(like):
        return "were newly initialized"
    fresh = isinstance(like.head, Head) and like.reader is not None and like.head.pooler == "fresh"
    trained = "kept as it was" if prepared.still else "trained with it"
    absent = trained_pooler(prepared.base) is None
    if fresh or absent:
        why = ", since the checkpoint has none" if absent else ""
        return f"were newly initialized; the pooler was initialized too{why}, and was {trained}"
    return (
        f"were newly initialized, but for the pooler, which began as that of the checkpoint and was {trained}"
    )
