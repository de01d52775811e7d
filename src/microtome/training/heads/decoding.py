"""Decoding of model outputs into predictions: labels, answer spans and dependency trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import InputError, must
from ...lazy import torch
from ...tasks.task import Item, Task
from ..inputs import HIDDEN, Features
from ..models.taskmodel import TaskModel

LONGEST_ANSWER = 30


def best_span(
    logits: np.ndarray, offsets: np.ndarray, *, longest: int = LONGEST_ANSWER
) -> tuple[float, int, int]:
    """
    Find the best answer in a window.

    Parameters
    ----------
    logits : ndarray of float of shape (tokens, 2)
        For each token, the logits of being the first and the last one of the answer.
    offsets : ndarray of int of shape (tokens, 2)
    longest : int
        Maximum number of tokens of an answer.

    Returns
    -------
    score : float
        Sum of the two logits; minus infinity where the window contains nothing of the passage.
    begin, end : int
        In characters of the passage.
    """
    positions = np.flatnonzero(offsets[:, 0] >= 0)
    best, begin, end = -np.inf, 0, 0
    starts, ends = logits[positions, 0].astype(np.float64), logits[positions, 1].astype(np.float64)
    for width in range(min(longest, len(positions))):
        sums = starts[: len(positions) - width] + ends[width:]
        at = int(sums.argmax())
        if sums[at] > best:
            best, begin, end = float(sums[at]), offsets[positions[at], 0], offsets[positions[at + width], 1]
    return best, int(begin), int(end)


def cut(passage: str, begin: int, end: int) -> str:
    """Extract characters from a passage, without surrounding white space that a token may contain."""
    return passage[begin:end].strip()


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

    Returns
    -------
    list
        Classification, multiple choice: the index of the label or choice. Regression: the value, which is
        not clipped. Span: the text, empty for no answer, where some of the examples have none. Tagging: a
        tuple of label indices. Parsing: a tuple of (head, index of the relation). Words without a token get
        the most frequent label, and are attached to the root. Language modeling: the summed negative
        log-likelihood and the number of tokens.
    """
    if len(outputs) != len(features):
        raise InputError(f"outputs must be as many as the {len(features)} features, but got {len(outputs)}.")
    if task.kind in ("classification", "multiple_choice"):
        return [int(np.argmax(logits)) for logits in outputs]
    if task.kind == "regression":
        return [float(logits[0]) for logits in outputs]
    if task.kind == "tagging":
        return _tags(outputs, features)
    if task.kind == "parsing":
        return _trees(outputs, features)
    if task.kind == "span":
        return _answers(outputs, features, items)
    sums = np.zeros((len(items), 2))
    for likelihood, feature in zip(outputs, features, strict=True):
        sums[feature.item] += likelihood
    return [(float(nll), int(count)) for nll, count in sums]


def _most(numbers: Sequence[int]) -> int:
    counts = Counter(numbers)
    return min(counts, key=lambda label: (-counts[label], label), default=0)


def _tags(outputs: Sequence[Any], features: Sequence[Features]) -> list[Any]:
    predicted = [
        np.argmax(logits, axis=-1) if len(logits) else np.zeros(0, dtype=np.int64) for logits in outputs
    ]
    seen = [np.asarray(feature.words) >= 0 for feature in features]
    majority = _most([int(t) for tags, mask in zip(predicted, seen, strict=True) for t in tags[mask]])
    return [
        tuple(int(tag) if present else majority for tag, present in zip(tags, mask, strict=True))
        for tags, mask in zip(predicted, seen, strict=True)
    ]


def _trees(outputs: Sequence[Any], features: Sequence[Features]) -> list[Any]:
    parsed = []
    for (arcs, relations), feature in zip(outputs, features, strict=True):
        indices = np.flatnonzero(np.asarray(feature.words) >= 0)
        columns = np.concatenate([[0], indices + 1])
        heads = np.zeros(len(arcs), dtype=np.int64)
        names = np.full(len(arcs), -1)
        heads[indices] = columns[best_tree(_shares(arcs[np.ix_(indices, columns)]))]
        names[indices] = relations[indices, heads[indices]].argmax(axis=-1)
        parsed.append((heads, names))
    majority = _most([int(n) for _, names in parsed for n in names if n >= 0])
    return [
        tuple((int(h), int(n) if n >= 0 else majority) for h, n in zip(heads, names, strict=True))
        for heads, names in parsed
    ]


