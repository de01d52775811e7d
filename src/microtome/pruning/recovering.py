"""Recovery of cut models: brief fine-tuning on the examples that the model was trained on before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..context import Context
from ..errors import InputError
from ..interventions.applying import apply
from ..interventions.skip import Skip
from ..tasks.task import Task
from ..training.cut_store import digest_model
from ..training.cuts import Cut
from ..training.opening import Model
from .examples import trained_part


def check_recoverable(model: Model) -> None:
    """Refuse a model whose head no class of the library has."""
    if model.pooling is not None or model.task_model.reader is not None:
        problem = "a sentence encoder" if model.pooling is not None else "a head of its own beside the model"
        raise InputError(
            f"a model to be recovered must have a head of the library, but {model.name} has {problem}."
        )


def recover_cut(model: Model, task: Task, cut: Cut, options: Any, context: Context) -> Model:
    """
    Fine-tune a cut of a model.

    Parameters
    ----------
    model : Model
    task : Task
    cut : tuple of int
        The blocks that stay.
    options : Pruning
        The number of updates, recipe, seed and precision of the fine-tuning.
    context : Context

    Returns
    -------
    Model
        An entry of the store.
    """
    from ..training.finetuning import finetune

    out = tuple(block for block in range(1, model.depth + 1) if block not in cut)
    tuned = finetune(
        apply(model.encoder, Skip(blocks=out)),
        trained_part(task, model),
        options.recipe,
        seed=options.seed,
        head="own",
        context=context,
        dtype=options.dtype,
        **{"steps": options.recover, "epochs": None, **options.changes},
    )
    return replace(
        model,
        task_model=tuned.model,
        encoder=tuned.encoder,
        digest=digest_model(tuned.model, tuned.encoder.tokenizer),
        precision=options.dtype,
    )
