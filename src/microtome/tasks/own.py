"""Tasks from a user's own tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..corpora.files import split_name
from ..errors import InputError, check_plain, must, shown
from .building import build_task
from .card import Card, Columns, Local
from .formats import Records
from .shaping import as_label
from .subset import cut
from .task import Task

SUFFIXES: Mapping[str, str] = MappingProxyType(
    {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
)
STEMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"train": ("train",), "validation": ("validation", "dev", "valid", "val"), "test": ("test",)}
)
WHOLE = "whole"  # the split with every row of a single table
SHARES: Mapping[str, float] = MappingProxyType({"validation": 0.1, "test": 0.1})
SCORES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"classification": ("accuracy", "macro_f1", "mcc"), "regression": ("pearson", "spearman")}
)

NUMBERS = (
    "{!r} holds numbers that are not whole, so they are learned as numbers (regression); "
    "kind='classification' (on the command line --column kind=classification) makes each of them a class"
)


def own_task(
    source: str,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    group: str | None = None,
    kind: str | None = None,
    labels: Sequence[str] | None = None,
    seed: int = 0,
) -> Task:
    """
    Build a task from a table.

    Parameters
    ----------
    source : str
        A .csv, .tsv or .jsonl file, which is divided into 80 % for training, 10 % for validation and 10 % for
        testing, and is also available as a whole; or a folder with the files train, validation (or dev)
        and test, of which some may be missing. Files may be compressed.
    text, label : str
        Names of columns: the text, and the target class or number.
    pair : str, optional
        The column of the second text, for text pairs.
    group : str, optional
        A column whose values keep examples in the same split or subset; by default the text.
    kind : {"classification", "regression"}, optional
        By default regression if the labels are numbers and at least one is not whole, and classification
        otherwise; a note of the task reports inferred regression.
    labels : sequence of str, optional
        In the order of their numbers; by default those of the training split, or else of the first split,
        sorted.
    seed : int
        The seed of the division.

    Returns
    -------
    Task
    """
    path = Path(source)
    check_plain(path)
    files = table_files(path)
    _check_named(source, files, {"text": text, "label": label})
    if kind is not None and kind not in SCORES:
        raise must("kind", f"one of {', '.join(SCORES)} for a table of one's own", kind)
    roles = {"text": text, "pair": pair, "label": label, "group": group or text}
    columns = {role: (column,) for role, column in roles.items() if column}
    first = next(iter(files))
    names = set() if labels is not None or kind == "regression" else _names(files[first], str(label))
    note = ""
    if kind is None:
        kind = "regression" if _are_numbers(names) else "classification"
        note = NUMBERS.format(label) if kind == "regression" else ""
    class_labels = _labels(files[first], str(label), labels, names) if kind == "classification" else ()
    table_task = _task(path, kind, files, columns, class_labels, note)
    if kind == "regression":
        table_task = _ranged(table_task, first)
    if first != WHOLE:
        return table_task
    return cut(table_task, WHOLE, SHARES, seed=seed, others={WHOLE: table_task.readers[WHOLE]})


def check_columns(source: str, columns: Mapping[str, Any], needed: Sequence[str]) -> None:
    """
    Raise if a table lacks columns; one example of each file is read.

    Parameters
    ----------
    source : str
    columns : mapping
        Columns by their roles, among other arguments of `own_task`.
    needed : sequence of str
        Roles that must be among them.
    """
    files = table_files(Path(source))
    _check_named(source, files, {role: columns.get(role) for role in needed})
    for split, records in files.items():
        record = next(iter(records), {})
        # A test table may have no labels.
        roles = ("text", "pair", "group") if split == "test" else ("text", "pair", "group", "label")
        for column in [columns[role] for role in roles if role in columns]:
            if record and column not in record:
                raise records.lacks(column, record)


def _check_named(source: str, files: Mapping[str, Records], columns: Mapping[str, Any]) -> None:
    for role, column in columns.items():
        if not isinstance(column, str) or not column:
            column_names = list(next(iter(next(iter(files.values()))), {}))
            hint = f" ({', '.join(column_names)})" if column_names else ""
            got = "none is given" if column is None else f"got {shown(column)}"
            raise InputError(
                f"{role} must be the name of a column of {source}{hint}, on the command line as --column "
                f"{role}={column_names[0] if column_names else 'NAME'}, but {got}."
            )


def table_files(path: Path) -> dict[str, Records]:
    """Find the files of a table, by the names of their splits."""
    if path.is_file():
        return {WHOLE: Records(path=path, format=_format(path))}
    tables: dict[str, Records] = {}
    for split, stems in STEMS.items():
        candidates = [
            file
            for file in sorted(path.iterdir())
            if file.is_file() and split_name(file.name)[0] in stems and split_name(file.name)[1] in SUFFIXES
        ]
        if len(candidates) > 1:
            names = " and ".join(file.name for file in candidates)
            raise InputError(f"{path} must have one file for {split}, but it has {names}.")
        if candidates:
            tables[split] = Records(path=candidates[0], format=_format(candidates[0]))
    if not tables:
        raise InputError(
            f"{path} must have a table called train, validation or test ({', '.join(SUFFIXES)}, packed or "
            "not), but it has none."
        )
    return tables


def _format(path: Path) -> str:
    kind = split_name(path.name)[1]
    if kind not in SUFFIXES:
        raise must(
            "a table of one's own", f"a file that ends in {', '.join(SUFFIXES)}, packed or not", path.name
        )
    return SUFFIXES[kind]


def _names(records: Records, column: str) -> set[str]:
    """Collect all labels of a table."""
    names: set[str] = set()
    for record in records:
        if column not in record:
            raise records.lacks(column, record)
        name = as_label(record[column])
        if not name:
            raise records.refuse(f"have a label in {column!r}", "it is empty")
        names.add(name)
    if not names:
        raise InputError(f"{records.path} must hold examples, but it has none.")
    return names


def _are_numbers(names: set[str]) -> bool:
    """Whether labels are numbers and not only integers, which may be classes."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return False
    return all(map(math.isfinite, numbers)) and not all(number.is_integer() for number in numbers)


