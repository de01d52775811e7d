"""Representational similarity analysis (RSA)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..lazy import torch
from .declare import Invariances, Measure, MeasureOption, Undefined, invariant

BLOCK = 256  # rows per strip: one strip of 10,000 rows is 20 MB
COINCIDENT = 2.0**-44  # squared distances below this share of the squared norms are rounding errors of zero
TIED = 2.0**-40  # similarities that differ by less than this share of the largest are tied
CENTER_ROWS = 200  # rows whose median is subtracted from all rows
DOUBLE_PAIRS = 2**23  # with more pairs than this a layer is kept in float32: 4,100 rows, 64 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStrip:
    """
    Positions of the pairs of a few consecutive rows in the vector of all pairs.

    The vector holds each of the n(n-1)/2 pairs once: for every strip the pairs inside the strip, then
    the pairs of its rows with all later rows. It can be filled by matrix products and never needs the
    square matrix.

    Parameters
    ----------
    start, stop : int
        The rows.
    inside : slice
        The pairs (i, j) with start <= i < j < stop, row by row.
    beyond : slice
        The pairs (i, j) with start <= i < stop <= j, row by row.
    """

    start: int
    stop: int
    inside: slice
    beyond: slice

    def corner(self, device: torch.device) -> torch.Tensor:
        """Row numbers of the pairs inside, a tensor of shape (2, pairs)."""
        size = self.stop - self.start
        return torch.triu_indices(size, size, 1, device=device) + self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVector:
    """A layer as a unit vector over pairs of rows, and its norm, not exactly 1 after rounding to float32."""

    vector: torch.Tensor
    norm: float = 1.0


def strips(n: int) -> Iterator[PairStrip]:
    """Split n rows into strips that cover each pair once."""
    offset = 0
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        inside = offset + (stop - start) * (stop - start - 1) // 2
        beyond = inside + (stop - start) * (n - stop)
        yield PairStrip(start=start, stop=stop, inside=slice(offset, inside), beyond=slice(inside, beyond))
        offset = beyond


def fill_pairs(
    x: torch.Tensor, finish: Callable[[torch.Tensor, slice, slice], torch.Tensor] | None = None
) -> torch.Tensor:
    """
    Compute a function of the inner product of every pair of rows.

    Parameters
    ----------
    x : Tensor of shape (n, d), float64
    finish : callable, optional
        Converts a block of inner products to values; it may modify the block in place.

    Returns
    -------
    Tensor of shape (n(n-1)/2,), float64
        In the order of `strips`.
    """
    n = x.shape[0]
    pairs = x.new_empty(n * (n - 1) // 2)
    for strip in strips(n):
        size = strip.stop - strip.start
        block = x[strip.start : strip.stop] @ x[strip.start :].T
        if finish is not None:
            block = finish(block, slice(strip.start, strip.stop), slice(strip.start, n))
        i, j = strip.corner(x.device) - strip.start
        pairs[strip.inside] = block[i, j]
        pairs[strip.beyond].view(size, n - strip.stop).copy_(block[:, size:])
    return pairs


def recenter(x: torch.Tensor) -> torch.Tensor:
    """
    Shift the rows to median zero and scale their entries to order 1; equal rows become exactly zero.

    Inner products of such rows lose no digits to a common offset. A median, unlike a mean, is robust to an
    outlying row.
    """
    moved = x * 2.0 ** -max(math.frexp(float(x.abs().max()))[1], -1000)  # a power of 2 costs no digits
    # Any point amid the rows will do: the median of a spread-out sample of the rows.
    moved -= moved[:: max(1, len(moved) // CENTER_ROWS)].median(0).values
    return moved


def squared_distances(x: torch.Tensor, *, root: bool = False) -> torch.Tensor:
    """
    Squared Euclidean distances of all pairs of rows, with exact zeros for rows that coincide.

    Parameters
    ----------
    x : Tensor of shape (n, d), float64
        Rows that `recenter` has moved.
    root : bool
        Whether to take the square root of them.

    Returns
    -------
    Tensor of shape (n(n-1)/2,)
    """
    norms = x.square().sum(1)

    def finish(block: torch.Tensor, rows: slice, columns: slice) -> torch.Tensor:
        total = norms[rows, None] + norms[columns]
        block = torch.sub(total, block, alpha=2, out=block)
        block.masked_fill_(block < total.mul_(COINCIDENT), 0)
        return block.sqrt_() if root else block

    return fill_pairs(x, finish)


def rank(values: torch.Tensor, step: float) -> torch.Tensor:
    """
    Rank values from 1, with mean ranks for ties.

    Parameters
    ----------
    values : Tensor of shape (m,), float64
    step : float
        Values are tied when they round to the same multiple of the step, since matrix products compute
        equal similarities with different last bits.

    Returns
    -------
    Tensor of shape (m,), float64

    Examples
    --------
    >>> import torch
    >>> rank(torch.tensor([3.0, 1.0, 3.0, 2.0]), 1e-9).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    m = values.numel()
    low, high = float(values.min()), float(values.max())
    # Steps and position fit one integer: sorting plain integers takes half the time of argsort.
    bits = m.bit_length()
    step = max(step, (high - low) / 2.0 ** (62 - bits))
    keys = (values - low).div_(step).round_().long().cpu().numpy()
    keys <<= bits
    keys |= np.arange(m)
    keys.sort()
    order = keys & ((1 << bits) - 1)
    keys >>= bits
    starts = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    sizes = np.diff(starts, append=m)
    ranks = np.empty(m)
    ranks[order] = np.repeat(starts + (sizes + 1) / 2, sizes)
    return torch.from_numpy(ranks).to(values.device)


