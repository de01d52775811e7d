"""Recovery of cut models: brief fine-tuning on the examples that the model was trained on before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..interventions.applying import apply
from ..interventions.skip import Skip
from ..tasks.task import Task
from ..training.cut_store import digest_model
from ..training.opening import Model
from .examples import trained_part

if TYPE_CHECKING:
    from ..training.cuts import Cut

Recover = Callable[["Cut"], Model]


def recovering(
    model: Model,
    task: Task,
    updates: int,
    *,
    recipe: Any = "devlin2019",
    seed: int = 0,
    **options: Any,
) -> Recover:
    """
    Prepare to tune cuts of a model.

    Parameters
    ----------
    model : Model
        With a head that the library has a class for.
    task : Task
    updates : int
    recipe : str or Recipe
    seed : int
    **options
        Of `finetune`: context, dtype, and values of the recipe.

    Returns
    -------
    callable
        From the blocks that stay to the tuned model. Each is an entry of the store.
    """
    if model.pooling is not None or model.task_model.reader is not None:
        sentence = model.pooling is not None
        problem = "a sentence encoder" if sentence else "a head of its own beside the model"
        raise InputError(
            f"a model to be recovered must have a head of the library, but {model.name} has {problem}."
        )
    learned = trained_part(task, model)

    def recover(kept: Cut) -> Model:
        from ..training.finetuning import finetune

        out = tuple(block for block in range(1, model.depth + 1) if block not in kept)
        tuned = finetune(
            apply(model.encoder, Skip(blocks=out)),
            learned,
            recipe,
            seed=seed,
            head="own",
            **{"steps": updates, "epochs": None, **options},
        )
        dtype = options.get("dtype", model.precision)
        return replace(
            model,
            task_model=tuned.model,
            encoder=tuned.encoder,
            digest=digest_model(tuned.model, tuned.encoder.tokenizer),
            precision=dtype,
        )

    return recover
