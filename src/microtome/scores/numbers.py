"""Regression scores: Pearson and Spearman correlation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import must
from .declare import Array, Labels, Score, Values, same_length


def number_arrays(predictions: Values, targets: Values) -> tuple[Array, Array]:
    """Convert two lists of finite numbers into arrays of shape (examples,)."""
    same_length(predictions, targets)
    arrays = []
    for side, what in ((predictions, "predictions"), (targets, "targets")):
        array = np.asarray(side)
        if array.ndim != 1 or array.dtype.kind not in "iubf":
            raise must(what, "one number per example", f"an array of {array.dtype} of shape {array.shape}")
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise must(what, "finite", float(array[~np.isfinite(array)][0]))
        arrays.append(array)
    return arrays[0], arrays[1]


def _constant(predictions: Any, targets: Any, labels: Labels = ()) -> str | None:
    x, y = number_arrays(predictions, targets)
    if len(x) < 2:
        return "there is one example only"
    for side, what in ((x, "every prediction"), (y, "every target")):
        # A constant up to float32 rounding counts as constant, as in scipy.
        if np.ptp(side) <= 1e-13 * abs(side[0]):
            return f"{what} is the same number"
    return None


def _pearson(predictions: Any, targets: Any, labels: Labels = ()) -> float:
    if _constant(predictions, targets) is not None:
        return 0.0
    x, y = (side - side.mean() for side in number_arrays(predictions, targets))
    return float(np.clip(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)), -1, 1))


def _moments(predictions: Any, targets: Any, labels: Labels = ()) -> Array:
    # Numbers are shifted by the first: a constant becomes exactly 0, and rounding errors are small.
    x, y = (side - side[0] for side in number_arrays(predictions, targets))
    return np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y])


def _from_moments(sums: Array) -> Array:
    n, x, y, xx, yy, xy = np.moveaxis(np.asarray(sums, dtype=np.float64), -1, 0)
    n = np.maximum(n, 1)
    spread = [
        np.where(squares - total**2 / n > 1e-13 * squares, squares - total**2 / n, 0)
        for total, squares in ((x, xx), (y, yy))
    ]
    under = np.sqrt(spread[0] * spread[1])
    return np.clip(np.divide(xy - x * y / n, under, out=np.zeros_like(under), where=under > 0), -1, 1)


def _ranks(values: Array) -> Array:
    """Return the share of values below each, ties counted half: mean ranks up to scale."""
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    return ((np.cumsum(count) - count / 2) / len(values))[inverse]


def _spearman(predictions: Any, targets: Any, labels: Labels = ()) -> float:
    if _constant(predictions, targets) is not None:
        return 0.0
    x, y = number_arrays(predictions, targets)
    return _pearson(_ranks(x), _ranks(y))


def _above(values: Array, weights: Array) -> Array:
    """Return for each value the mean weight of the larger values, ties counted half."""
    _, inverse = np.unique(values, return_inverse=True)
    totals = np.bincount(inverse, weights=weights)
    return ((weights.sum() - np.cumsum(totals) + totals / 2) / len(values))[inverse]


def _spearman_influence(predictions: Any, targets: Any, labels: Labels = ()) -> Array:
    # Ranks are means over the sample too: an example moves the score through its own product of ranks
    # and through the ranks of all examples with larger values.
    x, y = number_arrays(predictions, targets)
    u, v = (_ranks(side) - 0.5 for side in (x, y))
    cov, uu, vv = (u * v).mean(), (u * u).mean(), (v * v).mean()
    if uu == 0 or vv == 0:
        return np.zeros(len(x))
    d_cov = u * v + _above(x, v) + _above(y, u)
    d_uu, d_vv = u * u + 2 * _above(x, u), v * v + 2 * _above(y, v)
    psi = d_cov / np.sqrt(uu * vv) - cov / np.sqrt(uu * vv) / 2 * (d_uu / uu + d_vv / vv)
    return (psi - psi.mean()) / len(x)


_CORRELATION: dict[str, Any] = {"kinds": ("regression",), "range": (-1.0, 1.0), "undefined": _constant}
NUMBER_SCORES = (
    Score(
        name="pearson",
        title="Pearson correlation",
        compute=_pearson,
        parts=_moments,
        from_parts=_from_moments,
        **_CORRELATION,
    ),
    Score(
        name="spearman",
        title="Spearman correlation",
        compute=_spearman,
        influence=_spearman_influence,
        **_CORRELATION,
    ),
)