def to_unit(pairs: torch.Tensor, diagonal: torch.Tensor | None = None) -> PairVector:
    """
    Divide by the norm, and convert to float32 where there are enough pairs that few digits are lost.

    Parameters
    ----------
    pairs : Tensor of shape (m,), float64
    diagonal : Tensor of shape (n,), float64, optional
        Appended to the pairs.

    Returns
    -------
    PairVector
    """
    parts = [pairs] if diagonal is None else [pairs, diagonal]
    norm = math.hypot(*(float(torch.linalg.vector_norm(part)) for part in parts))
    # Rounding errors of millions of entries average out; inner products are summed in float64.
    double = pairs.numel() <= DOUBLE_PAIRS
    if double and diagonal is None:
        return PairVector(vector=pairs.div_(norm))
    unit = pairs.new_empty(sum(map(len, parts)), dtype=torch.float64 if double else torch.float32)
    for target, part in zip(unit.split([len(part) for part in parts]), parts, strict=True):
        target.copy_(part.div_(norm))
    # Equal pairs are rounded equally, which does not average out: a layer's self-similarity would not be 1.
    return PairVector(vector=unit, norm=1.0 if double else math.sqrt(inner_product(unit, unit)))


def prepare(x: torch.Tensor, options: Mapping[str, Any]) -> PairVector | Undefined:
    """
    Compute the centered unit vector of the rows' pairwise similarities, or of their ranks.

    Parameters
    ----------
    x : Tensor of shape (n, d), float64
    options : mapping
        `inner` and `outer`, see `RSA`.
    """
    inner, ranked = options["inner"], options["outer"] == "spearman"
    if x.shape[0] < 3:
        return Undefined(f"needs at least 3 rows, has {x.shape[0]}")
    if inner in ("cosine", "pearson"):
        directions = unit_rows(x, centered=inner == "pearson")
        if isinstance(directions, Undefined):
            return directions
        pairs, scale = fill_pairs(directions), 1.0
    else:
        # Ranks of the squares are ranks of the distances.
        pairs = squared_distances(recenter(x), root=inner == "euclidean" and not ranked)
        scale = None
    low, high = (float(v) for v in torch.aminmax(pairs))
    scale = high if scale is None else scale
    if high - low <= 1e-13 * scale:
        return Undefined("finds all pairs of rows equally similar")
    if ranked:
        pairs = rank(pairs, scale * TIED)
    pairs -= pairs.mean()
    return to_unit(pairs)


def unit_rows(x: torch.Tensor, *, centered: bool = False) -> torch.Tensor | Undefined:
    """
    Scale every row to length 1; undefined where a row has no direction.

    Parameters
    ----------
    x : Tensor of shape (n, d), float64
    centered : bool
        Subtract each row's mean over the neurons first (cosine becomes correlation).

    Returns
    -------
    Tensor of shape (n, d), or Undefined
    """
    largest = x.abs().amax(1, keepdim=True)
    rows = x / torch.where(largest > 0, largest, 1.0)  # squares of entries neither over- nor underflow
    if centered:
        rows = rows - rows[:, :1]
        rows -= rows.mean(1, keepdim=True)
    norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    empty = torch.nonzero(norms[:, 0] == 0)
    if len(empty):
        why = (
            "is constant over neurons, so it has no correlation"
            if centered
            else "is zero, so it has no angle"
        )
        return Undefined(f"has row {int(empty[0])} (counted from 0), which {why} with other rows")
    return rows / norms


def compute(left: PairVector, right: PairVector, options: Mapping[str, Any]) -> tuple[float, None]:
    """Compute the inner product of two prepared layers, which is always defined."""
    return inner_product(left.vector, right.vector) / (left.norm * right.norm), None


def inner_product(left: torch.Tensor, right: torch.Tensor) -> float:
    """Sum products of two vectors in float64, without a long float64 copy of float32 vectors."""
    if left.dtype == torch.float64:
        return float(torch.dot(left, right))
    pieces = zip(left.split(2**16), right.split(2**16), strict=True)
    return float(torch.stack([torch.dot(a.double(), b.double()) for a, b in pieces]).sum())


def _invariances(options: Mapping[str, Any]) -> Invariances:
    by_inner = {
        "cosine": ("orthogonal", "isotropic_scale", "neuron_permutation"),
        "pearson": ("isotropic_scale", "neuron_permutation"),
        "euclidean": ("orthogonal", "isotropic_scale", "translation", "neuron_permutation"),
        "sqeuclidean": ("orthogonal", "isotropic_scale", "translation", "neuron_permutation"),
    }
    return invariant(*by_inner[options["inner"]])


RSA = Measure(
    name="rsa",
    title="RSA",
    summary="Correlation, over all pairs of rows, of how similar each layer finds the two rows.",
    formula="corr over i < j of s(x_i, x_j) and s(y_i, y_j), s the inner similarity of two rows",
    citations=("kriegeskorte2008", "merchant2020"),
    range=(-1.0, 1.0),
    symmetric=True,
    invariances=_invariances({"inner": "cosine"}),
    needs="rows",
    prepare=prepare,
    compute=compute,
    options={
        "inner": MeasureOption(
            default="cosine",
            choices=("cosine", "pearson", "euclidean", "sqeuclidean"),
            meaning="similarity of two rows: cosine, correlation over neurons, or a (squared) distance",
        ),
        "outer": MeasureOption(
            default="pearson",
            choices=("pearson", "spearman"),
            meaning="correlation of the two layers over pairs of rows: of values, or of ranks",
        ),
    },
    null="zero",
    varying={"invariances": _invariances},
)
