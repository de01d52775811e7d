"""Task cards: the metadata of a task, read from a TOML file whose every key must be known and fit."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from ..errors import InputError
from .task import Kind

T = TypeVar("T")


def read_table(kind: type[T], table: Mapping[str, Any], where: str, path: str = "") -> T:
    """
    Read a table into a dataclass.

    Parameters
    ----------
    kind : type
        A dataclass whose fields have annotations of `_FORMS`, or metadata: `choices` for one of several
        names, `table` for a nested dataclass.
    table : mapping
    where : str
        The name of the file in error messages.
    path : str
        The dotted path of the table, with a dot at its end.

    Returns
    -------
    object
        Of the kind.
    """
    declared = fields(kind)  # pyright: ignore[reportArgumentType]
    names = [key.name for key in declared]
    for key in table:
        if key not in names:
            raise InputError(f"{where} must have no key that cards do not know, but it has {path}{key}.")
    values: dict[str, Any] = {}
    for entry in declared:
        key, choices, nested = entry.name, entry.metadata.get("choices"), entry.metadata.get("table")
        words, fits, convert = _FORMS["table" if nested else "str" if choices else str(entry.type)]
        if choices:
            words, fits = f"one of {', '.join(choices)}", choices.__contains__
        if key in table:
            if not fits(table[key]):
                raise wrong(where, f"{path}{key}", words, table[key])
            values[key] = (
                read_table(nested, table[key], where, f"{path}{key}.") if nested else convert(table[key])
            )
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise InputError(f"{where} must have the key {path}{key}, {words}, but it is missing.")
    return kind(**values)


def wrong(where: str, key: str, allowed: str, got: object) -> InputError:
    """Return the error about an invalid value."""
    return InputError(f"{key} in {where} must be {allowed}, but got {got!r}.")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_names(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return texts and len(set(value)) == len(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_interval(value: Any) -> bool:
    numbers = isinstance(value, list) and all(type(number) in (int, float) for number in value)
    return numbers and len(value) == 2 and value[0] < value[1]


def _table_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


# By the annotation of a field: what it must be, the test, and the conversion.
_FORMS: Mapping[str, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]] = {
    "str": ("a text", _is_text, str.strip),
    "tuple[str, ...]": ("a list of different names", _is_names, tuple),
    "tuple[float, float] | None": (
        "two numbers, the lower first",
        _is_interval,
        lambda value: (float(value[0]), float(value[1])),
    ),
    "Mapping[str, int]": ("a table of counts", _table_of(_is_count), MappingProxyType),
    "Mapping[str, str]": (
        "a table of texts",
        _table_of(lambda value: isinstance(value, str)),
        MappingProxyType,
    ),
    "Columns": (
        "a table of names or lists of them",
        _table_of(lambda value: isinstance(value, str) or (_is_names(value) and bool(value))),
        lambda table: MappingProxyType(
            {k: (v,) if isinstance(v, str) else tuple(v) for k, v in table.items()}
        ),
    ),
    "table": ("a table", lambda value: isinstance(value, dict), dict),
}


Columns = Mapping[str, tuple[str, ...]]

KINDS: tuple[str, ...] = get_args(Kind)

# The allowed roles of columns in each shape of an example, and the required ones.
ROLES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = MappingProxyType(
    {
        "texts": (("text", "pair", "label", "group", "id"), ("text",)),
        "choices": (("text", "choices", "before", "label", "group", "id"), ("text", "choices")),
        "hellaswag": (("text", "choices", "before", "label", "group", "id"), ("text", "choices")),
        "span": (("question", "passage", "answers", "group", "id"), ("question", "passage", "answers")),
        "tags": (("words", "label", "heads", "id"), ("words", "label")),
        "entities": (("words", "label", "id"), ("words", "label")),
        "tree": (("words", "heads", "label", "id"), ("words", "heads", "label")),
        "lines": (("text",), ("text",)),
    }
)
# The shapes of each kind, the default first.
SHAPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "classification": ("texts",),
        "regression": ("texts",),
        "multiple_choice": ("choices", "hellaswag"),
        "span": ("span",),
        "tagging": ("tags", "entities"),
        "parsing": ("tree",),
        "language_modeling": ("lines",),
    }
)
FORMATS = ("tsv", "csv", "jsonl", "squad", "conllu", "conll", "semeval", "text")
CLEANERS = ("strip", "newlines", "quotes")


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


def _choice(*choices: str, default: Any = MISSING) -> Any:
    return field(default=default, metadata={"choices": choices})


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """
    The form of the records of a source, the hub or a folder.

    Parameters
    ----------
    columns : mapping of str to tuple of str
        The columns of each role of `ROLES`; several columns are joined.
    labels : mapping of str to str
        The source's name of a label to the task's name, where they differ.
    clean : tuple of str
        Cleaning steps for each text: "strip" removes white space at its ends, "newlines" unescapes
        backslash-n, "quotes" unescapes doubled quotes.
    skip : tuple of str
        Labels whose examples are left out, as in the publication.
    """

    columns: Columns
    labels: Mapping[str, str] = field(default_factory=_nothing)
    clean: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub(Form):
    """
    The location of a task on the Hugging Face hub, and the form of its records.

    Parameters
    ----------
    id, config : str
    revision : str
        A commit that the source cites; empty if there is none, and the data is unpinned.
    branch : str
        The branch of the data if it is not the main branch; a branch moves, so it pins nothing.
    source : str
        The source of the names of columns and the order of labels.
    splits : mapping of str to str
        The task's name of a split to the hub's name.
    """

    id: str
    config: str = ""
    revision: str = ""
    branch: str = ""
    source: str
    splits: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Local(Form):
    """
    The original files of a task, and the form of their records.

    Parameters
    ----------
    folders : tuple of str
        Usual names of the folder.
    format : str
        One of `FORMATS`.
    formats : mapping of str to str
        Splits with another format.
    files : mapping of str to tuple of str
        Possible file names of each split, the official one first.
    header : tuple of str
        Names of the columns if files have no header line.
    headed : tuple of str
        Splits whose files have a header line nevertheless.
    beside : str
        The suffix of a second file with the labels, one per line.
    broken : str
        "refuse" or "skip" rows with a wrong number of columns.
    whole : tuple of str
        Names of a single file that is divided into splits.
    notes : mapping of str to str
        Notes on a split.
    """

    folders: tuple[str, ...]
    format: str = _choice(*FORMATS)
    formats: Mapping[str, str] = field(default_factory=_nothing)
    files: Columns
    header: tuple[str, ...] = ()
    headed: tuple[str, ...] = ()
    beside: str = ""
    broken: str = _choice("refuse", "skip", default="refuse")
    whole: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """
    A task, without its examples.

    Parameters
    ----------
    name, title, about : str
    kind : str
    shape : str
        The conversion of a record into an example: one of `SHAPES` for the kind.
    labels : tuple of str
        In the order of their numbers; empty if they are collected from the data.
    scores, main : tuple of str
        Names of `SCORES`: all that are reported, and those whose mean is the score of the task.
    range : tuple of float, optional
        The range of the targets of a regression task.
    validation : str
        The default split for evaluation.
    hidden : tuple of str
        Splits that may lack labels.
    license, citation : str
    sizes : mapping of str to int
        The published number of examples, by split.
    hub : Hub, optional
    local : Local
    """

    name: str
    title: str
    about: str
    kind: Kind = _choice(*KINDS)
    shape: str = ""
    labels: tuple[str, ...] = ()
    scores: tuple[str, ...]
    main: tuple[str, ...]
    range: tuple[float, float] | None = None
    validation: str = "validation"
    hidden: tuple[str, ...] = ()
    license: str
    citation: str
    sizes: Mapping[str, int] = field(default_factory=_nothing)
    hub: Hub | None = field(default=None, metadata={"table": Hub})
    local: Local = field(metadata={"table": Local})

    @property
    def pinned(self) -> bool:
        """Whether the revision on the hub is pinned."""
        return self.hub is not None and bool(self.hub.revision)


def read_card(content: str, where: str) -> Card:
    """
    Read a card.

    Parameters
    ----------
    content : str
        TOML.
    where : str
        Its name in error messages.

    Returns
    -------
    Card
    """
    try:
        card = read_table(Card, tomllib.loads(content), where)
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"{where} must be TOML, but got: {problem}.") from problem
    shapes = SHAPES[card.kind]
    card = replace(card, shape=card.shape or shapes[0])
    if card.shape not in shapes:
        raise wrong(where, "shape", f"one of {', '.join(shapes)}", card.shape)
    for name in card.main:
        if name not in card.scores:
            raise wrong(where, "main", f"among scores ({', '.join(card.scores)})", name)
    if card.kind == "classification" and len(card.labels) < 2:
        raise wrong(where, "labels", "at least two names for classification", list(card.labels))
    if (card.range is None) == (card.kind == "regression"):
        needed = "given for regression" if card.range is None else "left out unless the task is regression"
        raise wrong(where, "range", needed, card.range)
    for split, name in card.local.formats.items():
        if name not in FORMATS:
            raise wrong(where, f"local.formats.{split}", f"one of {', '.join(FORMATS)}", name)
    for path, form in (("hub.", card.hub), ("local.", card.local)):
        if form is not None:
            _check_form(form, card.shape, where, path)
    return card


def _check_form(form: Form, shape: str, where: str, path: str) -> None:
    roles, needed = ROLES[shape]
    for role in form.columns:
        if role not in roles:
            raise wrong(where, f"{path}columns", f"made of {', '.join(roles)}", role)
    for role in needed:
        if role not in form.columns:
            raise wrong(where, f"{path}columns", f"made with {', '.join(needed)}", sorted(form.columns))
    for name in form.clean:
        if name not in CLEANERS:
            raise wrong(where, f"{path}clean", f"made of {', '.join(CLEANERS)}", name)
