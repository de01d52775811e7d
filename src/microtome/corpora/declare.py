"""Declaration of corpus readers and their options."""

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
class ReaderOption:
    """
    One option of a reader.

    Parameters
    ----------
    default : object
        The default value.
    choices : tuple, optional
        The allowed values.
    check : callable, optional
        For options without `choices`: `check(value)` returns the value in JSON-serializable form, or raises
        an error that describes the allowed values.
    meaning : str
        One line for the table of readers.
    """

    default: Any
    choices: tuple[Any, ...] | None = None
    check: Callable[[Any], Any] | None = None
    meaning: str

    def read(self, name: str, value: Any) -> Any:
        """Validate the user's value, or raise an error that describes the allowed ones."""
        if self.choices is not None and value not in self.choices:
            raise must(f"option {name}", f"one of {', '.join(map(repr, self.choices))}", value)
        return value if self.check is None else self.check(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """
    A reader of one kind of corpus.

    Parameters
    ----------
    name : str
        The name in the table.
    suffixes : tuple of str
        The suffixes of its files, in lower case, before .gz, .xz or .bz2.
    summary : str
        A description of an example and of the origin of its id, words and group.
    read : callable
        `read(files, options)` yields the examples, with unique ids; see `microtome.corpora.lines.by_file`
        for line-based readers.
    options : mapping of str to ReaderOption
        The options of the reader, by name.
    nested : bool
        Whether the subfolders of a folder are read too.
    locate : callable, optional
        `locate(source, options)` finds the files; without it, the source is a path.
    """

    name: str
    suffixes: tuple[str, ...]
    summary: str
    read: Read
    options: Mapping[str, ReaderOption] = field(default_factory=dict)
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

    def choose(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the value of every option, the user's or the default."""
        for name in values:
            if name not in self.options:
                raise unknown(f"option of the reader {self.name}", name, self.options)
        return MappingProxyType(
            {
                name: option.read(name, values[name]) if name in values else option.default
                for name, option in self.options.items()
            }
        )

    def describe(self) -> dict[str, Any]:
        """Return the description of the reader as plain data, for the list of readers."""
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
