"""Within-cluster terms of cluster-debiased CKA and of its intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..lazy import torch
from .crossing import Crossing
from .rowweights import RowWeights, WeightSums, hold_weights
from .stack import Stack
from .tiles import TILE_ROWS, Tiles, block_sum, squared_norms

# Scores are kept for at most this many units; with more clusters, they are summed in random groups, whose
# sums have the same variance.
MOST_UNITS = 4096
# Inner products within clusters that are held at once, for all layers together: 128 megabytes. A document of
# a few thousand rows has more, and is processed in strips.
MOST_PRODUCTS = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """
    Rows in an order in which clusters are contiguous.

    Parameters
    ----------
    starts, sizes : ndarray of shape (clusters,)
        The first row and the number of rows of each cluster.
    """

    starts: np.ndarray
    sizes: np.ndarray

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.sizes.sum())

    def ranges(self, most: int = TILE_ROWS) -> list[tuple[int, int]]:
        """Split the rows into tiles of complete clusters, at most `most` rows each unless one is larger."""
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
        The mean of each layer, float64.
    within : Tensor of shape (layers, layers)
        Sum over the pairs of rows within clusters of the product of two layers' inner products.
    weights : RowWeights
        For each row: k, minus the sum of its inner products with the rows of its cluster, and u.
    """

    mean: list[torch.Tensor]
    within: torch.Tensor
    weights: RowWeights

    def select(self, layers: Sequence[int]) -> ClusterTerms:
        """Return the terms of the given layers."""
        index = torch.tensor(layers, device=self.within.device)
        return ClusterTerms(
            mean=[self.mean[layer] for layer in layers],
            within=self.within[index][:, index],
            weights=self.weights.select(layers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRows:
    """
    Rows in clusters, and how they are read.

    Parameters
    ----------
    stacks : sequence of Stack
        Left, and right if there is one, with rows in the order of `layout`.
    layout : Layout
    dtype, device
        As in `cross`.
    tile_rows : int
    products : int
        The maximum number of inner products in memory.
    """

    stacks: Sequence[Stack]
    layout: Layout
    dtype: torch.dtype
    device: torch.device
    tile_rows: int = TILE_ROWS
    products: int = MOST_PRODUCTS

    def means(self) -> list[torch.Tensor]:
        """Mean of every feature of every layer, float64, from one pass over the rows."""
        reader = Tiles(self.stacks, dtype=self.dtype, device=self.device, tile_rows=self.tile_rows)
        total = torch.zeros(reader.offsets[-1], dtype=torch.float64, device=self.device)
        for start, stop, Z in reader:
            part = block_sum(Z)
            reader.check(part, start, stop)
            total += part
        parts = (total / reader.n).split(list(reader.widths))
        return [shift.double() + offset for shift, offset in zip(reader.shift, parts, strict=True)]


class ClusterTiles(Tiles):
    """Reader of tiles of complete clusters, of rows about the means of their layers."""

    def __init__(self, rows: ClusterRows, mean: list[torch.Tensor]) -> None:
        super().__init__(
            rows.stacks, dtype=rows.dtype, device=rows.device, shift=mean, tile_rows=rows.tile_rows
        )
        self.layout, self.products = rows.layout, rows.products
        self.ranges = rows.layout.ranges(rows.tile_rows)

    def inner(self, Z: torch.Tensor, rows: torch.Tensor) -> Iterator[tuple[slice, slice, torch.Tensor]]:
        """
        Inner products within clusters of one size, in strips of rows.

        Yields
        ------
        cluster_slice, strip : slice
            The range of the clusters, and the range of rows within each of them.
        inner : Tensor of shape (layers, clusters, strip, size)
            Float64.
        """
        count, size = rows.shape
        layers = len(self.widths)
        if size == 1:
            norms = squared_norms(Z[rows[:, 0]], self.widths)
            yield slice(0, count), slice(0, 1), norms[:, :, None, None]
            return
        room = max(1, self.products // (layers * size))
        clusters, step = max(1, room // size), min(room, size)
        for first in range(0, count, clusters):
            cluster_slice = slice(first, min(first + clusters, count))
            for begin in range(0, size, step):
                strip = slice(begin, min(begin + step, size))
                inner = []
                for position in range(layers):
                    x = self.part(Z, position)[rows[cluster_slice]]
                    inner.append((x[:, strip] @ x.mT).double())
                yield cluster_slice, strip, torch.stack(inner)

    def row_sums(
        self, Z: torch.Tensor, start: int, stop: int, within: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute k of the rows of a tile, and add their products within clusters to `within` if given."""
        sums = torch.empty((len(self.widths), stop - start), dtype=torch.float64, device=Z.device)
        for _, rows in self.layout.blocks(start, stop):
            row_index = torch.as_tensor(rows, device=Z.device)
            for cluster_slice, strip, inner in self.inner(Z, row_index):
                sums[:, row_index[cluster_slice, strip].flatten()] = -inner.sum(3).flatten(1)
                if within is not None:
                    flat = inner.flatten(1)
                    within += flat @ flat.T
        return sums


def cluster_terms(rows: ClusterRows, *, held: bool = True) -> ClusterTerms:
    """
    Compute the within-cluster sums in two passes over the rows: the means, then the sums.

    Parameters
    ----------
    rows : ClusterRows
    held : bool
        Whether the weights of all rows are kept in memory; otherwise they are recomputed for each tile.

    Returns
    -------
    ClusterTerms
    """
    mean, layout, device = rows.means(), rows.layout, rows.device
    reader = ClusterTiles(rows, mean)
    count = len(reader.widths)
    within = torch.zeros((count, count), dtype=torch.float64, device=device)
    k_rows = torch.empty((count, layout.n if held else 0), dtype=torch.float64, device=device)
    sums = WeightSums(count, layout.starts, layout.sizes, device)
    for start, stop, Z in reader:
        k = reader.row_sums(Z, start, stop, within)
        if held:
            k_rows[:, start:stop] = k
        else:
            sums.add(k, start, stop)
    weights = hold_weights(k_rows, layout.starts, layout.sizes) if held else sums.weights()
    return ClusterTerms(mean=mean, within=within, weights=weights)


def unit_codes(layout: Layout, rng: np.random.Generator, most: int | None = None) -> np.ndarray:
    """Number the unit of each cluster: itself, or a random group if there are more than `most` clusters."""
    clusters, most = len(layout.sizes), MOST_UNITS if most is None else min(most, MOST_UNITS)
    if clusters <= most:
        return np.arange(clusters)
    return rng.permutation(np.arange(clusters) % most)


def along_weights(rows: ClusterRows, terms: ClusterTerms) -> list[torch.Tensor]:
    """
    Sum the centered rows of each layer, weighted by every layer's u: X'U, shape (features, layers) each.

    Parameters
    ----------
    rows : ClusterRows
    terms : ClusterTerms
        The terms of the same layers.
    """
    reader = ClusterTiles(rows, terms.mean)
    count = len(reader.widths)
    sums = [torch.zeros((w, count), dtype=torch.float64, device=rows.device) for w in reader.widths]
    for start, stop, Z in reader:
        _, u = terms.weights.of_tile(start, stop, partial(reader.row_sums, Z, start, stop))
        for position, total in enumerate(sums):
            total += reader.part(Z, position).double().T @ u.T
    return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitScores:
    """
    Contribution of each unit to the norms.

    Parameters
    ----------
    cross : Tensor of shape (left layers, right layers, units)
        Contribution to the debiased norm of the cross-scatter; 0 for pairs that the crossing does not hold.
    own : Tensor of shape (layers, units)
        Contribution to the norm of each layer with itself; NaN where the crossing lacks its scatter matrix.
    biased_cross, biased_own : Tensor
        Change of the biased norms with the weight of the unit.
    """

    cross: torch.Tensor
    own: torch.Tensor
    biased_cross: torch.Tensor
    biased_own: torch.Tensor


def cluster_scores(
    rows: ClusterRows, crossing: Crossing, terms: ClusterTerms, along: list[torch.Tensor], units: np.ndarray
) -> UnitScores:
    """
    Contribution of each unit to the cluster-debiased norm of every cross-scatter, in a second pass.

    Parameters
    ----------
    rows : ClusterRows
        Of the layers of `crossing`.
    crossing : Crossing
    terms, along
        Results of `cluster_terms` and `along_weights` for the same layers, in the same order.
    units : ndarray of shape (clusters,)
        Unit of each cluster.

    Returns
    -------
    UnitScores
    """
    layout, dtype, device, symmetric = rows.layout, rows.dtype, rows.device, len(rows.stacks) == 1
    reader = ClusterTiles(rows, terms.mean)
    count, lefts, rights = len(reader.widths), crossing.left, crossing.right
    size = int(units.max()) + 1
    pairs = torch.zeros((count, count, size), dtype=torch.float64, device=device)
    biased, within = torch.zeros_like(pairs), torch.zeros_like(pairs)
    strips = [strip.to(dtype) for strip in crossing.strips]
    self_terms = [None if block is None or symmetric else block.to(dtype) for block in crossing.diagonal]
    u_sum, uv_sum = terms.weights.u_sum, terms.weights.uu
    widths, offsets = reader.widths, reader.offsets
    for start, stop, Z in reader:
        codes = torch.as_tensor(units[_cluster_of(layout, start, stop)], device=device)
        k, u = terms.weights.of_tile(start, stop, partial(reader.row_sums, Z, start, stop))
        # Row by row, for all pairs (x, y): x_i'(X'v) + 2 k_i v_i, and the same with the sides swapped
        # except for one k_i v_i: see the expansion of the projected products below.
        projected = torch.stack([reader.part(Z, p).double() @ along[p] for p in range(count)])
        projected = projected.permute(0, 2, 1) + k[:, None, :] * u[None, :, :]
        linear = projected + projected.transpose(0, 1) + k[:, None, :] * u[None, :, :]
        pairs.index_add_(2, codes, -linear)
        for i in lefts:
            columns = list(rights[crossing.first[i] :])
            begin = offsets[columns[0]]
            product = (reader.part(Z, i) @ strips[i]).mul_(Z[:, begin:])
            row_products = torch.stack([p.sum(1) for p in product.split([widths[j] for j in columns], 1)])
            biased[i, columns] = biased[i, columns].index_add(1, codes, row_products.double())
        for p, block in enumerate(self_terms):
            if block is not None:
                x = reader.part(Z, p)
                biased[p, p].index_add_(0, codes, ((x @ block) * x).sum(1).double())
        for clusters, at in layout.blocks(start, stop):
            index = torch.as_tensor(at, device=device)
            inside = torch.zeros((len(clusters), count, count), dtype=torch.float64, device=device)
            for cluster_slice, _, part in reader.inner(Z, index):
                inner = part.flatten(2).transpose(0, 1)
                inside[cluster_slice] += inner @ inner.mT
            ui = u[:, index]
            u_c = ui.sum(2).T
            uv_c = torch.einsum("acm,bcm->cab", ui, ui)
            block = u_c[:, None, :] * (u_sum[:, None] - u_c[:, :, None])
            block = block + at.shape[1] * (uv_sum - uv_c) - inside
            block_units = torch.as_tensor(units[clusters], device=device)
            pairs.index_add_(2, block_units, block.permute(1, 2, 0))
            within.index_add_(2, block_units, inside.permute(1, 2, 0))
    pairs += biased
    # A cluster is paired with itself once and with each other cluster twice, in its row and in its column.
    biased = biased.mul_(2).sub_(within)
    missing = [p for p, block in enumerate(crossing.diagonal) if block is None]
    self_terms = []
    for table in (pairs, biased):
        diagonal = table[range(count), range(count)]
        diagonal[missing] = float("nan")
        self_terms.append(diagonal)
    cut = (slice(lefts[0], lefts[-1] + 1), slice(rights[0], rights[-1] + 1))
    return UnitScores(cross=pairs[cut], own=self_terms[0], biased_cross=biased[cut], biased_own=self_terms[1])


def _cluster_of(layout: Layout, start: int, stop: int) -> np.ndarray:
    first, last = np.searchsorted(layout.starts, [start, stop])
    return np.repeat(np.arange(first, last), layout.sizes[first:last])
