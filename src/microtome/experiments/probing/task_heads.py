"""Linear heads of task probing: on the pretrained pooler, or on the vector of models that have none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...tasks.task import Task
from ...training.heads.head import Head
from ...training.opening import Model
from .inputs import RANDOM_BASELINE

VECTOR = "the vector itself"
_BARE = Head(reads="cls", dense=0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadModel:
    """
    A model with a linear head, whose layers are probed.

    Parameters
    ----------
    opened : Model
        With a head initialized from seed 0.
    head : Head
    """

    opened: Model
    head: Head

    @property
    def depth(self) -> int:
        """Number of blocks."""
        return self.opened.depth

    def fresh(self, task: Task, seed: int) -> Any:
        """The same model with a head initialized from another seed."""
        from ...training.models.modeling import build

        return build(self.opened.encoder, task, self.head, seed=seed)


def head_models(encoders: Mapping[str, Any], task: Task, longest: int) -> dict[str, HeadModel]:
    """
    Put linear heads on encoders.

    Parameters
    ----------
    encoders : mapping of str to Encoder
        By name; the random baseline has the head of the first.
    task : Task
    longest : int
        Maximum number of tokens of an example.

    Returns
    -------
    dict of str to HeadModel
    """
    models: dict[str, HeadModel] = {}
    for name, encoder in encoders.items():
        like = next(iter(models.values())).head if name == RANDOM_BASELINE else None
        models[name] = _head_model(encoder, task, longest, _head(encoder, like))
    return models


def _head(encoder: Any, like: Head | None = None) -> Head:
    from ...training.models.stock import trained_pooler

    if like == _BARE:
        return _BARE
    if hasattr(encoder, "base") and trained_pooler(encoder) is not None:
        return Head(reads="pooler", dense=0, pooler="pretrained")
    # The copy of a model whose pooler lies beside its own weights has none until one is initialized.
    return _BARE if like is None else Head(reads="pooler", dense=0, pooler="fresh")


def _head_model(encoder: Any, task: Task, longest: int, head: Head) -> HeadModel:
    from ...training.cut_store import digest_model
    from ...training.models.modeling import build

    model = build(encoder, task, head, seed=0)
    opened = Model(
        name=encoder.name,
        task_model=model,
        longest=longest,
        digest=digest_model(model, encoder.tokenizer),
        encoder=encoder,
    )
    return HeadModel(opened=opened, head=head)


def reads_of(head: Any, *, random: bool = False) -> str:
    """Name what a linear head reads, of a checkpoint or of a random baseline."""
    if head.reads == "cls":
        return VECTOR
    pooler = "a randomly initialized pooler" if random else "the pooler of the checkpoint"
    return f"{pooler} (dense layer and tanh)"


def pooler_note(model: HeadModel) -> str | None:
    """Note on a model whose pooler was not pretrained; None where it was."""
    name, family = model.opened.name, model.opened.task_model.family
    if model.head.reads == "cls":
        place = "last" if family.reads == "last" else "first"
        return (
            f"{name} has no pooler in its checkpoint: its published heads read the vector of the {place} "
            "token as it is."
        )
    return f"The pooler of {name} was {family.pooler}." if family.pooler.startswith("never") else None
