"""How do a model's numbers become predictions, in the form that scores compare with what is right?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..tasks.items import Item
from ..tasks.task import Task
from .inputs import Features
from .losses import HIDDEN
from .spans import LONGEST_ANSWER, best_span, cut
from .trees import best_tree

if TYPE_CHECKING:
    import torch

    from .taskmodel import TaskModel


def answers(
    model: TaskModel, outputs: Any, batch: dict[str, torch.Tensor], features: Sequence[Features]
) -> list[Any]:
    """
    Take a batch apart: what the model said of each of its examples, without padding.

    Parameters
    ----------
    model : TaskModel
    outputs : Tensor
        Of `model(batch)`.
    batch : dict of str to Tensor
    features : sequence of Features
        That the batch was made of.

    Returns
    -------
    list of ndarray
        One for each of the features. Parsing: pairs of them. Language modeling: the summed negative
        log-likelihood in nats and the number of tokens that it is of.
    """
    if model.kind == "language_modeling":
        return list(_likelihoods(outputs, batch["labels"], model.family.causal))
    if model.kind == "parsing":
        arcs, relations = (each.detach().float().cpu().numpy() for each in outputs)
        counts = [0 if f.words is None else len(f.words) for f in features]
        return [(arcs[i, :n, : n + 1], relations[i, :n, : n + 1]) for i, n in enumerate(counts)]
    found = outputs.detach().float().cpu().numpy()
    return [found[i, : _rows(model.kind, f)] for i, f in enumerate(features)]


def _rows(kind: str, features: Features) -> int | None:
    if kind == "multiple_choice":
        return len(features.tokens)
    if kind == "tagging":
        return 0 if features.words is None else len(features.words)
    return len(features) if kind == "span" else None


def _likelihoods(outputs: torch.Tensor, labels: torch.Tensor, causal: bool) -> np.ndarray:
    import torch

    if causal:
        outputs, labels = outputs[:, :-1], labels[:, 1:]
    # One example at a time: log-probabilities of a whole vocabulary are large.
    rows = []
    for logits, right in zip(outputs.detach(), labels, strict=True):
        kept = right != HIDDEN
        loss = torch.nn.functional.cross_entropy(logits[kept].float(), right[kept], reduction="sum")
        rows.append((float(loss), int(kept.sum())))
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
    Turn what a model said into predictions, one an example.

    Parameters
    ----------
    outputs : sequence
        Of `answers`, one for each of the features.
    features : sequence of Features
    items : sequence of Item
        That the features were made of.
    task : Task
    fallback : int, optional
        Label of words that the model never saw; the one it gives most often when absent. In parsing such
        words hang on the root.
    unanswerable : bool, optional
        Whether a question may have no answer; when absent, whether one of the examples has none.
    longest_answer : int
        Tokens of an answer at most.

    Returns
    -------
    list
        Classification, multiple choice: the number of the label or choice. Regression: the number, which
        is not clipped. Span: the text, empty for no answer. Tagging: a tuple of label numbers. Parsing: a
        tuple of (head, number of the relation). Language modeling: the summed negative log-likelihood and
        the number of tokens.
    """
    if len(outputs) != len(features):
        raise InputError(f"outputs must be as many as the {len(features)} features, but got {len(outputs)}.")
    if task.kind in ("classification", "multiple_choice"):
        return [int(np.argmax(each)) for each in outputs]
    if task.kind == "regression":
        return [float(each[0]) for each in outputs]
    if task.kind == "tagging":
        return _tags(outputs, features, fallback)
    if task.kind == "parsing":
        return _trees(outputs, features, fallback)
    if task.kind == "span":
        if unanswerable is None:
            unanswerable = any(item.target is not None and not item.target for item in items)
        return _answers(outputs, features, items, unanswerable, longest_answer)
    sums = np.zeros((len(items), 2))
    for each, one in zip(outputs, features, strict=True):
        sums[one.item] += each
    return [(float(nll), int(count)) for nll, count in sums]


def _most(numbers: Sequence[int], fallback: int | None) -> int:
    if fallback is not None:
        return fallback
    counts = Counter(numbers)
    return min(counts, key=lambda label: (-counts[label], label), default=0)


def _tags(outputs: Sequence[Any], features: Sequence[Features], fallback: int | None) -> list[Any]:
    found = [np.argmax(each, axis=-1) if len(each) else np.zeros(0, dtype=np.int64) for each in outputs]
    seen = [np.asarray(one.words) >= 0 for one in features]
    usual = _most([int(t) for tags, kept in zip(found, seen, strict=True) for t in tags[kept]], fallback)
    return [
        tuple(int(tag) if there else usual for tag, there in zip(tags, kept, strict=True))
        for tags, kept in zip(found, seen, strict=True)
    ]


def _trees(outputs: Sequence[Any], features: Sequence[Features], fallback: int | None) -> list[Any]:
    parsed = []
    for (arcs, relations), one in zip(outputs, features, strict=True):
        places = np.flatnonzero(np.asarray(one.words) >= 0)
        columns = np.concatenate([[0], places + 1])
        heads = np.zeros(len(arcs), dtype=np.int64)
        names = np.full(len(arcs), -1)
        heads[places] = columns[best_tree(_shares(arcs[np.ix_(places, columns)]))]
        names[places] = relations[places, heads[places]].argmax(axis=-1)
        parsed.append((heads, names))
    usual = _most([int(n) for _, names in parsed for n in names if n >= 0], fallback)
    return [
        tuple((int(h), int(n) if n >= 0 else usual) for h, n in zip(heads, names, strict=True))
        for heads, names in parsed
    ]


def _shares(scores: np.ndarray) -> np.ndarray:
    """Log-probabilities of heads: the best tree is then the likeliest one."""
    from scipy.special import log_softmax

    return log_softmax(scores.astype(np.float64), axis=1)


def _answers(
    outputs: Sequence[Any], features: Sequence[Features], items: Sequence[Item], none: bool, longest: int
) -> list[str]:
    best: list[tuple[float, int, int]] = [(-np.inf, 0, 0)] * len(items)
    null = np.full(len(items), np.inf)
    for logits, one in zip(outputs, features, strict=True):
        assert one.offsets is not None
        best[one.item] = max(
            best[one.item], best_span(logits, one.offsets, longest=longest), key=lambda found: found[0]
        )
        # An answer is denied only where every window denies it.
        null[one.item] = min(null[one.item], float(logits[one.null].sum()))
    return [
        "" if none and null[place] > score else cut(item.texts[1], begin, end)
        for place, (item, (score, begin, end)) in enumerate(zip(items, best, strict=True))
    ]