def _labels(records: Records, column: str, labels: Sequence[str] | None, names: set[str]) -> tuple[str, ...]:
    if labels is not None:
        if isinstance(labels, str) or len(set(labels)) != len(labels) or len(labels) < 2:
            raise must("labels", "a list of at least two different names", labels)
        return tuple(str(name) for name in labels)
    if len(names) < 2:
        raise InputError(f"{records.path} must have two labels or more in {column!r}, but it has {names}.")
    if len(names) > 1000:
        raise InputError(
            f"{column!r} of {records.path} must have 1,000 labels at most, but it has {len(names):,}: "
            "numbers are learned with kind='regression' (on the command line --column kind=regression)."
        )
    return tuple(sorted(names, key=_natural))


def _natural(label: str) -> tuple[int, float, str]:
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label


def _task(
    path: Path, kind: str, files: Mapping[str, Records], columns: Columns, labels: tuple[str, ...], note: str
) -> Task:
    name = split_name(path.name)[0] if path.is_file() else path.absolute().name
    card = Card(
        name=name,
        title=name,
        about="A table of the user's own.",
        kind=kind,  # pyright: ignore[reportArgumentType]
        shape="texts",
        labels=labels,
        scores=SCORES[kind] + (("f1",) if len(labels) == 2 else ()),
        main=("accuracy",) if kind == "classification" else ("pearson", "spearman"),
        # Without a validation table, models are scored on the test table.
        validation="test" if "test" in files and "validation" not in files else "validation",
        hidden=("test",),
        license="unknown",
        citation="none",
        local=Local(folders=(), format="csv", files={}, columns=columns),
    )

    def notes(split: str, count: int) -> tuple[str, ...]:
        return (f"read from {files[split].path.name}", *filter(None, [note]))

    return build_task(card, files, card.local, source=str(path), notes=notes, facts={"note": note or None})


def _ranged(task: Task, split: str) -> Task:
    targets: list[Any] = [item.target for item in task.split(split)]
    low, high = min(targets), max(targets)
    if low == high:
        raise InputError(f"{task.source} must have different numbers to learn, but all are {low}.")
    return replace(task, range=(float(low), float(high)))
