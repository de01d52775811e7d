"""What is a task? Splits of examples of one kind, the labels they have, and the scores that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ..errors import InputError, unknown
from ..store.address import address
from .items import Kind, Split


@dataclass(frozen=True, kw_only=True)
class Task:
    """
    A task whose splits are read when they are asked for, each once.

    Parameters
    ----------
    name, title : str
    kind : str
        What its examples look like; see `Item`.
    labels : tuple of str
        Names of the classes, tags or relations, in the order of their numbers.
    scores : tuple of str
        Names of `SCORES`: all that are reported.
    main : tuple of str
        Those whose mean is the score of the task.
    readers : mapping of str to callable
        For each split, what reads it.
    source : str
        Where the data came from: a folder, the hub's id with its revision, a generator with its seed.
    train, validation : str
        The splits to learn from and to be scored on unless others are named.
    range : tuple of float, optional
        Of the numbers of a regression task.
    card : mapping
        What else is told of it: license, citation, hub id, revision and whether it is pinned.
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
        """Names of the splits that can be read."""
        return tuple(self.readers)

    def split(self, name: str, *, labeled: bool = False) -> Split:
        """
        Read a split.

        Parameters
        ----------
        name : str
        labeled : bool
            Whether every example must say what is right.

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
            found = self.readers[name]()
            if not len(found):
                raise InputError(f"{self.name}/{name} must hold examples, but {self.source} has none for it.")
            self._read[name] = found
        if labeled and not self._read[name].labeled:
            hidden = sum(item.target is None for item in self._read[name])
            raise InputError(
                f"{self.name}/{name} must have labels to be learned or scored, but {hidden} of its "
                f"{len(self._read[name])} examples have none."
            )
        return self._read[name]

    def digest(self, *splits: str) -> str:
        """An address of what the task is and of the named splits."""
        told = {
            "kind": self.kind,
            "labels": list(self.labels),
            "scores": list(self.scores),
            "main": list(self.main),
            "range": None if self.range is None else list(self.range),
        }
        return address({"task": told}, [self.split(name).digest for name in splits])
