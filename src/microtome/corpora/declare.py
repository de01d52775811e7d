"""What does a reader say of itself? Which files it reads, how, and what can be chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from ..errors import must, unknown
from .examples import Example
from .files import File

Read = Callable[[Sequence[File], Mapping[str, Any]], Iterator[Example]]
Locate = Callable[[str, Mapping[str, Any]], tuple[File, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """
    One option of a reader.

    Parameters
    ----------
    default : object
        The value when the user says nothing.
    choices : tuple, optional
        The allowed values.
    check : callable, optional
        Where any value may be given: `check(value)` returns it in its plain form (what JSON can hold), or
        raises the sentence that says what is allowed.
    meaning : str
        One line for the table of readers.
    """

    default: Any
    choices: tuple[Any, ...] | None = None
    check: Callable[[Any], Any] | None = None
    meaning: str

    def read(self, name: str, given: Any) -> Any:
        """Turn what the user gave into a value, or say what is allowed."""
        if self.choices is not None and given not in self.choices:
            raise must(f"option {name}", f"one of {', '.join(map(repr, self.choices))}", given)
        return given if self.check is None else self.check(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """
    How one kind of corpus is read.

    Parameters
    ----------
    name : str
        The name in the table.
    suffixes : tuple of str
        How its files end, in lower case, before .gz, .xz or .bz2.
    summary : str
        What an example is, and where its id, words and group come from.
    read : callable
        `read(files, options)` yields the examples, with ids that never repeat; see
        `microtome.corpora.files.by_file` for readers that know lines.
    options : mapping of str to Option
        What can be chosen.
    nested : bool
        Whether the subfolders of a folder are read too.
    locate : callable, optional
        `locate(source, options)` finds the files; without it, the source is a path.
    """

    name: str
    suffixes: tuple[str, ...]
    summary: str
    read: Read
    options: Mapping[str, Option] = field(default_factory=dict)
    nested: bool = False
    locate: Locate | None = None

    def __post_init__(self) -> None:
        if self.locate is None and not self.suffixes:
            raise must(f"suffixes of the reader {self.name}", "at least one, such as .txt", self.suffixes)
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled; a dict can.
        values = {name: getattr(self, name) for name in self.__slots__}
        return partial(Reader, **{**values, "options": dict(self.options)}), ()

    def choose(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give every option its value, the user's or the default."""
        for name in given:
            if name not in self.options:
                raise unknown(f"option of the reader {self.name}", name, self.options)
        return MappingProxyType(
            {n: o.read(n, given[n]) if n in given else o.default for n, o in self.options.items()}
        )

    def describe(self) -> dict[str, Any]:
        """What a list of readers shows, as plain data."""
        return {
            "name": self.name,
            "suffixes": list(self.suffixes),
            "summary": self.summary,
            "options": {
                name: {
                    "default": option.default,
                    "choices": None if option.choices is None else list(option.choices),
                    "meaning": option.meaning,
                }
                for name, option in self.options.items()
            },
        }
