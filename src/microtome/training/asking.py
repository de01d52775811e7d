"""What exactly is a fine-tuning asked to do? Every input resolved, and the address that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..encoders.encoder import Encoder, TransformerEncoder
from ..errors import InputError, must
from ..interventions.freeze import frozen_names
from ..store.address import address
from ..tasks.items import Split
from ..tasks.subset import subset
from ..tasks.task import Task
from .heads import Head
from .recipe import Recipe, find_recipe
from .tuned import Seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """
    A fine-tuning that can begin.

    Parameters
    ----------
    encoder : TransformerEncoder
    task : Task
    recipe : Recipe
    seeds : Seeds
    data, judged : Split
        What is learned from, and what is scored on.
    longest : int
        Tokens of an example at most.
    stride : int, optional
        How far windows of a passage overlap.
    checkpoints : "epochs" or tuple of int
        After which updates the model is kept.
    head : str or Head
    frozen : frozenset of str
        Names of the parameters of the encoder, below its base model, that stay as they are.
    cached : bool
        Whether the frozen bottom is run once.
    specification : mapping
        All of it as plain data, from which the address is made.
    """

    encoder: TransformerEncoder
    task: Task
    recipe: Recipe
    seeds: Seeds
    data: Split
    judged: Split
    longest: int
    stride: int | None
    checkpoints: str | tuple[int, ...]
    head: str | Head
    frozen: frozenset[str]
    cached: bool
    specification: Mapping[str, Any]

    @property
    def address(self) -> str:
        """Where the run is in a store."""
        return address(self.specification)


def ask(
    encoder: Encoder,
    task: Task,
    recipe: str | Recipe = "devlin2019",
    *,
    seed: int = 0,
    seeds: Mapping[str, int] | None = None,
    train_size: int | None = None,
    head: str | Head | None = None,
    method: str = "full",
    cached: bool = False,
    device: str = "cpu",
    precision: str = "float32",
    checkpoints: str | Sequence[int] = (),
    processes: int = 1,
    abreast: bool = False,
    **values: Any,
) -> Asked:
    """
    Resolve what `finetune` is called with.

    Parameters
    ----------
    encoder, task, recipe, seed, seeds, train_size, head, method, cached, device, precision, checkpoints
        As in `finetune`.
    processes : int
        That train together.
    abreast : bool
        Whether the model trains as a part of a larger one.
    **values
        Other values of the recipe.

    Returns
    -------
    Asked
    """
    import torch

    if not isinstance(encoder, TransformerEncoder):
        raise InputError(f"{encoder.name} must be a model of transformers to be fine-tuned, but is an ELMo.")
    if not isinstance(cached, bool):
        raise must("cached", "true or false", cached)
    chosen = find_recipe(recipe, **values)
    given = {"init": seed, "order": seed, "subset": seed, **(seeds or {})}
    if set(given) - {"init", "order", "subset"}:
        raise must("seeds", "for init, order and subset", ", ".join(sorted(given)))
    drawn = Seeds(**given)
    data = task.split(task.train, labeled=task.kind != "language_modeling")
    judged = task.split(task.validation, labeled=task.kind != "language_modeling")
    if train_size is not None:
        data = subset(data, train_size, seed=drawn.subset)
    at = _asked_updates(checkpoints)
    wanted = chosen.head if head is None else head
    frozen = frozen_names(encoder)
    specification: dict[str, Any] = {
        "version": 2,
        "model": encoder.digest,
        "task": task.digest(task.validation),
        "train": data.digest,
        "recipe": chosen.specification(),
        "seeds": {"init": drawn.init, "order": drawn.order, "subset": drawn.subset},
        "head": wanted if isinstance(wanted, str) else _fields(wanted),
        "method": method,
        "device": str(device).partition(":")[0],
        "precision": precision,
        "checkpoints": at if isinstance(at, str) else list(at),
    }
    if specification["device"] == "cpu":
        # Sums are split among threads, so their number shows in the last bits.
        specification["threads"] = torch.get_num_threads()
    if processes > 1:
        specification["processes"] = processes
    if frozen:
        specification["frozen"] = address({"frozen": sorted(frozen)})
    if cached:
        specification["cached"] = True
    if abreast:
        specification["abreast"] = True
    return Asked(
        encoder=encoder,
        task=task,
        recipe=chosen,
        seeds=drawn,
        data=data,
        judged=judged,
        longest=_longest(chosen, task, encoder),
        stride=chosen.stride if task.kind == "span" else None,
        checkpoints=at,
        head=wanted,
        frozen=frozen,
        cached=cached,
        specification=specification,
    )


def _longest(recipe: Recipe, task: Task, encoder: TransformerEncoder) -> int:
    wanted = recipe.longest_span if task.kind == "span" else recipe.longest
    most = encoder.tokenizer.longest
    return wanted if most is None else min(wanted, most)


def _asked_updates(asked: str | Sequence[int]) -> str | tuple[int, ...]:
    if isinstance(asked, str):
        if asked != "epochs":
            raise must("checkpoints", "'epochs' or numbers of updates", asked)
        return asked
    return tuple(sorted(set(asked)))


def _fields(head: Head) -> dict[str, Any]:
    return {name: getattr(head, name) for name in head.__slots__}
