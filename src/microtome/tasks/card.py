"""Task cards: the metadata of a task, read from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, get_args

from ..errors import InputError
from .items import Kind
from .strict import StrictTable

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

_EMPTY: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> Mapping[str, str]:
    return _EMPTY


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
class Hub:
    """
    The location of a task on the Hugging Face hub.

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
    form : Form
    """

    id: str
    config: str = ""
    revision: str = ""
    branch: str = ""
    source: str
    splits: Mapping[str, str]
    form: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """
    The form of the original files of a task.

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
    form : Form
    """

    folders: tuple[str, ...]
    format: str
    formats: Mapping[str, str] = field(default_factory=_nothing)
    files: Mapping[str, tuple[str, ...]]
    header: tuple[str, ...] = ()
    headed: tuple[str, ...] = ()
    beside: str = ""
    broken: str = "refuse"
    whole: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=_nothing)
    form: Form


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
    kind: Kind
    shape: str
    labels: tuple[str, ...]
    scores: tuple[str, ...]
    main: tuple[str, ...]
    range: tuple[float, float] | None
    validation: str
    hidden: tuple[str, ...]
    license: str
    citation: str
    sizes: Mapping[str, int] = field(hash=False)
    hub: Hub | None = field(hash=False)
    local: Local = field(hash=False)

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
        top = StrictTable(tomllib.loads(content), where)
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"{where} must be TOML, but got: {problem}.") from problem
    kind = top.one_of("kind", KINDS)
    shape = top.one_of("shape", SHAPES[kind], SHAPES[kind][0])
    labels = top.names("labels", ())
    scores = top.names("scores")
    main = top.names("main")
    for name in main:
        if name not in scores:
            raise top.wrong("main", f"among scores ({', '.join(scores)})", name)
    if kind == "classification" and len(labels) < 2:
        raise top.wrong("labels", "at least two names for classification", list(labels))
    card = Card(
        name=top.text("name"),
        title=top.text("title"),
        about=top.text("about"),
        kind=kind,  # pyright: ignore[reportArgumentType]
        shape=shape,
        labels=labels,
        scores=scores,
        main=main,
        range=top.interval("range") if kind == "regression" else None,
        validation=top.text("validation", "validation"),
        hidden=top.names("hidden", ()),
        license=top.text("license"),
        citation=top.text("citation"),
        sizes=top.counts("sizes"),
        hub=_hub(top.inner("hub"), shape) if "hub" in top else None,
        local=_local(top.inner("local"), shape),
    )
    top.done()
    return card


def _hub(table: StrictTable, shape: str) -> Hub:
    hub = Hub(
        id=table.text("id"),
        config=table.text("config", ""),
        revision=table.text("revision", ""),
        branch=table.text("branch", ""),
        source=table.text("source"),
        splits=table.texts("splits"),
        form=_form(table, shape),
    )
    table.done()
    return hub


def _local(table: StrictTable, shape: str) -> Local:
    local = Local(
        folders=table.names("folders"),
        format=table.one_of("format", FORMATS),
        formats=table.texts("formats", _EMPTY),
        files=table.several("files"),
        header=table.names("header", ()),
        headed=table.names("headed", ()),
        beside=table.text("beside", ""),
        broken=table.one_of("broken", ("refuse", "skip"), "refuse"),
        whole=table.names("whole", ()),
        notes=table.texts("notes", _EMPTY),
        form=_form(table, shape),
    )
    for split, name in local.formats.items():
        if name not in FORMATS:
            raise table.wrong(f"formats.{split}", f"one of {', '.join(FORMATS)}", name)
    table.done()
    return local


def _form(table: StrictTable, shape: str) -> Form:
    columns = table.several("columns")
    roles, needed = ROLES[shape]
    for role in columns:
        if role not in roles:
            raise table.wrong("columns", f"made of {', '.join(roles)}", role)
    for role in needed:
        if role not in columns:
            raise table.wrong("columns", f"made with {', '.join(needed)}", sorted(columns))
    clean = table.names("clean", ())
    for name in clean:
        if name not in CLEANERS:
            raise table.wrong("clean", f"made of {', '.join(CLEANERS)}", name)
    return Form(
        columns=columns, labels=table.texts("labels", _EMPTY), clean=clean, skip=table.names("skip", ())
    )
