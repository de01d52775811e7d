"""Majority and other constant baselines, which use the training targets and no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np

from ..errors import must, unknown
from .task import Kind


def baseline(
    kind: Kind, train_targets: Sequence[Any], targets: Sequence[Any], labels: Sequence[str] = ()
) -> list[Any] | None:
    """
    Predict the same target for every example.

    Parameters
    ----------
    kind : str
        The kind of the task.
    train_targets : sequence
        The targets of the training examples.
    targets : sequence
        The targets of the examples to score. Only their number and, for tagging and parsing, their numbers
        of words are used.
    labels : sequence of str

    Returns
    -------
    list or None
        Classification and multiple choice: the majority class (the smallest number in a tie). Regression: the
        mean. Tagging: the most frequent tag for every word. Parsing: every word is attached to the one
        before it or to the one after it, whichever is right more often, with the most frequent relation.
        Span: no answer. None for language modeling, which has no targets.

    Examples
    --------
    >>> baseline("classification", [1, 0, 1], [0, 0])
    [1, 1]
    """
    if kind == "language_modeling":
        return None
    if kind not in get_args(Kind):
        raise unknown("kind", kind, get_args(Kind))
    if kind == "span":
        return [""] * len(targets)
    if not len(train_targets):
        raise must("train_targets", "at least one", 0)
    if kind == "regression":
        return [float(np.mean(train_targets))] * len(targets)
    if kind == "tagging":
        tag = _most(tag for sentence in train_targets for tag in sentence)
        return [[tag] * len(sentence) for sentence in targets]
    if kind == "parsing":
        return _chain(train_targets, targets)
    return [_most(train_targets)] * len(targets)


def _most(numbers: Iterable[Any]) -> int:
    counts = Counter(int(number) for number in numbers)
    return min(counts, key=lambda number: (-counts[number], number))


def _chain(train_targets: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
    before = after = 0
    inner: list[int] = []
    roots: list[int] = []
    for sentence in train_targets:
        for position, (head, relation) in enumerate(sentence, start=1):
            (inner if head else roots).append(relation)
            before += head == position - 1
            after += head == (position + 1 if position < len(sentence) else 0)
    relation = _most(inner or roots)
    root = _most(roots or inner)
    chains = []
    for sentence in targets:
        count = len(sentence)
        heads = [p - 1 for p in range(1, count + 1)]
        if after > before:
            heads = [p + 1 if p < count else 0 for p in range(1, count + 1)]
        chains.append([(head, relation if head else root) for head in heads])
    return chains
