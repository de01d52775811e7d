"""CKA with Gaussian kernels (RBF CKA)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..lazy import torch
from .declare import Measure, MeasureOption, Undefined, invariant
from .rsa import PairVector, compute, recenter, squared_distances, strips, to_unit


def median_squared_distance(squared: torch.Tensor, n: int, entries: str) -> float:
    """
    Median of the n by n matrix of squared distances, given only its pairs.

    Parameters
    ----------
    squared : Tensor of shape (n(n-1)/2,)
        Each pair once.
    n : int
        The number of rows, at least 3.
    entries : {"all", "off_diagonal"}
        Whether the zeros of the diagonal count.

    Returns
    -------
    float
        The mean of the middle two for an even number of entries.
    """
    if entries == "all":
        # Sorted, the matrix is n zeros and then every pair twice.
        middle = [((n * n - 1) // 2 - n) // 2, (n * n // 2 - n) // 2]
    else:
        middle = [(squared.numel() - 1) // 2, squared.numel() // 2]
    return float(np.partition(squared.cpu().numpy(), middle)[middle].mean())


def row_sums(pairs: torch.Tensor, n: int) -> torch.Tensor:
    """
    Sum the rows of a symmetric matrix with zero diagonal that is given by its pairs.

    Parameters
    ----------
    pairs : Tensor of shape (n(n-1)/2,), float64
    n : int

    Returns
    -------
    Tensor of shape (n,)
    """
    sums = pairs.new_zeros(n)
    for strip in strips(n):
        i, j = strip.corner(pairs.device)
        inside = pairs[strip.inside]
        sums.index_add_(0, i, inside).index_add_(0, j, inside)
        beyond = pairs[strip.beyond].view(strip.stop - strip.start, n - strip.stop)
        sums[strip.start : strip.stop] += beyond.sum(1)
        sums[strip.stop :] += beyond.sum(0)
    return sums


def subtract_means(pairs: torch.Tensor, means: torch.Tensor) -> None:
    """Subtract means[i] + means[j] from every pair, in place."""
    n = means.numel()
    for strip in strips(n):
        i, j = strip.corner(pairs.device)
        pairs[strip.inside] -= means[i] + means[j]
        beyond = pairs[strip.beyond].view(strip.stop - strip.start, n - strip.stop)
        beyond -= means[strip.start : strip.stop, None]
        beyond -= means[strip.stop :]


def prepare(x: torch.Tensor, options: Mapping[str, Any]) -> PairVector | Undefined:
    """
    Compute the centered Gaussian Gram matrix of the rows, with norm 1, as a vector.

    The vector holds each pair once, times the root of 2, and then the diagonal (which the debiased form
    leaves out), so that inner products of vectors are those of the matrices.

    Parameters
    ----------
    x : Tensor of shape (n, d), float64
    options : mapping
        `t`, `median` and `debiased`, see `RBF_CKA`.
    """
    n, debiased = x.shape[0], options["debiased"]
    fewest = 4 if debiased else 3
    if n < fewest:
        return Undefined(f"needs at least {fewest} rows, has {n}")
    pairs = squared_distances(recenter(x))
    median = median_squared_distance(pairs, n, options["median"])
    if median == 0:
        return Undefined("has a median distance of zero between rows, so the kernel has no width")
    pairs.mul_(-0.5 / (options["t"] ** 2 * median)).exp_()
    sums = row_sums(pairs, n)
    if debiased:
        largest = float(pairs.max())
        subtract_means(pairs, sums / (n - 2) - sums.sum() / (2 * (n - 1) * (n - 2)))
        if bool(pairs.abs().max() <= 1e-13 * largest):
            return Undefined("has the same kernel value for all pairs of rows")
        return to_unit(pairs)
    means = (sums + 1) / n  # the diagonal of the kernel is 1
    means -= means.mean() / 2
    subtract_means(pairs, means)
    return to_unit(pairs.mul_(2**0.5), 1 - 2 * means)


def trace_null(left: PairVector | Undefined, right: PairVector | Undefined, n: int) -> float:
    """
    Mean of the biased value over all permutations of the rows of one side: the traces' product over n - 1.

    Parameters
    ----------
    left, right : PairVector
        Prepared with `debiased` false.
    n : int
        The number of rows.

    Returns
    -------
    float
        NaN where the value itself is undefined.
    """
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return float("nan")
    traces = float(left.vector[-n:].double().sum() * right.vector[-n:].double().sum())
    return traces / (left.norm * right.norm * (n - 1))


RBF_CKA = Measure(
    name="rbf_cka",
    title="RBF CKA",
    summary="Cosine of the centered Gaussian Gram matrices of the two layers: sees nonlinear relations too.",
    formula=(
        "<HKH, HLH> / (|HKH| |HLH|), K_ij = exp(-|x_i - x_j|^2 / (2 t^2 median |x_k - x_l|^2)), "
        "L likewise of y; H centers, or U-centers without the diagonal when debiased"
    ),
    citations=("kornblith2019", "gretton2005", "song2012"),
    range=(0.0, 1.0),
    symmetric=True,
    invariances=invariant("orthogonal", "isotropic_scale", "translation", "neuron_permutation"),
    needs="rows",
    prepare=prepare,
    compute=compute,
    options={
        "t": MeasureOption(default=1.0, low=0.01, meaning="kernel width, in root median squared distances"),
        "median": MeasureOption(
            default="all",
            choices=("all", "off_diagonal"),
            meaning="whether the median distance counts the zeros of the diagonal",
        ),
        "debiased": MeasureOption(
            default=False,
            choices=(False, True),
            meaning="leave the diagonal out (U-centering): zero on average for unrelated rows",
        ),
    },
    null="trace",
    varying={
        "range": lambda options: (-1.0, 1.0) if options["debiased"] else (0.0, 1.0),
        "null": lambda options: "zero" if options["debiased"] else "trace",
    },
)
