"""Building of a task from a card and the records of its splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from ..errors import InputError
from .card import Card, Form
from .items import Split
from .reading.shaping import Shaping, found_labels, shape
from .task import Task

Notes = Callable[[str, int], tuple[str, ...]]


class RecordSource(Protocol):
    """The records of a split: a file, or rows of the hub."""

    skipped: int

    def __iter__(self) -> Any: ...
    def refuse(self, must: str, but: str) -> InputError:
        """Return the error about the current record."""
        ...


def build_task(
    card: Card,
    sources: Mapping[str, RecordSource],
    form: Form,
    *,
    source: str,
    notes: Notes,
    joined: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> Task:
    """
    Build a task whose splits are converted when they are first read.

    Parameters
    ----------
    card : Card
    sources : mapping of str to RecordSource
        The records of each split.
    form : Form
        The form of the records.
    source : str
        The origin of the data.
    notes : callable
        `notes(split, examples)` returns notes on a split.
    joined : bool
        As in `Shaping`.
    facts : mapping, optional
        Facts of the task's card besides the license and the citation.

    Returns
    -------
    Task
    """
    labels, cached = card.labels, {}
    if card.kind in ("tagging", "parsing") and not labels:
        # The records are read once for the labels and cached: a treebank is small.
        cached = {split: list(records) for split, records in sources.items()}
        labels = found_labels(form, cached)
    elif card.kind == "multiple_choice" and not labels:
        raise InputError(f"{card.name} must name the places of its choices as labels, but its card does not.")

    def read(split: str) -> Split:
        records = sources[split]
        how = Shaping(card=card, form=form, labels=labels, split=split, refuse=records.refuse, joined=joined)
        items, skipped = shape(cached.get(split) or records, how)
        lines = list(notes(split, len(items)))
        if records.skipped:
            lines.append(f"{records.skipped:,} rows with a wrong number of columns were left out")
        if skipped:
            lines.append(f"{skipped:,} examples without an agreed label were left out, as published")
        return Split(name=split, items=items, notes=tuple(lines))

    about = {"about": card.about, "license": card.license, "citation": card.citation}
    return Task(
        name=card.name,
        title=card.title,
        kind=card.kind,
        labels=() if card.kind == "multiple_choice" else labels,
        scores=card.scores,
        main=card.main,
        readers=MappingProxyType({split: partial(read, split) for split in sources}),
        source=source,
        validation=card.validation,
        range=card.range,
        card=MappingProxyType({**about, **(facts or {})}),
    )
