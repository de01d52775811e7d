"""Examples of a corpus, the rules by which they are split into words, and the declaration of readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from ..errors import InputError, must, unknown
from .files import File

RULES: Mapping[str, str] = MappingProxyType(
    {
        "given": "the words that the corpus itself has",
        "whitespace": "the text, split at white space as str.split does",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """
    One sentence, line or record with its id.

    Parameters
    ----------
    id : str
        Unique in its corpus.
    text : str or None
        None only where the corpus has words and no text.
    pair : str or None
        The second text of a text pair.
    words : tuple of str, or None
        None where the corpus has text and no words; see `words_of`.
    marks : mapping of str to (tuple of str, or str)
        Further annotations: a tuple with one value per word (such as upos), or one value for the whole
        example (such as a label).
    group : str, optional
        The cluster of the example, such as its document; the example's id when absent.
    """

    id: str
    text: str | None = None
    pair: str | None = None
    words: tuple[str, ...] | None = None
    marks: Mapping[str, tuple[str, ...] | str] = field(default_factory=dict, hash=False)
    group: str = ""

    def __post_init__(self) -> None:
        if self.text is None and self.words is None:
            raise InputError(f"an example must have a text or words, but {self.id!r} has neither.")
        object.__setattr__(self, "marks", MappingProxyType(dict(self.marks)))
        object.__setattr__(self, "group", self.group or self.id)

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled; a dict can.
        values = {name: getattr(self, name) for name in self.__slots__}
        return partial(Example, **{**values, "marks": dict(self.marks)}), ()


def words_of(
    example: Example, rule: str = "whitespace", *, side: Literal["text", "pair"] = "text"
) -> tuple[str, ...]:
    """
    Return the words of an example by the given rule.

    Parameters
    ----------
    example : Example
    rule : str
        One of `RULES`.
    side : {"text", "pair"}
        Which of the two texts to split. Given words always belong to the first text.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> words_of(Example(id="1", text="Cut it,  thin!"))
    ('Cut', 'it,', 'thin!')
    >>> words_of(Example(id="1", words=("Cut", "it", ",", "thin", "!")), "given")
    ('Cut', 'it', ',', 'thin', '!')
    """
    if rule not in RULES:
        raise unknown("rule", rule, RULES)
    if side not in ("text", "pair"):
        raise unknown("side", side, ("text", "pair"))
    if rule == "given":
        if example.words is None or side == "pair":
            whose = "its pair" if side == "pair" else "it"
            raise InputError(
                f"rule must be whitespace for example {example.id!r}, but got 'given', and {whose} has no "
                "given words."
            )
        return example.words
    text = example.text if side == "text" else example.pair
    if text is None:
        raise InputError(f"example {example.id!r} must have a {side} to be split, but it has none.")
    return tuple(text.split())


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
