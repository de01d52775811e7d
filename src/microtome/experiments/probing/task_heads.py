"""What does a linear head read of each model? Its pretrained pooler, or the vector where it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import must
from ...tasks.task import Task
from ...training.heads import POOLED, Head
from ..layer_similarity import twin_of
from ..models import Opened

VECTOR = "the vector itself"
_BARE = Head(reads="cls", dense=0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read:
    """
    A model whose layers are read.

    Parameters
    ----------
    one : Opened
        With a linear head drawn from seed 0.
    head : Head
    """

    one: Opened
    head: Head

    @property
    def depth(self) -> int:
        """How many layers are read."""
        return len(self.one.model.family.blocks_of(self.one.model.base))

    def fresh(self, task: Task, seed: int) -> Any:
        """The same model with a head that is drawn from another seed."""
        from ...training.modeling import build

        return build(self.one.encoder, task, self.head, seed=seed)


def ready(
    encoder: Any, others: Sequence[Any], task: Task, *, longest: int, twin: str | None, device: str
) -> dict[str, Read]:
    """
    Put linear heads on models, and on the random twin of the first.

    Parameters
    ----------
    encoder : Encoder, hub id or folder
    others : sequence of Encoder, hub id or folder
    task : Task
    longest : int
        Tokens of an example at most.
    twin : str, optional
        What the twin is called; none when absent.
    device : str
        For models that are given by their folders.

    Returns
    -------
    dict of str to Read
        By name, in the order given, the twin last.
    """
    from ...encoders.loading import load
    from ...extraction.extracting import as_encoder

    if isinstance(others, str) or not isinstance(others, Sequence):
        raise must("others", "a list of models", others)
    given: list[Any] = [
        load(one, device=device) if isinstance(one, str) or hasattr(one, "__fspath__") else as_encoder(one)
        for one in (encoder, *others)
    ]
    if len({one.name for one in given}) < len(given):
        raise must("models", "named differently", [one.name for one in given])
    found = {one.name: _read(one, task, longest, _head(one)) for one in given}
    if twin is not None:
        first = given[0]
        drawn = twin_of(first, twin)
        found[twin] = _read(drawn, task, longest, _head(drawn, found[first.name].head))
    return found


def _head(encoder: Any, like: Head | None = None) -> Head:
    from ...training.stock import trained_pooler

    if like == _BARE:
        return _BARE
    if hasattr(encoder, "base") and trained_pooler(encoder) is not None:
        return Head(reads="pooler", dense=0, pooler="pretrained")
    # The twin of a model whose pooler lies beside its own weights has none until one is drawn.
    return _BARE if like is None else Head(reads="pooler", dense=0, pooler="fresh")


def _read(encoder: Any, task: Task, longest: int, head: Head) -> Read:
    from ...training.cut_store import digest_model
    from ...training.modeling import build

    model = build(encoder, task, head, seed=0)
    one = Opened(
        name=encoder.name,
        model=model,
        tokenizer=encoder.tokenizer,
        longest=longest,
        digest=digest_model(model, encoder.tokenizer),
        encoder=encoder,
    )
    return Read(one=one, head=head)


def reads_of(head: Any, *, drawn: bool = False) -> str:
    """Say what a linear head reads, and whether all weights of its model are drawn."""
    if head.reads == "cls":
        return VECTOR
    return f"{'a pooler that was drawn' if drawn else 'the pooler of the checkpoint'} (dense layer and tanh)"


def pooler_note(each: Read) -> str | None:
    """What a reader must know of a model whose pooler was not trained before; None where it was."""
    name, family = each.one.name, each.one.model.family
    if each.head.reads == "cls":
        place = "last" if family.reads == "last" else "first"
        return (
            f"{name} has no pooler in its checkpoint: its published heads read the vector of the {place} "
            "token as it is."
        )
    told = POOLED[family.name]
    return f"The pooler of {name} was {told}." if told.startswith("never") else None
