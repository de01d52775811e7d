"""How does a grammar become a task? It drafts examples until every split has its own, and shares none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from ...errors import InputError, must, unknown
from ..items import Item, Split
from ..task import Task
from .draws import Draws, chance, draws

W = TypeVar("W")

SIZES: Mapping[str, int] = MappingProxyType(
    {"train": 8000, "validation": 1000, "test": 1000, "held_out": 1000}
)

# A draft belongs to the split that the hash of its key names. So no two splits can share a draft, at any
# size and even under two seeds, and each is written without looking at the others.
TENTHS: Mapping[str, range] = MappingProxyType(
    {"train": range(8), "validation": range(8, 9), "test": range(9, 10), "held_out": range(10)}
)

# A tenth of the drafts fits even the smallest split; so many misses in a row mean that no new one is left.
PATIENCE = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """
    What a grammar writes.

    Parameters
    ----------
    key : str
        Drafts of one key never stand in two splits, and never twice in one.
    texts : tuple of str
    """

    key: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar(Generic[W]):
    """
    What writes the examples of a task.

    Parameters
    ----------
    name, title : str
    tests : str
        What a model must be able to do.
    labels : tuple of str
        Two, each the truth of half of the examples.
    noise : float
        How often a label says the contrary of the truth. The best possible accuracy is 1 - noise.
    version : int
        Raised by every change that changes a sentence.
    words : callable
        The lexicon of training, or the one that is held out: words(held_out) -> W.
    draft : callable
        Writes an example whose truth is a given label: draft(words, label, numbers) -> Draft.
    """

    name: str
    title: str
    tests: str
    labels: tuple[str, str]
    noise: float = 0.0
    version: int
    words: Callable[[bool], W]
    draft: Callable[[W, int, Draws], Draft]


def build(grammar: Grammar[Any], seed: int = 0, sizes: Mapping[str, int] | None = None) -> Task:
    """
    Make a task of a grammar.

    Parameters
    ----------
    grammar : Grammar
    seed : int
        The same seed gives the same examples. A smaller split is the beginning of a larger one.
    sizes : mapping of str to int, optional
        Examples in each split, for those that shall not have the usual size.

    Returns
    -------
    Task
        Its splits are train, validation, test and held_out, each written when it is first read.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise must("seed", "a whole number of at least 0", seed)
    wanted = dict(SIZES)
    for name, size in (sizes or {}).items():
        if name not in SIZES:
            raise unknown(f"split of {grammar.name}", name, SIZES)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise must(f"sizes[{name!r}]", "a whole number of at least 1", size)
        wanted[name] = size
    return Task(
        name=grammar.name,
        title=grammar.title,
        kind="classification",
        labels=grammar.labels,
        scores=("accuracy", "mcc"),
        main=("accuracy",),
        readers=MappingProxyType({n: partial(_write, grammar, seed, n, size) for n, size in wanted.items()}),
        source=f"generated, seed {seed}",
        card=MappingProxyType(
            {
                "license": "Apache-2.0",
                "tests": grammar.tests,
                "bayes": 1.0 - grammar.noise,
                "version": grammar.version,
            }
        ),
    )


def _write(grammar: Grammar[Any], seed: int, split: str, size: int) -> Split:
    numbers = draws(seed, "tasks", grammar.name, split)
    words = grammar.words(split == "held_out")
    kept: set[str] = set()
    items: list[Item] = []
    first = 0
    for place in range(size):
        # Labels come in pairs, one of each in random order, so every beginning of a split is balanced.
        if place % 2 == 0:
            first = int(chance(0.5, numbers))
        label = first if place % 2 == 0 else 1 - first
        draft = _new(grammar, words, label, split, kept, numbers)
        target = 1 - label if chance(grammar.noise, numbers) else label
        items.append(Item(id=f"{split}-{place}", texts=draft.texts, target=target))
    notes = ("none of its content words stands in train",) if split == "held_out" else ()
    return Split(name=split, items=tuple(items), notes=notes)


def _new(
    grammar: Grammar[Any], words: object, label: int, split: str, kept: set[str], numbers: Draws
) -> Draft:
    for _ in range(PATIENCE):
        draft = grammar.draft(words, label, numbers)
        if draft.key not in kept and _tenth(draft.key) in TENTHS[split]:
            kept.add(draft.key)
            return draft
    raise InputError(
        f"sizes[{split!r}] must be at most about {len(kept)} for {grammar.name}, "
        "but got more than there are different examples."
    )


def _tenth(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little") % 10
