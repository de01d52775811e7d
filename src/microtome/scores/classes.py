"""Classification scores: accuracy, F1, macro F1 and Matthews correlation."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..errors import InputError
from .declare import Array, Labels, additive, class_arrays, ratio, share

_DIRECTED = re.compile(r"\(e[12],e[12]\)$")


def overlap(sums: Array) -> Array:
    """Compute F1 from (true positives, predicted, true)."""
    return ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


def macro(sums: Array) -> Array:
    """Compute the mean F1 of the classes that are predicted or true, from (3 x classes) sums."""
    matched, predicted, true = np.split(np.asarray(sums), 3, axis=-1)
    return ratio(ratio(2 * matched, predicted + true).sum(-1), ((predicted + true) > 0).sum(-1))


def _hits(predictions: Any, targets: Any, labels: Labels) -> Array:
    p, t, _ = class_arrays(predictions, targets, labels)
    return np.column_stack([p == t, np.ones(len(t))]).astype(np.float64)


def _positives(predictions: Any, targets: Any, labels: Labels) -> Array:
    p, t, count = class_arrays(predictions, targets, labels)
    if count > 2:
        raise InputError(f"f1 must have 2 labels, but the task has {count}: macro_f1 is for more.")
    return np.column_stack([(p == 1) & (t == 1), p == 1, t == 1]).astype(np.float64)


def _no_positives(predictions: Any, targets: Any, labels: Labels) -> str | None:
    if _positives(predictions, targets, labels).any():
        return None
    return "no example is positive and none was predicted to be"


def _one_hot(predictions: Any, targets: Any, labels: Labels) -> tuple[Any, Any]:
    """Whether each example is predicted to be, and is, of each class: two arrays (examples, classes)."""
    p, t, count = class_arrays(predictions, targets, labels)
    return p[:, None] == np.arange(count), t[:, None] == np.arange(count)


def _by_class(predictions: Any, targets: Any, labels: Labels) -> Array:
    predicted, true = _one_hot(predictions, targets, labels)
    return np.concatenate([predicted & true, predicted, true], axis=1).astype(np.float64)


def _class_extremes(sums: Array, n: int) -> tuple[Array, Array]:
    present = sums[len(sums) // 3 :].reshape(2, -1).sum(axis=0)
    weights = (present > 0) / max(1, np.count_nonzero(present))
    none = np.zeros_like(weights)
    return np.concatenate([none, weights, weights]), np.tile(weights, 3)


def _matthews_parts(predictions: Any, targets: Any, labels: Labels) -> Array:
    hits = _hits(predictions, targets, labels)
    return np.concatenate([hits, *_one_hot(predictions, targets, labels)], axis=1)


def _matthews(sums: Array) -> Array:
    sums = np.asarray(sums)
    correct, n = sums[..., 0], sums[..., 1]
    predicted, true = np.split(sums[..., 2:], 2, axis=-1)
    spread = (n**2 - (predicted**2).sum(-1)) * (n**2 - (true**2).sum(-1))
    return ratio(correct * n - (predicted * true).sum(-1), np.sqrt(np.maximum(spread, 0)))


def _matthews_extremes(sums: Array, n: int) -> tuple[Array, Array]:
    true = np.split(sums[2:], 2)[1]
    even = np.full(len(true), 1 / len(true))
    share = true / true.sum()
    return np.concatenate([[0.0, 1.0], even, even]), np.concatenate([[1.0, 1.0], share, share])


def _one_class(predictions: Any, targets: Any, labels: Labels) -> str | None:
    p, t, _ = class_arrays(predictions, targets, labels)
    for side, what in ((p, "every prediction is"), (t, "every example has")):
        if (side == side[0]).all():
            return f"{what} the same class"
    return None


def _relations(predictions: Any, targets: Any, labels: Labels) -> Array:
    # A relation in the wrong direction counts as predicted and as true, but not as correct: the official
    # scorer adds such cases to the denominator of precision and leaves them in that of recall.
    p, t, count = class_arrays(predictions, targets, labels)
    if len(labels) != count:
        raise InputError("semeval_f1 must know the names of the labels, but got none.")
    bases = [_DIRECTED.sub("", label) for label in labels]
    kinds = sorted(set(bases) - {"Other"})
    member = np.array([[base == kind for kind in kinds] for base in bases])
    predicted, true = member[p], member[t]
    return np.concatenate([predicted & (p == t)[:, None], predicted, true], axis=1).astype(np.float64)


def _macro_of_true(sums: Array) -> Array:
    matched, predicted, true = np.split(np.asarray(sums), 3, axis=-1)
    f1 = ratio(2 * matched, predicted + true)
    return ratio((f1 * (true > 0)).sum(-1), (true > 0).sum(-1))


def _only_other(predictions: Any, targets: Any, labels: Labels) -> str | None:
    parts = _relations(predictions, targets, labels)
    return None if parts[:, -parts.shape[1] // 3 :].any() else 'every example is "Other"'


CLASS_SCORES = (
    share("accuracy", "Accuracy", ("classification", "multiple_choice"), _hits, counts=True),
    additive(
        "f1",
        "F1 of the positive class (label 1)",
        ("classification",),
        _positives,
        overlap,
        # A wrong example is either predicted or true, half of each on average.
        extremes=lambda sums, n: (np.array([0, 0.5, 0.5]), np.ones(3)),
        undefined=_no_positives,
    ),
    additive(
        "macro_f1", "Mean F1 of the classes", ("classification",), _by_class, macro, extremes=_class_extremes
    ),
    additive(
        "mcc",
        "Matthews correlation",
        ("classification",),
        _matthews_parts,
        _matthews,
        range=(-1.0, 1.0),
        extremes=_matthews_extremes,
        undefined=_one_class,
    ),
    additive(
        "semeval_f1",
        'Macro F1 of SemEval-2010 task 8 (9+1 relations, direction counts, "Other" left out)',
        ("classification",),
        _relations,
        _macro_of_true,
        extremes=_class_extremes,
        undefined=_only_other,
    ),
)
