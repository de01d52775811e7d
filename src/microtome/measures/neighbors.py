"""Mutual k-nearest-neighbor overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..lazy import torch
from .declare import Invariances, Measure, MeasureOption, Undefined, invariant
from .rsa import BLOCK, recenter, unit_rows

DISTANCE_BITS = 40  # of a squared distance: rows that differ in later bits are equally near
MAX_EXPONENT = 62  # of the ratio of the largest to the smallest unit of distance


def nearest(x: torch.Tensor, k: int) -> torch.Tensor:
    """
    Find the k nearest other rows of every row, by Euclidean distance.

    Ties are broken by the lower index, so that the neighbors do not depend on rounding, and thus not on a
    rotation of the layer.

    Parameters
    ----------
    x : Tensor of shape (n, d), float64
        Rows that `recenter` has moved.
    k : int
        Less than n.

    Returns
    -------
    Tensor of shape (n, k), int64
        Indices in order of distance.
    """
    n = x.shape[0]
    norms = x.square().sum(1)
    unit = norms + norms.median() + norms.max() * 2.0**-MAX_EXPONENT
    index = torch.arange(n, device=x.device)
    # One integer holds distance and index. The bits of 1 + squared / unit, a float64, are ordered like the
    # number; rounded, they do not depend on the rounding errors of the distance, which grow with the unit.
    index_bits = (n - 1).bit_length()
    dropped = max(52 - DISTANCE_BITS, 52 + MAX_EXPONENT.bit_length() + index_bits - 63)
    one_bits = torch.ones((), dtype=torch.float64).view(torch.int64).item()
    nearest_keys = torch.empty(n, k, dtype=torch.int64, device=x.device)
    for start in range(0, n, BLOCK):
        rows = slice(start, start + BLOCK)
        squared = (x[rows] @ x.T).mul_(-2).add_(norms[rows, None]).add_(norms).clamp_min_(0)
        bits = squared.div_(unit[rows, None]).add_(1).view(torch.int64)
        keys = bits.sub_(one_bits - (1 << (dropped - 1))).bitwise_right_shift_(dropped)
        keys.bitwise_left_shift_(index_bits).bitwise_or_(index)
        keys[index[rows] - start, index[rows]] = torch.iinfo(torch.int64).max
        nearest_keys[rows] = torch.topk(keys, k, dim=1, largest=False).values
    return nearest_keys.bitwise_and_((1 << index_bits) - 1)


def prepare(x: torch.Tensor, options: Mapping[str, Any]) -> torch.Tensor | Undefined:
    """
    Find every row's nearest neighbors: their indices, of shape (n, k).

    Parameters
    ----------
    x : Tensor of shape (n, d), float64
    options : mapping
        `k`, `metric` and `overlap`, see `MUTUAL_KNN`.
    """
    n, k = x.shape[0], options["k"]
    if k >= n:
        return Undefined(f"needs more than k = {k} rows, has {n}")
    if options["metric"] == "cosine":
        directions = unit_rows(x)
        if isinstance(directions, Undefined):
            return directions
        x = directions  # for unit rows, the nearest by distance are the nearest by angle
    moved = recenter(x)
    if bool(moved.abs().max() <= 1e-14):
        description = "equal rows" if options["metric"] == "euclidean" else "rows of one direction"
        return Undefined(f"has {description}, so none is nearer than another")
    return nearest(moved, k)


def compute(left: torch.Tensor, right: torch.Tensor, options: Mapping[str, Any]) -> tuple[float, None]:
    """Average over rows the overlap of the two sets of neighbors, which is always defined."""
    # Each set holds an index at most once, so an index that occurs twice in a merged row is shared.
    merged = torch.cat([left, right], dim=1).sort(dim=1).values
    shared = (merged[:, 1:] == merged[:, :-1]).sum(1).double()
    k = left.shape[1]
    overlap = shared / k if options["overlap"] == "share" else shared / (2 * k - shared)
    return float(overlap.mean()), None


def chance(n: int, options: Mapping[str, Any]) -> float:
    """
    Mean overlap under a random permutation of the rows of one side.

    Parameters
    ----------
    n : int
        The number of rows; NaN where k is not smaller.
    options : mapping
        `k` and `overlap`.

    Examples
    --------
    >>> chance(101, {"k": 10, "overlap": "share"})
    0.1
    """
    from scipy.special import gammaln

    k = options["k"]
    if k >= n:
        return float("nan")
    if options["overlap"] == "share":
        return k / (n - 1)
    # The number shared is hypergeometric: k draws out of n - 1, of which k count.
    shared = np.arange(max(0, 2 * k - (n - 1)), k + 1)
    logs = -(gammaln(shared + 1) + 2 * gammaln(k - shared + 1) + gammaln(n - 2 * k + shared))
    weights = np.exp(logs - logs.max())
    return float((weights * shared / (2 * k - shared)).sum() / weights.sum())


def _invariances(options: Mapping[str, Any]) -> Invariances:
    transformations = ("orthogonal", "isotropic_scale", "neuron_permutation")
    return (
        invariant(*transformations)
        if options["metric"] == "cosine"
        else invariant(*transformations, "translation")
    )


MUTUAL_KNN = Measure(
    name="mutual_knn",
    title="mutual k-NN",
    summary="Share of a row's k nearest neighbors in one layer that are also its neighbors in the other.",
    formula="mean over i of |N(i) & M(i)| / k (share) or |N(i) & M(i)| / |N(i) | M(i)| (jaccard), "
    "N(i), M(i) the k nearest other rows of row i in x, in y",
    citations=("huh2024",),
    range=(0.0, 1.0),
    symmetric=True,
    invariances=_invariances({"metric": "cosine"}),
    needs="rows",
    prepare=prepare,
    compute=compute,
    options={
        "k": MeasureOption(default=10, low=1, meaning="neighbors of a row, the row itself left out"),
        "metric": MeasureOption(
            default="cosine", choices=("cosine", "euclidean"), meaning="what makes a row near"
        ),
        "overlap": MeasureOption(
            default="share",
            choices=("share", "jaccard"),
            meaning="shared neighbors over k, or over the size of the union",
        ),
    },
    null="chance",
    varying={"invariances": _invariances},
)