def _shares(scores: np.ndarray) -> np.ndarray:
    """Log-probabilities of heads, so that the best tree is the most likely one."""
    from scipy.special import log_softmax

    return log_softmax(scores.astype(np.float64), axis=1)


def _answers(outputs: Sequence[Any], features: Sequence[Features], items: Sequence[Item]) -> list[str]:
    unanswerable = any(item.target is not None and not item.target for item in items)
    best: list[tuple[float, int, int]] = [(-np.inf, 0, 0)] * len(items)
    null = np.full(len(items), np.inf)
    for logits, feature in zip(outputs, features, strict=True):
        assert feature.offsets is not None
        span = best_span(logits, feature.offsets)
        best[feature.item] = max(best[feature.item], span, key=lambda span: span[0])
        # "No answer" is predicted only where every window predicts it.
        null[feature.item] = min(null[feature.item], float(logits[feature.null].sum()))
    return [
        "" if unanswerable and null[index] > score else cut(item.texts[1], begin, end)
        for index, (item, (score, begin, end)) in enumerate(zip(items, best, strict=True))
    ]


def best_tree(scores: np.ndarray) -> np.ndarray:
    """
    Find the tree with the largest sum of scores in which exactly one word is attached to the root.

    Parameters
    ----------
    scores : ndarray of float of shape (words, words + 1)
        Of each word for each head: index 0 is the root, then the words.

    Returns
    -------
    ndarray of int of shape (words,)
        Heads: 0 for the root, else words counted from 1.

    Examples
    --------
    >>> best_tree(np.array([[1.0, 0.0, 9.0], [2.0, 9.0, 0.0]])).tolist()
    [2, 0]
    """
    arc_scores = np.nan_to_num(np.asarray(scores, dtype=np.float64))
    count = len(arc_scores)
    if arc_scores.ndim != 2 or arc_scores.shape[1] != count + 1:
        raise must("scores of arcs", "of shape (words, words + 1)", np.shape(scores))
    if not count:
        return np.zeros(0, dtype=np.int64)
    table = np.full((count + 1, count + 1), -np.inf)
    table[1:] = arc_scores - arc_scores.max(axis=1, keepdims=True)
    # A tree has at least one word at the root: with this penalty, which all other arcs together cannot
    # outweigh, it has no second one.
    table[1:, 0] -= 1 + (arc_scores.max() - arc_scores.min()) * (count + 1)
    np.fill_diagonal(table, -np.inf)
    return _edmonds(table)[1:]


def _edmonds(table: np.ndarray) -> np.ndarray:
    """Best heads of all nodes but node 0, whose entry is meaningless."""
    heads = table.argmax(axis=1)
    heads[0] = -1
    cycle = _cycle(heads)
    if cycle is None:
        return heads
    outside = np.setdiff1d(np.arange(len(heads)), cycle)
    # The cycle is contracted into one node. Entering it at a word costs the arc that the word gives up.
    entering = table[np.ix_(cycle, outside)] - table[cycle, heads[cycle]][:, None]
    leaving = table[np.ix_(outside, cycle)]
    contracted = np.full((len(outside) + 1, len(outside) + 1), -np.inf)
    contracted[:-1, :-1] = table[np.ix_(outside, outside)]
    contracted[:-1, -1], contracted[-1, :-1] = leaving.max(axis=1), entering.max(axis=0)
    contracted[0] = -np.inf
    contracted_heads = _edmonds(contracted)
    out = heads.copy()
    for index, node in enumerate(outside[1:], start=1):
        inside = contracted_heads[index] == len(outside)
        out[node] = cycle[leaving[index].argmax()] if inside else outside[contracted_heads[index]]
    entry = contracted_heads[-1]
    broken = entering[:, entry].argmax()
    out[cycle[broken]] = outside[entry]
    return out


def _cycle(heads: np.ndarray) -> np.ndarray | None:
    """Nodes of a cycle; None if there is none."""
    state = np.zeros(len(heads), dtype=np.int64)
    state[0] = -1
    for start in range(1, len(heads)):
        node, path = start, []
        while state[node] == 0:
            state[node] = start
            path.append(node)
            node = heads[node]
        if state[node] == start:
            return np.sort(np.array(path[path.index(node) :]))
    return None
