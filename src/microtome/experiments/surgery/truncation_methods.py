"""Methods paragraph of a truncation."""

from __future__ import annotations

from collections.abc import Mapping

from ...context import Context
from ...findings.results import Curve
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.cuts import depth_of
from ...training.heads.head import Head
from ...training.heads.layer_heads import pooler_names
from ...training.models.stock import trained_pooler
from ...training.opening import Model
from ...version import VERSION
from ..models import named_seeds
from .truncation_plan import PreparedTruncation


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
        f"{context.level * 100:g}% are over examples and, with several seeds, over seeds; bands hold for all "
        f"layers at once. Computed with microtome {VERSION}."
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
