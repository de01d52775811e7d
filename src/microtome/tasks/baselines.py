"""What would be scored by someone who saw the answers of the training examples, and no text?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np

from ..errors import must, unknown
from .items import Kind


def baseline(
    kind: Kind, train_targets: Sequence[Any], targets: Sequence[Any], labels: Sequence[str] = ()
) -> list[Any] | None:
    """
    Predict the same for every example.

    Parameters
    ----------
    kind : str
        Of the task.
    train_targets : sequence
        What is right in the examples to learn from.
    targets : sequence
        What is right in the examples to score. Only their number and, for tagging and parsing, the number
        of their words is read.
    labels : sequence of str

    Returns
    -------
    list or None
        Classification and multiple choice: the most frequent number (the smallest of equals). Regression:
        the mean. Tagging: the most frequent tag for every word. Parsing: every word hangs on the one
        before it or on the one after it, whichever is right more often, with the most frequent relation.
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
        for place, (head, relation) in enumerate(sentence, start=1):
            (inner if head else roots).append(relation)
            before += head == place - 1
            after += head == (place + 1 if place < len(sentence) else 0)
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
