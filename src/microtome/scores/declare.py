"""Declaration of a score: its tasks, its range, and its decomposition into sums over examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, must

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Values = Sequence[Any] | NDArray[Any]
Labels = Sequence[str]


# Kinds of task, which decide what a prediction is.
Kind = Literal[
    "classification", "regression", "multiple_choice", "span", "tagging", "parsing", "language_modeling"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """
    A score of predictions against targets.

    Most scores are functions of sums over examples. `parts` returns each example's contribution, and
    `from_parts` the score of their sum, so that leaving out or resampling examples costs one subtraction.
    Parts of one call may be added to each other, those of two calls may not.

    Parameters
    ----------
    name, title : str
    kinds : tuple of str
        Kinds of task that it scores.
    range : tuple of float
        Smallest and largest value it can take.
    higher_is_better : bool
    points : float
        Points per unit of the score: 100, so that a drop of 0.01 is one point; 1 for perplexity.
    counts : bool
        Whether it is the share of correct examples.
    compute : callable
        `compute(predictions, targets, labels) -> float`.
    undefined : callable
        `undefined(predictions, targets, labels) -> str or None`: why the formula is undefined, in which
        case the score is 0.
    parts : callable, optional
        `parts(predictions, targets, labels) -> array of shape (examples, p)`.
    from_parts : callable, optional
        `from_parts(sums) -> array`, from shape (..., p) to shape (...).
    extremes : callable, optional
        `extremes(sums, n) -> (wrong, right)`: parts of one more example that fails, and of one that
        succeeds, with n the examples in the sums. An interval needs them if all are right or all wrong.
    influence : callable, optional
        Without parts: `influence(predictions, targets, labels) -> array of shape (examples,)`, the influence
        of each example on the error of the score; sums to 0.
    of : tuple of Score
        The scores whose mean this is.
    """

    name: str
    title: str
    kinds: tuple[Kind, ...]
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    points: float = 100.0
    counts: bool = False
    compute: Callable[[Any, Any, Labels], float]
    undefined: Callable[[Any, Any, Labels], str | None] = lambda predictions, targets, labels: None
    parts: Callable[[Any, Any, Labels], Array] | None = None
    from_parts: Callable[[Array], Array] | None = None
    extremes: Callable[[Array, int], tuple[Array, Array]] | None = None
    influence: Callable[[Any, Any, Labels], Array] | None = None
    of: tuple[Score, ...] = ()


def additive(
    name: str,
    title: str,
    kinds: tuple[Kind, ...],
    parts: Callable[[Any, Any, Labels], Array],
    from_parts: Callable[[Array], Array],
    **declared: Any,
) -> Score:
    """Declare a score that is a function of sums over examples."""

    def compute(predictions: Any, targets: Any, labels: Labels = ()) -> float:
        return float(from_parts(parts(predictions, targets, labels).sum(axis=0)))

    return Score(
        name=name, title=title, kinds=kinds, compute=compute, parts=parts, from_parts=from_parts, **declared
    )


def share(
    name: str,
    title: str,
    kinds: tuple[Kind, ...],
    parts: Callable[[Any, Any, Labels], Array],
    **declared: Any,
) -> Score:
    """Declare the share of what is right, a function of the sums (right, all)."""
    return additive(name, title, kinds, parts, share_of, extremes=share_extremes, **declared)


def share_of(sums: Array) -> Array:
    """Divide the sum of what is right by that of all."""
    return ratio(sums[..., 0], sums[..., 1])


def share_extremes(sums: Array, n: int) -> tuple[Array, Array]:
    """Return the parts (right, all) of one more wrong and one more right example of average size."""
    size = sums[1] / n
    return np.array([0.0, size]), np.array([size, size])


def ratio(top: Array, bottom: Array) -> Array:
    """Divide, with 0 where the denominator is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64))
    return np.divide(top, bottom, out=np.zeros(top.shape), where=bottom > 0)


def same_length(predictions: Values, targets: Values) -> int:
    """Return the number of examples; raise unless there is one prediction for each."""
    if len(predictions) != len(targets):
        raise InputError(
            f"predictions must be as many as the {len(targets)} examples, but got {len(predictions)}."
        )
    if not len(targets):
        raise must("the number of examples", "at least 1", 0)
    return len(targets)


def class_arrays(predictions: Values, targets: Values, labels: Labels) -> tuple[Whole, Whole, int]:
    """
    Convert two lists of label numbers into arrays.

    Returns
    -------
    predictions, targets : ndarray of int, shape (examples,)
    count : int
        The number of classes: that of the labels or, without labels, one more than the largest number.
    """
    same_length(predictions, targets)
    arrays = [
        whole_numbers(side, what) for side, what in ((predictions, "predictions"), (targets, "targets"))
    ]
    count = len(labels) or int(max(side.max() for side in arrays)) + 1
    for side, what in zip(arrays, ("predictions", "targets"), strict=True):
        if side.min() < 0 or side.max() >= count:
            bad = side[(side < 0) | (side >= count)][0]
            raise must(what, f"numbers of the {count} labels, 0 to {count - 1}", int(bad))
    return arrays[0], arrays[1], count


def whole_numbers(values: Values, what: str) -> Whole:
    """Convert a flat list of integers into an array."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise must(what, "one whole number an example", "lists of several lengths") from None
    if array.ndim != 1:
        raise must(what, "one whole number an example", f"an array of shape {array.shape}")
    if array.dtype.kind not in "iub":
        raise must(what, "whole numbers", array[0].item() if array.dtype.kind in "fUS" else array[0])
    return array.astype(np.int64)
