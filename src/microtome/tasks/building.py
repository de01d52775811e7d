"""Building of a task from a card and the records of its splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from ..corpora.hub import SCHEME, HubRows, prepare
from ..errors import InputError
from .card import Card, Form, Hub
from .shaping import Shaping, collect_labels, shape
from .task import Split, Task

Notes = Callable[[str, int], tuple[str, ...]]


class RecordSource(Protocol):
    """The records of a split: a file, or rows of the hub."""

    skipped: int

    def __iter__(self) -> Any: ...
    def refuse(self, must: str, but: str) -> InputError:
        """Return the error about the current record."""
        ...


class HubRecords:
    """
    The rows of a split of a dataset on the hub, reread on each iteration.

    Parameters
    ----------
    hub : Hub
    split : str
        The task's name of the split.
    folder : str, optional
        A folder in the form of the hub, to be read instead.
    revision : str, optional
        The user's choice of a commit, tag or branch.
    """

    def __init__(self, hub: Hub, split: str, *, folder: str = "", revision: str | None = None) -> None:
        self._hub, self._split, self._folder, self._revision = hub, split, folder, revision
        self._rows: Any = None
        self.path = Path(folder) if folder else None
        self.skipped = 0

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        hub = self._hub
        revision = None if self._folder else self._revision or hub.revision or hub.branch or None
        options = {"config": hub.config or None, "split": hub.splits[self._split], "revision": revision}
        self._rows = HubRows(prepare(f"{SCHEME}{self._folder or hub.id}", options))
        return iter(self._rows)

    def refuse(self, must: str, but: str) -> InputError:
        """Return the error about the current row."""
        if self._rows is None:
            return InputError(f"{self._folder or self._hub.id} must {must}, but {but}.")
        return self._rows.refuse(must, but)


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
        labels = collect_labels(form, cached)
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
