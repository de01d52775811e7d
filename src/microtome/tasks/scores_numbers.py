"""How well do predicted numbers follow the true ones?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import must
from .scores_declare import Array, Labels, Score, Values, same_length


def number_arrays(predictions: Values, targets: Values) -> tuple[Array, Array]:
    """Read two lists of finite numbers, each of shape (examples,)."""
    same_length(predictions, targets)
    read = []
    for side, what in ((predictions, "predictions"), (targets, "targets")):
        found = np.asarray(side)
        if found.ndim != 1 or found.dtype.kind not in "iubf":
            raise must(what, "one number an example", f"an array of {found.dtype} of shape {found.shape}")
        found = found.astype(np.float64)
        if not np.isfinite(found).all():
            raise must(what, "finite", float(found[~np.isfinite(found)][0]))
        read.append(found)
    return read[0], read[1]


def _constant(predictions: Any, targets: Any, labels: Labels = ()) -> str | None:
    x, y = number_arrays(predictions, targets)
    if len(x) < 2:
        return "there is one example only"
    for side, what in ((x, "every prediction"), (y, "every target")):
        # What is left of a constant after arithmetic in float32 counts as constant, as in scipy.
        if np.ptp(side) <= 1e-13 * abs(side[0]):
            return f"{what} is the same number"
    return None


def _pearson(predictions: Any, targets: Any, labels: Labels = ()) -> float:
    if _constant(predictions, targets) is not None:
        return 0.0
    x, y = (side - side.mean() for side in number_arrays(predictions, targets))
    return float(np.clip(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)), -1, 1))


def _moments(predictions: Any, targets: Any, labels: Labels = ()) -> Array:
    # Numbers are counted from the first: a constant becomes exactly 0, and little is lost to rounding.
    x, y = (side - side[0] for side in number_arrays(predictions, targets))
    return np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y])


def _from_moments(sums: Array) -> Array:
    n, x, y, xx, yy, xy = np.moveaxis(np.asarray(sums, dtype=np.float64), -1, 0)
    n = np.maximum(n, 1)
    spread = [
        np.where(two - one**2 / n > 1e-13 * two, two - one**2 / n, 0) for one, two in ((x, xx), (y, yy))
    ]
    under = np.sqrt(spread[0] * spread[1])
    return np.clip(np.divide(xy - x * y / n, under, out=np.zeros_like(under), where=under > 0), -1, 1)


def _ranks(values: Array) -> Array:
    """Share of the values below each, ties counted half; ranks with ties at their mean, but for scale."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return ((np.cumsum(count) - count / 2) / len(values))[place]


def _spearman(predictions: Any, targets: Any, labels: Labels = ()) -> float:
    if _constant(predictions, targets) is not None:
        return 0.0
    x, y = number_arrays(predictions, targets)
    return _pearson(_ranks(x), _ranks(y))


def _above(values: Array, weights: Array) -> Array:
    """Mean of the weights of the larger values, ties counted half, for each value."""
    _, place = np.unique(values, return_inverse=True)
    totals = np.bincount(place, weights=weights)
    return ((weights.sum() - np.cumsum(totals) + totals / 2) / len(values))[place]


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


PEARSON = Score(
    name="pearson",
    title="Pearson correlation",
    kinds=("regression",),
    range=(-1.0, 1.0),
    compute=_pearson,
    undefined=_constant,
    parts=_moments,
    from_parts=_from_moments,
)
SPEARMAN = Score(
    name="spearman",
    title="Spearman correlation",
    kinds=("regression",),
    range=(-1.0, 1.0),
    compute=_spearman,
    undefined=_constant,
    influence=_spearman_influence,
)
