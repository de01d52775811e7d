"""Generation of a task with disjoint splits from a grammar."""

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

# The hash of its key assigns a draft to a split. So no two splits can share a draft, at any size and even
# under two seeds, and each is generated independently of the others.
TENTHS: Mapping[str, range] = MappingProxyType(
    {"train": range(8), "validation": range(8, 9), "test": range(9, 10), "held_out": range(10)}
)

# A tenth of the drafts fits even the smallest split; this many misses in a row mean that none is left.
PATIENCE = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """
    A generated example without its label.

    Parameters
    ----------
    key : str
        Drafts with the same key never occur in two splits, nor twice in one.
    texts : tuple of str
    """

    key: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar(Generic[W]):
    """
    A generator of the examples of a task.

    Parameters
    ----------
    name, title : str
    tests : str
        The ability that the task tests.
    labels : tuple of str
        Two labels, each the truth of half of the examples.
    noise : float
        The rate of flipped labels. The Bayes accuracy is 1 - noise.
    version : int
        Incremented by every change of the generated sentences.
    words : callable
        The training lexicon, or the held-out one: words(held_out) -> W.
    draft : callable
        Generates an example with a given true label: draft(words, label, numbers) -> Draft.
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
    Build a task from a grammar.

    Parameters
    ----------
    grammar : Grammar
    seed : int
        The same seed gives the same examples. A smaller split is a prefix of a larger one.
    sizes : mapping of str to int, optional
        Examples per split, where the number differs from the default.

    Returns
    -------
    Task
        Its splits are train, validation, test and held_out, each generated when it is first read.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise must("seed", "a whole number of at least 0", seed)
    split_sizes = dict(SIZES)
    for name, size in (sizes or {}).items():
        if name not in SIZES:
            raise unknown(f"split of {grammar.name}", name, SIZES)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise must(f"sizes[{name!r}]", "a whole number of at least 1", size)
        split_sizes[name] = size
    return Task(
        name=grammar.name,
        title=grammar.title,
        kind="classification",
        labels=grammar.labels,
        scores=("accuracy", "mcc"),
        main=("accuracy",),
        readers=MappingProxyType(
            {n: partial(_write, grammar, seed, n, size) for n, size in split_sizes.items()}
        ),
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
    seen_keys: set[str] = set()
    items: list[Item] = []
    first = 0
    for index in range(size):
        # Labels come in pairs, one of each in random order, so every prefix of a split is balanced.
        if index % 2 == 0:
            first = int(chance(0.5, numbers))
        label = first if index % 2 == 0 else 1 - first
        draft = _new(grammar, words, label, split, seen_keys, numbers)
        target = 1 - label if chance(grammar.noise, numbers) else label
        items.append(Item(id=f"{split}-{index}", texts=draft.texts, target=target))
    notes = ("none of its content words stands in train",) if split == "held_out" else ()
    return Split(name=split, items=tuple(items), notes=notes)


def _new(
    grammar: Grammar[Any], words: object, label: int, split: str, seen_keys: set[str], numbers: Draws
) -> Draft:
    for _ in range(PATIENCE):
        draft = grammar.draft(words, label, numbers)
        if draft.key not in seen_keys and _tenth(draft.key) in TENTHS[split]:
            seen_keys.add(draft.key)
            return draft
    raise InputError(
        f"sizes[{split!r}] must be at most about {len(seen_keys)} for {grammar.name}, "
        "but got more than there are different examples."
    )


def _tenth(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little") % 10
