"""Linear heads of task probing: on the pretrained pooler, or on the vector of models that have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...tasks.task import Task
from ...training.heads.head import Head
from ...training.opening import Model
from .inputs import RANDOM_BASELINE

VECTOR = "the vector itself"


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
