"""Splits of tasks as corpora."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from ..arguments import checked
from ..corpora.examples import RULES, Example, Reader
from ..corpora.files import File
from ..corpora.opening import Corpus
from ..corpora.opening import corpus as open_corpus
from ..errors import must, unknown
from ..store.address import address
from .loading import task
from .task import Item, Kind, Split, Task

SCHEME = "task:"
READER = "task"


@checked
def corpus(source: str | os.PathLike[str], **options: Any) -> Corpus:
    """
    Open a corpus, which may be a split of a task.

    Parameters
    ----------
    source : str or path
        "task:NAME/SPLIT", such as "task:rte/validation"; other sources as in
        `microtome.corpora.opening.corpus`.
    **options
        For a task: data, revision, seed and the columns of a user's table, as in `microtome.task`, besides
        rule and name. For other sources: the options of the reader.

    Returns
    -------
    Corpus
        For multiple choice, each choice of each item is an example.

    Examples
    --------
    >>> import microtome as mt
    >>> corpus = mt.corpus("task:polarity/validation")
    >>> next(iter(corpus)).marks["label"]
    'positive'
    """
    location = os.fspath(source) if isinstance(source, (str, os.PathLike)) else source
    if not isinstance(location, str) or not location.startswith(SCHEME):
        return open_corpus(source, **options)
    name, slash, split = location.removeprefix(SCHEME).rpartition("/")
    if not slash or not name or not split:
        raise must("source", "task:NAME/SPLIT, such as task:rte/validation", location)
    if options.pop("reader", None) is not None:
        raise must("reader", "left out for a task", location)
    rule, corpus_name = options.pop("rule", None), options.pop("name", None)
    return split_corpus(task(name, **options), split, rule=rule, name=corpus_name)


def split_corpus(task: Task, split: str, *, rule: str | None = None, name: str | None = None) -> Corpus:
    """
    Read a split of a task as a corpus.

    Parameters
    ----------
    task : Task
    split : str
    rule : {"given", "whitespace"}, optional
        How examples are split into words; by default the given words, if the task has them.
    name : str, optional
        The name of the corpus in results.

    Returns
    -------
    Corpus
    """
    task_split = task.split(split)
    possible = "given" if task.kind in ("tagging", "parsing") else "whitespace"
    if rule is not None and rule not in RULES:
        raise unknown("rule", rule, RULES)
    if rule not in (None, possible):
        raise must("rule", f"{possible} for {task.name}/{split}", rule)
    how = Reader(
        name=READER,
        suffixes=(),
        summary="A split of a task.",
        read=partial(_read, task_split, task.kind, task.labels),
        locate=_nowhere,
    )
    return Corpus(
        name=name or f"{task.name}/{split}",
        source=f"{SCHEME}{task.name}/{split}",
        reader=READER,
        options=MappingProxyType({"from": task.source, "notes": list(task_split.notes)}),
        rule=possible,
        digest=address(
            {"reader": READER, "kind": task.kind, "labels": list(task.labels)}, [task_split.digest]
        ),
        files=(),
        how=how,
    )


def _nowhere(source: str, options: Mapping[str, Any]) -> tuple[File, ...]:
    return ()


def _read(
    split: Split, kind: Kind, labels: tuple[str, ...], files: Sequence[File], options: Mapping[str, Any]
) -> Iterator[Example]:
    for item in split:
        if kind == "multiple_choice":
            yield from _choices(item)
        else:
            yield _example(item, kind, labels)


def _choices(item: Item) -> Iterator[Example]:
    for number, texts in enumerate(item.choices):
        marks = {"choice": str(number)}
        if item.target is not None:
            marks["label"] = "right" if number == item.target else "wrong"
        yield Example(
            id=f"{item.id}/{number}",
            text=texts[0],
            pair=texts[1] if len(texts) > 1 else None,
            marks=marks,
            group=item.group,
        )


def _example(item: Item, kind: Kind, labels: tuple[str, ...]) -> Example:
    marks: dict[str, str | tuple[str, ...]] = {}
    if item.target is not None:
        if kind == "classification":
            marks["label"] = labels[item.target]
        elif kind == "regression":
            marks["label"] = str(item.target)
        elif kind == "span":
            marks["label"] = item.target[0][1] if item.target else ""
        elif kind == "tagging":
            marks["label"] = tuple(labels[tag] for tag in item.target)
        elif kind == "parsing":
            marks["head"] = tuple(str(head) for head, _ in item.target)
            marks["label"] = tuple(labels[relation] for _, relation in item.target)
    return Example(
        id=item.id,
        text=item.texts[0] if item.texts else None,
        pair=item.texts[1] if len(item.texts) > 1 else None,
        words=item.words or None,
        marks=marks,
        group=item.group,
    )
