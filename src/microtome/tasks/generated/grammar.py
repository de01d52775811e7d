"""Grammars of the generated tasks, and English inflection for their lexicons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from types import MappingProxyType, SimpleNamespace
from typing import Any, TypeVar

from ...checks import whole_number
from ...errors import InputError, unknown
from ...randomness import generator
from ..task import Item, Split, Task

IRREGULAR: Mapping[str, str] = MappingProxyType(
    {"child": "children", "freshman": "freshmen", "craftsman": "craftsmen"}
)


def words_in(text: str) -> tuple[str, ...]:
    """Split a text into its words."""
    return tuple(text.split())


def with_s(word: str) -> str:
    """
    Return the plural of a noun, or the third person of a verb.

    Examples
    --------
    >>> [with_s(word) for word in ("nurse", "baby", "boy", "coach", "child")]
    ['nurses', 'babies', 'boys', 'coaches', 'children']
    """
    if word in IRREGULAR:
        return IRREGULAR[word]
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


def with_article(phrase: str) -> str:
    """
    Put the indefinite article before a phrase.

    Examples
    --------
    >>> with_article("owl"), with_article("wet owl")
    ('an owl', 'a wet owl')
    """
    return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"


def sentence(text: str) -> str:
    """Add a capital at the beginning and a period at the end."""
    return f"{text[0].upper()}{text[1:]}."


T = TypeVar("T")
Draws = Iterator[float]

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

# Every fifth entry of a lexicon is held out for the split with words that are unseen in training.
HELD_OUT_EVERY = 5


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
class Grammar:
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
    lexicon : mapping of str to (sequence, or mapping)
        Lists of words by their names; of a mapping, whole entries are held out.
    draft : callable
        Generates an example with a given true label: draft(words, label, numbers) -> Draft, where the
        attributes of `words` are the lists of the lexicon.
    """

    name: str
    title: str
    tests: str
    labels: tuple[str, str]
    noise: float = 0.0
    version: int
    lexicon: Mapping[str, Sequence[Any] | Mapping[str, Any]]
    draft: Callable[[Any, int, Draws], Draft]


def draws(seed: int, *names: str | int) -> Draws:
    """
    Generate an infinite stream of uniform numbers.

    A number from a list costs a fiftieth of a call to the generator, and a sentence needs dozens.

    Parameters
    ----------
    seed : int
    *names : str or int
        The purpose of the numbers.

    Returns
    -------
    iterator of float
        Each at least 0 and below 1.
    """
    source = generator(seed, *names)
    while True:
        yield from source.random(4096).tolist()


def chance(rate: float, numbers: Draws) -> bool:
    """Return True with a given probability."""
    return next(numbers) < rate


def pick(options: Sequence[T], numbers: Draws) -> T:
    """Choose one option uniformly."""
    return options[int(next(numbers) * len(options))]


def several(options: Sequence[T], count: int, numbers: Draws) -> list[T]:
    """
    Choose distinct options, in random order.

    Examples
    --------
    >>> sorted(several("abc", 3, draws(0, "letters")))
    ['a', 'b', 'c']
    """
    indices: list[int] = []
    while len(indices) < count:
        index = int(next(numbers) * len(options))
        if index not in indices:
            indices.append(index)
    return [options[index] for index in indices]


def part(words: Sequence[T], held_out: bool) -> tuple[T, ...]:
    """
    Return the training words, or the held-out ones: every fifth.

    Examples
    --------
    >>> part("abcdefgh", False), part("abcdefgh", True)
    (('a', 'b', 'c', 'd', 'f', 'g', 'h'), ('e',))
    """
    last = HELD_OUT_EVERY - 1
    return tuple(word for i, word in enumerate(words) if (i % HELD_OUT_EVERY == last) == held_out)


def vocabulary(grammar: Grammar, *, held_out: bool) -> SimpleNamespace:
    """Return the training words of a grammar, or the held-out ones: one attribute per list of its lexicon."""
    lists = {
        name: tuple(entries.items()) if isinstance(entries, Mapping) else entries
        for name, entries in grammar.lexicon.items()
    }
    return SimpleNamespace(**{name: part(entries, held_out) for name, entries in lists.items()})


def build(grammar: Grammar, seed: int = 0, sizes: Mapping[str, int] | None = None) -> Task:
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
    seed = whole_number("seed", seed, 0)
    split_sizes = dict(SIZES)
    for name, size in (sizes or {}).items():
        if name not in SIZES:
            raise unknown(f"split of {grammar.name}", name, SIZES)
        split_sizes[name] = whole_number(f"sizes[{name!r}]", size, 1)
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


def _write(grammar: Grammar, seed: int, split: str, size: int) -> Split:
    numbers = draws(seed, "tasks", grammar.name, split)
    words = vocabulary(grammar, held_out=split == "held_out")
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
    grammar: Grammar, words: object, label: int, split: str, seen_keys: set[str], numbers: Draws
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
