"""Recovery of cut models: brief fine-tuning on the examples that the model was trained on before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..interventions.applying import apply
from ..interventions.skip import Skip
from ..tasks.task import Task
from .examples import trained_part
from .opening import Subject

if TYPE_CHECKING:
    from ..training.cuts import Cut

Recover = Callable[["Cut"], Subject]


def recovering(
    subject: Subject,
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
    subject : Subject
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
    if subject.pooling is not None or subject.model.reader is not None:
        sentence = subject.pooling is not None
        problem = "a sentence encoder" if sentence else "a head of its own beside the model"
        raise InputError(
            f"a model to be recovered must have a head of the library, but {subject.name} has {problem}."
        )
    learned = trained_part(task, subject)

    def recover(kept: Cut) -> Subject:
        from ..training.finetuning import finetune

        out = tuple(block for block in range(1, subject.depth + 1) if block not in kept)
        tuned = finetune(
            apply(subject.encoder, Skip(blocks=out)),
            learned,
            recipe,
            seed=seed,
            head="own",
            **{"steps": updates, "epochs": None, **options},
        )
        dtype = options.get("dtype", subject.dtype)
        return replace(subject, model=tuned.model, encoder=tuned.encoder, dtype=dtype)

    return recover
