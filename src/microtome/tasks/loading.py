"""Loading of tasks from original files, the hub, a generator or a user's table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ..arguments import checked
from ..corpora.hub import SCHEME
from ..errors import InputError, must, unknown
from .building import HubRecords, build_task
from .card import Card, read_card
from .formats import Records, SplitFile, beside, find_files, find_whole
from .own import own_task
from .subset import cut
from .table import TASKS, names, resolve
from .task import Task

# Shares of the splits of a single text file; documents are not divided.
_SHARES = {"validation": 0.01, "test": 0.01}


@checked
def task(
    name: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    seed: int = 0,
    **own: Any,
) -> Task:
    """
    Load a task.

    Parameters
    ----------
    name : str or path
        The name of a task (`microtome ls tasks`); the path of a user's card (.toml); or the path of a user's
        table, a .csv, .tsv or .jsonl file or a folder with train, validation and test files of these
        formats, compressed or not.
    data : path, optional
        A folder with the original files, or one that has it under its usual name (RTE, SST-2, ...);
        "hub:FOLDER" for a folder in the form of the hub. By default the data comes from the hub.
    revision : str, optional
        Branch, tag or commit of the hub.
    seed : int
        The seed of generated tasks, and of the division of a single file into splits.
    **own
        For a user's table: text, label and, for two texts, pair: names of columns; group: the column whose
        values keep examples in the same split; kind: "classification" or "regression", by default inferred
        from the labels; labels: names of the classes in their order. See `microtome.tasks.own.own_task`.

    Returns
    -------
    Task
        Its splits are read on demand.

    Examples
    --------
    >>> task("polarity", seed=1).splits
    ('train', 'validation', 'test', 'held_out')
    """
    identifier = os.fspath(name)
    table_name = resolve(identifier)
    if table_name is None and identifier.endswith(".toml"):
        path = Path(identifier)
        if not path.is_file():
            raise must("a card", "a file that exists", identifier)
        try:
            card = read_card(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as problem:
            raise InputError(f"{path} must be a card in UTF-8, but got: {problem}.") from problem
        if data is None and card.hub is None:
            data = path.parent
    elif table_name is not None:
        card = TASKS[table_name]
    else:
        return _without_card(identifier, data, revision, seed, own)
    _no_more(own, card.name)
    if data is not None and not os.fspath(data).startswith(SCHEME):
        if revision is not None:
            raise must("revision", "left out for local files", revision)
        return _from_files(card, os.fspath(data), seed)
    return _from_hub(card, "" if data is None else os.fspath(data).removeprefix(SCHEME), revision)


def as_task(value: Any) -> Task:
    """Return a task as it is, or load it by its name."""
    if isinstance(value, Task):
        return value
    if not isinstance(value, (str, os.PathLike)):
        raise must("task", "a task or the name of one", type(value).__name__)
    return task(value)


def _without_card(identifier: str, data: Any, revision: Any, seed: int, options: dict[str, Any]) -> Task:
    if Path(identifier).exists():
        for what, value in (("data", data), ("revision", revision)):
            if value is not None:
                raise must(what, "left out for a table of one's own", value)
        return own_task(identifier, seed=seed, **options)
    from .generated.table import GENERATED

    if identifier not in GENERATED and Path(identifier).suffix:
        raise must("task", "a file that exists, or a name of `microtome ls tasks`", identifier)
    if identifier not in GENERATED:
        raise unknown("task", identifier, names())
    sizes = options.pop("sizes", None)
    _no_more(options, identifier)
    if data is not None or revision is not None:
        raise InputError(f"data and revision must be left out for {identifier}, which is generated.")
    return GENERATED[identifier](seed=seed, sizes=sizes)


def _no_more(options: Mapping[str, Any], name: str) -> None:
    if options:
        raise InputError(
            f"{', '.join(options)} must be left out for {name}: a card says which columns are what."
        )


def _pins(card: Card, revision: str | None = None) -> dict[str, Any]:
    pin = revision or (card.hub.revision if card.hub else "") or None
    return {"hub": card.hub.id if card.hub else None, "revision": pin, "pinned": pin is not None}


def _sized(card: Card, split: str, count: int) -> tuple[str, ...]:
    published = card.sizes.get(split)
    if published is None or published == count:
        return ()
    return (f"{count:,} of {published:,} published examples",)


def _from_hub(card: Card, folder: str, revision: str | None) -> Task:
    hub = card.hub
    if hub is None:
        raise InputError(f"data must be a folder for {card.name}, which is not on the hub, but got None.")
    if folder:
        if revision is not None:
            raise must("revision", "left out for a folder", revision)
        source = f"{SCHEME}{folder}"
    else:
        pin = revision or hub.revision
        where = f"{hub.id}/{hub.config}" if hub.config else hub.id
        source = f"{SCHEME}{where}" + (f"@{pin}" if pin else f"@{hub.branch or 'main'} (unpinned)")
    sources = {split: HubRecords(hub, split, folder=folder, revision=revision) for split in hub.splits}
    return build_task(
        card,
        sources,
        hub,
        source=source,
        notes=lambda split, count: _sized(card, split, count),
        facts=_pins(card, revision),
    )


def _from_files(card: Card, data: str, seed: int) -> Task:
    local = card.local
    try:
        folder, files = find_files(card, data)
    except InputError:
        path = find_whole(card, data)
        if path is None:
            raise
        return _from_one(card, path, seed)
    sources = {split: _records(card, split, file) for split, file in files.items()}
    joined = card.shape == "hellaswag" and _is_joined(sources)

    def notes(split: str, count: int) -> tuple[str, ...]:
        file = files[split]
        lines = [] if file.official and file.comparable else [f"read from {file.path.name}"]
        lines += _sized(card, split, count) if file.comparable else ()
        lines += [local.notes[split]] if split in local.notes else []
        if joined:
            lines.append("contexts and endings are joined and freed of marks, as in the preprocessed files")
        return tuple(lines)

    return build_task(card, sources, local, source=str(folder), notes=notes, joined=joined, facts=_pins(card))


def _records(card: Card, split: str, file: SplitFile) -> Records:
    local = card.local
    labels = None
    if local.beside:
        labels = beside(file, local.beside)
        if labels is None and split not in card.hidden:
            # Reading the split raises an error that names the missing file.
            labels = file.path.parent / f"{file.named.rpartition('.')[0]}{local.beside}"
    return Records(
        path=file.path,
        format=local.formats.get(split, local.format),
        header=() if split in local.headed else local.header,
        broken=local.broken,
        labels=labels,
        label_column=local.columns["label"][0] if labels else "",
    )


def _is_joined(sources: Mapping[str, Records]) -> bool:
    """Whether any split is preprocessed; all are then converted to that form, so that forms are not mixed."""
    return any("ctx_a" not in record for records in sources.values() for record in islice(records, 1))


def _from_one(card: Card, path: Path, seed: int) -> Task:
    """Divide a single file into splits."""
    undivided = build_task(
        card,
        {"whole": Records(path=path, format=card.local.format)},
        card.local,
        source=str(path),
        notes=lambda split, count: (f"read from {path.name}",),
        facts=_pins(card),
    )
    return cut(undivided, "whole", _SHARES, seed=seed)
