"""What is one example of a task, and what is a split of them?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..errors import InputError
from ..store.address import address

Kind = Literal[
    "classification", "regression", "multiple_choice", "span", "tagging", "parsing", "language_modeling"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """
    One example, in the form that its kind of task has.

    Parameters
    ----------
    id : str
        Unique in its split.
    texts : tuple of str
        Classification, regression: one text or two. Span: the question and the passage. Language
        modeling: one text.
    choices : tuple of (tuple of str)
        Multiple choice: the one or two texts of each choice, as the model reads them.
    words : tuple of str
        Tagging and parsing.
    target : object
        Classification: the number of the label. Regression: a number. Multiple choice: the number of the
        right choice. Span: a tuple of (start in characters, text), empty where the passage has no answer.
        Tagging: the number of each word's label. Parsing: for each word (its head, 0 for the root and
        else counted from 1; the number of its relation). None where it is hidden, and for language
        modeling.
    group : str
        Examples of one group share a text, and must not be torn apart; the example's own id when empty.
    """

    id: str
    texts: tuple[str, ...] = ()
    choices: tuple[tuple[str, ...], ...] = ()
    words: tuple[str, ...] = ()
    target: Any = None
    group: str = ""

    def __post_init__(self) -> None:
        if not (self.texts or self.choices or self.words):
            raise InputError(f"an example must have text, but {self.id!r} has none.")
        object.__setattr__(self, "group", self.group or self.id)


@dataclass(frozen=True, kw_only=True)
class Split:
    """
    Examples that are used together.

    Parameters
    ----------
    name : str
        "train", "validation", "test" or another that the task has.
    items : tuple of Item
    notes : tuple of str
        What a reader of results must know, such as that it is a sample of the official split.
    """

    name: str
    items: tuple[Item, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        twice = [key for key, count in Counter(item.id for item in self.items).items() if count > 1]
        if twice:
            raise InputError(f"ids must be unique in a split, but {twice[0]!r} stands twice in {self.name}.")

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    @property
    def labeled(self) -> bool:
        """Whether every example says what is right."""
        return all(item.target is not None for item in self.items)

    @cached_property
    def digest(self) -> str:
        """An address of everything in it."""
        told = [
            [i.id, list(i.texts), [list(c) for c in i.choices], list(i.words), _plain(i.target), i.group]
            for i in self.items
        ]
        return address({"items": told})

    @cached_property
    def groups(self) -> np.ndarray:
        """The number of each example's group, shape (examples,)."""
        places: dict[str, int] = {}
        return np.array([places.setdefault(item.group, len(places)) for item in self.items], dtype=np.int64)


def _plain(target: Any) -> Any:
    if isinstance(target, tuple):
        return [_plain(each) for each in target]
    return target.item() if isinstance(target, np.generic) else target
