"""How does a table of one's own become a task? By naming its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..corpora.packed import split_name
from ..errors import InputError, must
from .card import Card, Form, Local
from .items import Split
from .reading.formats import Records
from .reading.shaping import Shaping, as_label, shape
from .subset import cut
from .task import Task

SUFFIXES: Mapping[str, str] = MappingProxyType(
    {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
)
STEMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"train": ("train",), "validation": ("validation", "dev", "valid", "val"), "test": ("test",)}
)
WHOLE = "whole"  # the split with every row of a lone table
SHARES: Mapping[str, float] = MappingProxyType({"validation": 0.1, "test": 0.1})
SCORES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"classification": ("accuracy", "macro_f1", "mcc"), "regression": ("pearson", "spearman")}
)


def own_task(
    source: str,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    group: str | None = None,
    kind: str = "classification",
    labels: Sequence[str] | None = None,
    seed: int = 0,
) -> Task:
    """
    Make a task of a table.

    Parameters
    ----------
    source : str
        A .csv, .tsv or .jsonl file, which is cut into 80 % to learn from, 10 % to validate and 10 % to
        test, and is there as a whole too; or a folder with the files train, validation (or dev) and test, of
        which some may be missing. Files may be packed.
    text, pair, label : str
        Names of columns; pair may be left out.
    group : str, optional
        A column whose values hold examples together when they are cut or drawn; without it, those that have
        the same text.
    kind : {"classification", "regression"}
    labels : sequence of str, optional
        In the order of their numbers; without them, those of the training split, sorted, or of the first
        split that is there.
    seed : int
        Of the cut.

    Returns
    -------
    Task
    """
    path = Path(source)
    files = _files(path)
    for role, column in (("text", text), ("label", label)):
        if not isinstance(column, str) or not column:
            there = ", ".join(next(iter(next(iter(files.values()))), {}))
            named = f" ({there}), such as --column {role}=NAME on the command line" if there else ""
            raise must(role, f"the name of a column of {source}{named}", column)
    if kind not in SCORES:
        raise must("kind", f"one of {', '.join(SCORES)} for a table of one's own", kind)
    columns = {"text": text, "pair": pair, "label": label, "group": group or text}
    form = Form(columns={role: (column,) for role, column in columns.items() if column})
    first = next(iter(files))
    found = _labels(files[first], str(label), labels) if kind == "classification" else ()
    made = _task(path, kind, files, form, found)
    if kind == "regression":
        made = _ranged(made, first)
    if first != WHOLE:
        # Without a validation table, another one is what models are scored on.
        return made if "validation" in files or "test" not in files else replace(made, validation="test")
    parts = cut(made, WHOLE, SHARES, seed=seed)
    return replace(parts, readers=MappingProxyType({**parts.readers, WHOLE: made.readers[WHOLE]}))


def _files(path: Path) -> dict[str, Records]:
    if path.is_file():
        return {WHOLE: Records(path=path, format=_format(path))}
    found: dict[str, Records] = {}
    for split, stems in STEMS.items():
        there = [
            file
            for file in sorted(path.iterdir())
            if file.is_file() and split_name(file.name)[0] in stems and split_name(file.name)[1] in SUFFIXES
        ]
        if len(there) > 1:
            names = " and ".join(file.name for file in there)
            raise InputError(f"{path} must have one file for {split}, but it has {names}.")
        if there:
            found[split] = Records(path=there[0], format=_format(there[0]))
    if not found:
        raise InputError(
            f"{path} must have a table called train, validation or test ({', '.join(SUFFIXES)}, packed or "
            "not), but it has none."
        )
    return found


def _format(path: Path) -> str:
    kind = split_name(path.name)[1]
    if kind not in SUFFIXES:
        raise must(
            "a table of one's own", f"a file that ends in {', '.join(SUFFIXES)}, packed or not", path.name
        )
    return SUFFIXES[kind]


def _labels(records: Records, column: str, given: Sequence[str] | None) -> tuple[str, ...]:
    if given is not None:
        if isinstance(given, str) or len(set(given)) != len(given) or len(given) < 2:
            raise must("labels", "a list of at least two different names", given)
        return tuple(str(name) for name in given)
    found: set[str] = set()
    for record in records:
        if column not in record:
            raise records.refuse(f"have the column {column!r}", f"its columns are {', '.join(record)}")
        name = as_label(record[column])
        if not name:
            raise records.refuse(f"have a label in {column!r}", "it is empty")
        found.add(name)
    if not found:
        raise InputError(f"{records.path} must hold examples, but it has none.")
    if len(found) < 2:
        raise InputError(f"{records.path} must have two labels or more in {column!r}, but it has {found}.")
    if len(found) > 1000:
        raise InputError(
            f"{column!r} of {records.path} must have 1,000 labels at most, but it has {len(found):,}: "
            "numbers are learned with kind='regression'."
        )
    return tuple(sorted(found, key=_natural))


def _natural(label: str) -> tuple[int, float, str]:
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label


def _task(path: Path, kind: str, files: Mapping[str, Records], form: Form, labels: tuple[str, ...]) -> Task:
    name = split_name(path.name)[0] if path.is_file() else path.absolute().name
    scores = SCORES[kind] + (("f1",) if len(labels) == 2 else ())
    local = Local(folders=(), format="csv", files={}, form=form)
    card = Card(
        name=name,
        title=name,
        about="A table of the user's own.",
        kind=kind,  # pyright: ignore[reportArgumentType]
        shape="texts",
        labels=labels,
        scores=scores,
        main=("accuracy",) if kind == "classification" else ("pearson", "spearman"),
        range=None,
        validation="validation",
        hidden=("test",),
        license="unknown",
        citation="none",
        sizes=MappingProxyType({}),
        hub=None,
        local=local,
    )

    def read(split: str) -> Split:
        records = files[split]
        how = Shaping(
            split=split,
            kind=kind,
            shape="texts",
            labels=labels,
            form=form,
            hidden=split == "test",
            refuse=records.refuse,
        )
        items, _ = shape(card, form, records, how)
        return Split(name=split, items=items, notes=(f"read from {records.path.name}",))

    return Task(
        name=name,
        title=name,
        kind=card.kind,
        labels=labels,
        scores=scores,
        main=card.main,
        readers=MappingProxyType({split: partial(read, split) for split in files}),
        source=str(path),
        card=MappingProxyType({"about": card.about, "license": card.license, "citation": card.citation}),
    )


def _ranged(task: Task, split: str) -> Task:
    targets: list[Any] = [item.target for item in task.split(split)]
    low, high = min(targets), max(targets)
    if low == high:
        raise InputError(f"{task.source} must have different numbers to learn, but all are {low}.")
    return replace(task, range=(float(low), float(high)))
