"""Tasks: splits of examples of one kind, their labels and their scores."""

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
