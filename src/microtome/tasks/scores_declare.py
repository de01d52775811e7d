"""What does a score say of itself? Which tasks it is for, what is good, and how it adds up over examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, must
from .items import Kind

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Values = Sequence[Any] | NDArray[Any]
Labels = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """
    A score of predictions against what is right.

    Most scores are functions of sums over examples. `parts` gives each example's share, and `from_parts`
    the score of their sum, so that the score without some examples, or with them drawn anew, costs one
    subtraction. Parts of one call may be added to each other, those of two calls may not.

    Parameters
    ----------
    name, title : str
    kinds : tuple of str
        Kinds of task that it scores.
    range : tuple of float
        Smallest and largest value it can take.
    higher_is_better : bool
    points : float
        Points a unit of the score is worth: 100, so that a drop of 0.01 is one point; 1 for perplexity.
    counts : bool
        Whether it is the share of examples that are right.
    compute : callable
        `compute(predictions, targets, labels) -> float`.
    undefined : callable
        `undefined(predictions, targets, labels) -> str or None`: why the formula has no value, which then
        counts as 0.
    parts : callable, optional
        `parts(predictions, targets, labels) -> array of shape (examples, p)`.
    from_parts : callable, optional
        `from_parts(sums) -> array`, from shape (..., p) to shape (...).
    extremes : callable, optional
        `extremes(sums, n) -> (wrong, right)`: parts of one more example that fails, and of one that
        succeeds, with n the examples in the sums. An interval needs them where all were right or wrong.
    influence : callable, optional
        Without parts: `influence(predictions, targets, labels) -> array of shape (examples,)`, what each
        example adds to the error of the score; sums to 0.
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
    *,
    parts: Callable[[Any, Any, Labels], Array],
    from_parts: Callable[[Array], Array],
    **declared: Any,
) -> Score:
    """Declare a score that is a function of sums over examples."""

    def compute(predictions: Any, targets: Any, labels: Labels = ()) -> float:
        return float(from_parts(parts(predictions, targets, labels).sum(axis=0)))

    return Score(compute=compute, parts=parts, from_parts=from_parts, **declared)


def ratio(top: Array, bottom: Array) -> Array:
    """Divide, with 0 where there is nothing to divide by."""
    top, bottom = np.broadcast_arrays(np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64))
    return np.divide(top, bottom, out=np.zeros(top.shape), where=bottom > 0)


def same_length(predictions: Values, targets: Values) -> int:
    """Count the examples, after seeing that there is one prediction for each."""
    if len(predictions) != len(targets):
        raise InputError(
            f"predictions must be as many as the {len(targets)} examples, but got {len(predictions)}."
        )
    if not len(targets):
        raise must("the number of examples", "at least 1", 0)
    return len(targets)


def class_arrays(predictions: Values, targets: Values, labels: Labels) -> tuple[Whole, Whole, int]:
    """
    Read two lists of label numbers.

    Returns
    -------
    predictions, targets : ndarray of int, shape (examples,)
    count : int
        How many classes there are: labels, or, without them, one more than the largest number.
    """
    same_length(predictions, targets)
    read = [whole_numbers(side, what) for side, what in ((predictions, "predictions"), (targets, "targets"))]
    count = len(labels) or int(max(side.max() for side in read)) + 1
    for side, what in zip(read, ("predictions", "targets"), strict=True):
        if side.min() < 0 or side.max() >= count:
            bad = side[(side < 0) | (side >= count)][0]
            raise must(what, f"numbers of the {count} labels, 0 to {count - 1}", int(bad))
    return read[0], read[1], count


def whole_numbers(values: Values, what: str) -> Whole:
    """Read a flat list of whole numbers."""
    try:
        found = np.asarray(values)
    except ValueError:
        raise must(what, "one whole number an example", "lists of several lengths") from None
    if found.ndim != 1:
        raise must(what, "one whole number an example", f"an array of shape {found.shape}")
    if found.dtype.kind not in "iub":
        raise must(what, "whole numbers", found[0].item() if found.dtype.kind in "fUS" else found[0])
    return found.astype(np.int64)
