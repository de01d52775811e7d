"""Decoding of model outputs into predictions, in the form of the targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import InputError
from ...lazy import torch
from ...tasks.items import Item
from ...tasks.task import Task
from ..inputs import Features
from ..models.taskmodel import TaskModel
from .losses import HIDDEN
from .spans import LONGEST_ANSWER, best_span, cut
from .trees import best_tree


def answers(
    model: TaskModel, outputs: Any, batch: dict[str, torch.Tensor], features: Sequence[Features]
) -> list[Any]:
    """
    Split the outputs of a batch by example, without padding.

    Parameters
    ----------
    model : TaskModel
    outputs : Tensor
        Of `model(batch)`.
    batch : dict of str to Tensor
    features : sequence of Features
        The examples that the batch was made of.

    Returns
    -------
    list of ndarray
        One per example. Parsing: pairs of arrays. Language modeling: the summed negative log-likelihood in
        nats and the number of tokens in the sum.
    """
    if model.kind == "language_modeling":
        return list(_likelihoods(outputs, batch["labels"], model.family.causal))
    if model.kind == "parsing":
        arcs, relations = (tensor.detach().float().cpu().numpy() for tensor in outputs)
        counts = [0 if f.words is None else len(f.words) for f in features]
        return [(arcs[i, :n, : n + 1], relations[i, :n, : n + 1]) for i, n in enumerate(counts)]
    scores = outputs.detach().float().cpu().numpy()
    return [scores[i, : _rows(model.kind, f)] for i, f in enumerate(features)]


def _rows(kind: str, features: Features) -> int | None:
    if kind == "multiple_choice":
        return len(features.tokens)
    if kind == "tagging":
        return 0 if features.words is None else len(features.words)
    return len(features) if kind == "span" else None


def _likelihoods(outputs: torch.Tensor, labels: torch.Tensor, causal: bool) -> np.ndarray:
    if causal:
        outputs, labels = outputs[:, :-1], labels[:, 1:]
    # One example at a time: log-probabilities of a whole vocabulary are large.
    rows = []
    for logits, targets in zip(outputs.detach(), labels, strict=True):
        counted = targets != HIDDEN
        loss = torch.nn.functional.cross_entropy(logits[counted].float(), targets[counted], reduction="sum")
        rows.append((float(loss), int(counted.sum())))
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def decode(
    outputs: Sequence[Any],
    features: Sequence[Features],
    items: Sequence[Item],
    task: Task,
    *,
    fallback: int | None = None,
    unanswerable: bool | None = None,
    longest_answer: int = LONGEST_ANSWER,
) -> list[Any]:
    """
    Turn the outputs of a model into predictions, one per example.

    Parameters
    ----------
    outputs : sequence
        Of `answers`, one per element of `features`.
    features : sequence of Features
    items : sequence of Item
        The examples that the features were made of.
    task : Task
    fallback : int, optional
        Label of words without a token; the most frequent prediction when absent. In parsing such words are
        attached to the root.
    unanswerable : bool, optional
        Whether a question may have no answer; when absent, whether one of the examples has none.
    longest_answer : int
        Maximum number of tokens of an answer.

    Returns
    -------
    list
        Classification, multiple choice: the index of the label or choice. Regression: the value, which is
        not clipped. Span: the text, empty for no answer. Tagging: a tuple of label indices. Parsing: a
        tuple of (head, index of the relation). Language modeling: the summed negative log-likelihood and
        the number of tokens.
    """
    if len(outputs) != len(features):
        raise InputError(f"outputs must be as many as the {len(features)} features, but got {len(outputs)}.")
    if task.kind in ("classification", "multiple_choice"):
        return [int(np.argmax(logits)) for logits in outputs]
    if task.kind == "regression":
        return [float(logits[0]) for logits in outputs]
    if task.kind == "tagging":
        return _tags(outputs, features, fallback)
    if task.kind == "parsing":
        return _trees(outputs, features, fallback)
    if task.kind == "span":
        if unanswerable is None:
            unanswerable = any(item.target is not None and not item.target for item in items)
        return _answers(outputs, features, items, unanswerable, longest_answer)
    sums = np.zeros((len(items), 2))
    for likelihood, feature in zip(outputs, features, strict=True):
        sums[feature.item] += likelihood
    return [(float(nll), int(count)) for nll, count in sums]


def _most(numbers: Sequence[int], fallback: int | None) -> int:
    if fallback is not None:
        return fallback
    counts = Counter(numbers)
    return min(counts, key=lambda label: (-counts[label], label), default=0)


def _tags(outputs: Sequence[Any], features: Sequence[Features], fallback: int | None) -> list[Any]:
    predicted = [
        np.argmax(logits, axis=-1) if len(logits) else np.zeros(0, dtype=np.int64) for logits in outputs
    ]
    seen = [np.asarray(feature.words) >= 0 for feature in features]
    majority = _most(
        [int(t) for tags, mask in zip(predicted, seen, strict=True) for t in tags[mask]], fallback
    )
    return [
        tuple(int(tag) if present else majority for tag, present in zip(tags, mask, strict=True))
        for tags, mask in zip(predicted, seen, strict=True)
    ]


def _trees(outputs: Sequence[Any], features: Sequence[Features], fallback: int | None) -> list[Any]:
    parsed = []
    for (arcs, relations), feature in zip(outputs, features, strict=True):
        indices = np.flatnonzero(np.asarray(feature.words) >= 0)
        columns = np.concatenate([[0], indices + 1])
        heads = np.zeros(len(arcs), dtype=np.int64)
        names = np.full(len(arcs), -1)
        heads[indices] = columns[best_tree(_shares(arcs[np.ix_(indices, columns)]))]
        names[indices] = relations[indices, heads[indices]].argmax(axis=-1)
        parsed.append((heads, names))
    majority = _most([int(n) for _, names in parsed for n in names if n >= 0], fallback)
    return [
        tuple((int(h), int(n) if n >= 0 else majority) for h, n in zip(heads, names, strict=True))
        for heads, names in parsed
    ]


def _shares(scores: np.ndarray) -> np.ndarray:
    """Log-probabilities of heads, so that the best tree is the most likely one."""
    from scipy.special import log_softmax

    return log_softmax(scores.astype(np.float64), axis=1)


def _answers(
    outputs: Sequence[Any], features: Sequence[Features], items: Sequence[Item], none: bool, longest: int
) -> list[str]:
    best: list[tuple[float, int, int]] = [(-np.inf, 0, 0)] * len(items)
    null = np.full(len(items), np.inf)
    for logits, feature in zip(outputs, features, strict=True):
        assert feature.offsets is not None
        best[feature.item] = max(
            best[feature.item], best_span(logits, feature.offsets, longest=longest), key=lambda span: span[0]
        )
        # "No answer" is predicted only where every window predicts it.
        null[feature.item] = min(null[feature.item], float(logits[feature.null].sum()))
    return [
        "" if none and null[index] > score else cut(item.texts[1], begin, end)
        for index, (item, (score, begin, end)) in enumerate(zip(items, best, strict=True))
    ]
