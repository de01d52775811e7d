"""Tasks of one kind with their labels and scores, and the splits of examples that they read on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from ..checks import check_distinct
from ..errors import InputError, unknown
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


@dataclass(frozen=True, kw_only=True)
class Task:
    """
    A task whose splits are read on demand, each once.

    Parameters
    ----------
    name, title : str
    kind : str
        The form of its examples; see `Item`.
    labels : tuple of str
        Names of the classes, tags or relations, in the order of their numbers.
    scores : tuple of str
        Names of `SCORES`: all that are reported.
    main : tuple of str
        Those whose mean is the score of the task.
    readers : mapping of str to callable
        The function that reads each split.
    source : str
        The origin of the data: a folder, a hub id with its revision, a generator with its seed.
    train, validation : str
        The default splits for training and evaluation.
    range : tuple of float, optional
        The range of the targets of a regression task.
    card : mapping
        Further facts: license, citation, hub id, revision and whether it is pinned.
    """

    name: str
    title: str
    kind: Kind
    labels: tuple[str, ...] = ()
    scores: tuple[str, ...]
    main: tuple[str, ...]
    readers: Mapping[str, Callable[[], Split]] = field(repr=False)
    source: str
    train: str = "train"
    validation: str = "validation"
    range: tuple[float, float] | None = None
    card: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    _read: dict[str, Split] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the available splits."""
        return tuple(self.readers)

    def split(self, name: str, *, labeled: bool = False) -> Split:
        """
        Read a split.

        Parameters
        ----------
        name : str
        labeled : bool
            Whether every example must have a target.

        Returns
        -------
        Split
        """
        if name == self.train and self.readers and name not in self.readers:
            raise InputError(
                f"{self.name} must have a split {name!r} to learn from, but it has "
                f"{' and '.join(self.readers)} alone."
            )
        if name not in self.readers:
            raise unknown(f"split of {self.name}", name, self.readers)
        if name not in self._read:
            loaded = self.readers[name]()
            if not len(loaded):
                raise InputError(f"{self.name}/{name} must hold examples, but {self.source} has none for it.")
            self._read[name] = loaded
        if labeled and not self._read[name].labeled:
            hidden = sum(item.target is None for item in self._read[name])
            raise InputError(
                f"{self.name}/{name} must have labels to be learned or scored, but {hidden} of its "
                f"{len(self._read[name])} examples have none."
            )
        return self._read[name]

    def digest(self, *splits: str) -> str:
        """Hash the definition of the task and the named splits."""
        specification = {
            "kind": self.kind,
            "labels": list(self.labels),
            "scores": list(self.scores),
            "main": list(self.main),
            "range": None if self.range is None else list(self.range),
        }
        return address({"task": specification}, [self.split(name).digest for name in splits])
