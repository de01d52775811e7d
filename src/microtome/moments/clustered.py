"""What do rows of one cluster share? The terms that cluster-debiased CKA and its intervals are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .crossing import Crossing
from .stack import Stack
from .tiles import TILE_ROWS, Tiles, block_sum, squared_norms

if TYPE_CHECKING:
    import torch

# Scores are kept for at most this many units; rows beyond it are summed in random groups, whose sums
# have the same variance.
MOST_UNITS = 4096
# Inner products within clusters that are held at once, of all layers together: 128 megabytes. A document of
# some thousand rows has more, and is read in strips.
MOST_PRODUCTS = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """
    Rows in an order in which clusters are contiguous.

    Parameters
    ----------
    starts, sizes : ndarray of shape (clusters,)
        Where each cluster begins, and how many rows it has.
    """

    starts: np.ndarray
    sizes: np.ndarray

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.sizes.sum())

    def ranges(self, most: int = TILE_ROWS) -> list[tuple[int, int]]:
        """Cut the rows into tiles between clusters, each as long as fits and at least one cluster."""
        ends = self.starts + self.sizes
        ranges: list[tuple[int, int]] = []
        start = 0
        while start < self.n:
            last = int(np.searchsorted(ends, start + most, side="right")) - 1
            stop = int(ends[max(last, int(np.searchsorted(self.starts, start)))])
            ranges.append((start, stop))
            start = stop
        return ranges

    def blocks(self, start: int, stop: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (clusters, rows) of a tile, rows of shape (clusters, size) counted from its start."""
        first, last = np.searchsorted(self.starts, [start, stop])
        sizes = self.sizes[first:last]
        for size in np.unique(sizes):
            clusters = first + np.flatnonzero(sizes == size)
            yield clusters, self.starts[clusters][:, None] - start + np.arange(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTerms:
    """
    Sums within clusters, for every layer and every pair of layers.

    Parameters
    ----------
    mean : list of Tensor of shape (features,)
        Float64.
    within : Tensor of shape (layers, layers)
        Sum over the pairs of rows within clusters of the product of two layers' inner products.
    k_rows : Tensor of shape (layers, n)
        For each row, minus the sum of its inner products with the rows of its cluster.
    """

    mean: list[torch.Tensor]
    within: torch.Tensor
    k_rows: torch.Tensor


def means(
    stacks: Sequence[Stack], *, dtype: torch.dtype, device: torch.device, tile_rows: int
) -> list[torch.Tensor]:
    """Mean of every feature of every layer, float64, from one reading of the rows."""
    import torch

    reader = Tiles(stacks, dtype=dtype, device=device, tile_rows=tile_rows)
    total = torch.zeros(reader.offsets[-1], dtype=torch.float64, device=device)
    for start, stop, Z in reader:
        part = block_sum(Z)
        reader.check(part, start, stop)
        total += part
    parts = (total / reader.n).split(list(reader.widths))
    return [shift.double() + rest for shift, rest in zip(reader.shift, parts, strict=True)]


def _centered(
    stacks: Sequence[Stack],
    mean: list[torch.Tensor],
    layout: Layout,
    dtype: torch.dtype,
    device: torch.device,
    tile_rows: int,
) -> Tiles:
    reader = Tiles(stacks, dtype=dtype, device=device, shift=mean, tile_rows=tile_rows)
    reader.ranges = layout.ranges(tile_rows)
    return reader


def _inner(reader: Tiles, Z: torch.Tensor, rows: torch.Tensor) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """
    Inner products within clusters of one size, in strips of rows.

    Yields
    ------
    chosen, strip : slice
        Of the clusters, and of the rows of each.
    inner : Tensor of shape (layers, chosen, strip, size)
        Float64.
    """
    import torch

    count, size = rows.shape
    layers = len(reader.widths)
    if size == 1:
        yield slice(0, count), slice(0, 1), squared_norms(Z[rows[:, 0]], reader.widths)[:, :, None, None]
        return
    room = max(1, MOST_PRODUCTS // (layers * size))
    clusters, step = max(1, room // size), min(room, size)
    for first in range(0, count, clusters):
        chosen = slice(first, min(first + clusters, count))
        for begin in range(0, size, step):
            strip = slice(begin, min(begin + step, size))
            found = []
            for position in range(layers):
                x = reader.part(Z, position)[rows[chosen]]
                found.append((x[:, strip] @ x.mT).double())
            yield chosen, strip, torch.stack(found)


def cluster_terms(
    stacks: Sequence[Stack],
    layout: Layout,
    *,
    dtype: torch.dtype,
    device: torch.device,
    tile_rows: int = TILE_ROWS,
) -> ClusterTerms:
    """
    Read the rows twice: for their means, then for the sums within clusters.

    Parameters
    ----------
    stacks : sequence of Stack
        Left, and right if there is one, with rows in the order of `layout`.
    layout : Layout
    dtype, device
        As in `cross`.
    tile_rows : int

    Returns
    -------
    ClusterTerms
    """
    import torch

    mean = means(stacks, dtype=dtype, device=device, tile_rows=tile_rows)
    reader = _centered(stacks, mean, layout, dtype, device, tile_rows)
    count = len(reader.widths)
    within = torch.zeros((count, count), dtype=torch.float64, device=device)
    k_rows = torch.empty((count, layout.n), dtype=torch.float64, device=device)
    for start, stop, Z in reader:
        for _, rows in layout.blocks(start, stop):
            at = torch.as_tensor(rows, device=device)
            for chosen, strip, inner in _inner(reader, Z, at):
                k_rows[:, start + at[chosen, strip].flatten()] = -inner.sum(3).flatten(1)
                flat = inner.flatten(1)
                within += flat @ flat.T
    return ClusterTerms(mean=mean, within=within, k_rows=k_rows)


def unit_codes(layout: Layout, rng: np.random.Generator) -> np.ndarray:
    """Number the unit of each cluster: itself, or a random group when there are more than `MOST_UNITS`."""
    clusters = len(layout.sizes)
    if clusters <= MOST_UNITS:
        return np.arange(clusters)
    return rng.permutation(np.arange(clusters) % MOST_UNITS)


def along_weights(
    stacks: Sequence[Stack],
    terms: ClusterTerms,
    u_rows: torch.Tensor,
    layout: Layout,
    *,
    dtype: torch.dtype,
    device: torch.device,
    tile_rows: int = TILE_ROWS,
) -> list[torch.Tensor]:
    """
    Sum the centered rows of each layer, weighted by every layer's u: X'U, shape (features, layers) each.

    Parameters
    ----------
    stacks, terms, layout, dtype, device, tile_rows
        As before.
    u_rows : Tensor of shape (layers, n)
        What generalized U-centering takes off each row.
    """
    import torch

    reader = _centered(stacks, terms.mean, layout, dtype, device, tile_rows)
    sums = [torch.zeros((w, len(u_rows)), dtype=torch.float64, device=device) for w in reader.widths]
    for start, stop, Z in reader:
        weights = u_rows[:, start:stop].T
        for position, total in enumerate(sums):
            total += reader.part(Z, position).double().T @ weights
    return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitScores:
    """
    What each unit contributes to the norms of a pass.

    Parameters
    ----------
    cross : Tensor of shape (left layers, right layers, units)
        Share in the debiased norm of the cross-scatter; only pairs that the crossing holds, else 0.
    own : Tensor of shape (layers, units)
        The same of each layer with itself; NaN where the crossing has no scatter matrix of its own.
    biased_cross, biased_own : Tensor
        How far the biased norms move with the weight of the unit.
    """

    cross: torch.Tensor
    own: torch.Tensor
    biased_cross: torch.Tensor
    biased_own: torch.Tensor


def cluster_scores(
    left: Stack,
    right: Stack | None,
    crossing: Crossing,
    terms: ClusterTerms,
    u_rows: torch.Tensor,
    along: list[torch.Tensor],
    layout: Layout,
    units: np.ndarray,
    *,
    dtype: torch.dtype,
    device: torch.device,
    tile_rows: int = TILE_ROWS,
) -> UnitScores:
    """
    Share of each unit in the cluster-debiased norm of every cross-scatter: the second reading of the rows.

    Parameters
    ----------
    left, right : Stack, Stack or None
        The layers of `crossing`.
    crossing : Crossing
    terms, u_rows, along
        Of the same layers, in the same order.
    layout : Layout
    units : ndarray of shape (clusters,)
        Unit of each cluster.
    dtype, device, tile_rows
        As before.

    Returns
    -------
    UnitScores
    """
    import torch

    stacks = [left] if right is None else [left, right]
    reader = _centered(stacks, terms.mean, layout, dtype, device, tile_rows)
    count, lefts, rights = len(reader.widths), crossing.left, crossing.right
    size = int(units.max()) + 1
    pairs = torch.zeros((count, count, size), dtype=torch.float64, device=device)
    biased, within = torch.zeros_like(pairs), torch.zeros_like(pairs)
    strips = [strip.to(dtype) for strip in crossing.strips]
    own = [None if block is None or right is None else block.to(dtype) for block in crossing.diagonal]
    u_sum, k_rows = u_rows.sum(1), terms.k_rows
    uv_sum = u_rows @ u_rows.T
    widths, offsets = reader.widths, reader.offsets
    for start, stop, Z in reader:
        codes = torch.as_tensor(units[_cluster_of(layout, start, stop)], device=device)
        k, u = k_rows[:, start:stop], u_rows[:, start:stop]
        # Row by row, for all pairs (x, y): x_i'(X'v) + 2 k_i v_i, and the same with the sides swapped
        # but for one k_i v_i: see the expansion of the projected products below.
        rows = torch.stack([reader.part(Z, p).double() @ along[p] for p in range(count)]).permute(0, 2, 1)
        rows = rows + k[:, None, :] * u[None, :, :]
        linear = rows + rows.transpose(0, 1) + k[:, None, :] * u[None, :, :]
        pairs.index_add_(2, codes, -linear)
        for i in lefts:
            columns = list(rights[crossing.first[i] :])
            begin = offsets[columns[0]]
            product = (reader.part(Z, i) @ strips[i]).mul_(Z[:, begin:])
            found = torch.stack([p.sum(1) for p in product.split([widths[j] for j in columns], 1)])
            biased[i, columns] = biased[i, columns].index_add(1, codes, found.double())
        for p, block in enumerate(own):
            if block is not None:
                x = reader.part(Z, p)
                biased[p, p].index_add_(0, codes, ((x @ block) * x).sum(1).double())
        for clusters, at in layout.blocks(start, stop):
            index = torch.as_tensor(at, device=device)
            inside = torch.zeros((len(clusters), count, count), dtype=torch.float64, device=device)
            for chosen, _, part in _inner(reader, Z, index):
                inner = part.flatten(2).transpose(0, 1)
                inside[chosen] += inner @ inner.mT
            ui = u[:, index]
            u_c = ui.sum(2).T
            uv_c = torch.einsum("acm,bcm->cab", ui, ui)
            block = u_c[:, None, :] * (u_sum[:, None] - u_c[:, :, None])
            block = block + at.shape[1] * (uv_sum - uv_c) - inside
            places = torch.as_tensor(units[clusters], device=device)
            pairs.index_add_(2, places, block.permute(1, 2, 0))
            within.index_add_(2, places, inside.permute(1, 2, 0))
    pairs += biased
    # A cluster meets itself once and each other cluster twice, in its row and in its column.
    biased = 2 * biased - within
    missing = [p for p, block in enumerate(crossing.diagonal) if block is None]
    own = []
    for table in (pairs, biased):
        diagonal = table[range(count), range(count)]
        diagonal[missing] = float("nan")
        own.append(diagonal)
    cut = (slice(lefts[0], lefts[-1] + 1), slice(rights[0], rights[-1] + 1))
    return UnitScores(cross=pairs[cut], own=own[0], biased_cross=biased[cut], biased_own=own[1])


def _cluster_of(layout: Layout, start: int, stop: int) -> np.ndarray:
    first, last = np.searchsorted(layout.starts, [start, stop])
    return np.repeat(np.arange(first, last), layout.sizes[first:last])
