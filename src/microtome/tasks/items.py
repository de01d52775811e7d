"""Examples of tasks, and splits of examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..checks import check_distinct
from ..errors import InputError
from ..scores.declare import Kind as Kind
from ..store.address import address


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """
    One example of a task.

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
        else counted from 1; the number of its relation). None if it is hidden, and for language
        modeling.
    group : str
        Examples of one group share a text, and must stay in the same split; by default the example's id.
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
        Notes for readers of results, such as that it is a sample of the official split.
    """

    name: str
    items: tuple[Item, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_distinct(f"ids of {self.name}", (item.id for item in self.items))

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    @property
    def labeled(self) -> bool:
        """Whether every example has a target."""
        return all(item.target is not None for item in self.items)

    @cached_property
    def digest(self) -> str:
        """Hash of all examples."""
        contents = [
            [i.id, list(i.texts), [list(c) for c in i.choices], list(i.words), _plain(i.target), i.group]
            for i in self.items
        ]
        return address({"items": contents})

    @cached_property
    def groups(self) -> np.ndarray:
        """The number of each example's group, shape (examples,)."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(item.group, len(numbers)) for item in self.items], dtype=np.int64)


def _plain(target: Any) -> Any:
    if isinstance(target, tuple):
        return [_plain(part) for part in target]
    return target.item() if isinstance(target, np.generic) else target
