"""Within-cluster terms of cluster-debiased CKA and of its intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..lazy import torch
from .rowweights import MOST_PRODUCTS, Layout, RowWeights, WeightSums, hold_weights
from .stack import Stack
from .tiles import TILE_ROWS, Tiles, block_sum, squared_norms

# Rows of a large cluster that are multiplied at a time, with those after them only.
STRIP_ROWS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTerms:
    """
    Sums within clusters, for every layer and every pair of layers.

    Parameters
    ----------
    mean : list of Tensor of shape (features,)
        The mean of each layer, float64.
    within : Tensor of shape (layers, layers, units)
        Sum over the pairs of rows within the clusters of a unit of the product of two layers' inner products.
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

    def inner(self, Z: torch.Tensor, rows: np.ndarray) -> Iterator[tuple[slice, slice, torch.Tensor]]:
        """
        Inner products within clusters of one size, in strips of rows, each with all rows from its first on.

        Yields
        ------
        cluster_slice, strip : slice
            The range of the clusters, and the range of rows within each of them.
        inner : Tensor of shape (layers, clusters, strip, size - strip.start)
            Float64.
        """
        count, size = rows.shape
        layers = len(self.widths)
        if size == 1:
            norms = squared_norms(_clusters(Z, rows)[:, 0], self.widths)
            yield slice(0, count), slice(0, 1), norms[:, :, None, None]
            return
        room = max(1, self.products // (layers * size))
        clusters, step = max(1, room // size), min(room, size if size < 2 * STRIP_ROWS else STRIP_ROWS)
        for first in range(0, count, clusters):
            cluster_slice = slice(first, min(first + clusters, count))
            for begin in range(0, size, step):
                strip = slice(begin, min(begin + step, size))
                if Z.device.type != "cpu" and len(set(self.widths)) == 1:
                    # One product for all layers: on a GPU, launching many small ones takes longer.
                    x = _clusters(Z, rows[cluster_slice]).unflatten(2, (layers, -1)).permute(2, 0, 1, 3)
                    yield cluster_slice, strip, (x[:, :, strip] @ x[:, :, begin:].mT).double()
                    continue
                inner = []
                for position in range(layers):
                    x = _clusters(self.part(Z, position), rows[cluster_slice])
                    inner.append((x[:, strip] @ x[:, begin:].mT).double())
                yield cluster_slice, strip, torch.stack(inner)

    def row_sums(
        self,
        Z: torch.Tensor,
        start: int,
        stop: int,
        within: torch.Tensor | None = None,
        units: np.ndarray | None = None,
    ) -> torch.Tensor:
        """Compute k of the rows of a tile, and add products within clusters to `within`, by unit."""
        sums = torch.zeros((len(self.widths), stop - start), dtype=torch.float64, device=Z.device)
        for clusters, rows in self.layout.blocks(start, stop):
            row_index = torch.as_tensor(rows, device=Z.device)
            for cluster_slice, strip, inner in self.inner(Z, rows):
                places, own = row_index[cluster_slice], strip.stop - strip.start
                sums[:, places[:, strip].flatten()] -= inner.sum(3).flatten(1)
                # Products with rows after the strip stand here only, and count for both.
                sums[:, places[:, strip.stop :].flatten()] -= inner[..., own:].sum(2).flatten(1)
                if within is None or units is None:
                    continue
                products = _squares(inner)
                if own < inner.shape[3]:
                    products = 2 * products - _squares(inner[..., :own])
                codes = torch.as_tensor(units[clusters[cluster_slice]], device=Z.device)
                within.index_add_(2, codes, products.permute(1, 2, 0))
        return sums


def _clusters(Z: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
    """The rows of clusters of one size, shape (clusters, size, features); a view where they are adjacent."""
    first, last = int(rows[0, 0]), int(rows[-1, -1])
    if last - first + 1 == rows.size:
        return Z[first : last + 1].unflatten(0, rows.shape)
    return Z[torch.as_tensor(rows, device=Z.device)]


def _squares(inner: torch.Tensor) -> torch.Tensor:
    """Sum of the products of two layers' inner products, shape (clusters, layers, layers)."""
    flat = inner.flatten(2).transpose(0, 1)
    return flat @ flat.mT


def cluster_terms(rows: ClusterRows, *, units: np.ndarray | None = None, held: bool = True) -> ClusterTerms:
    """
    Compute the within-cluster sums in two passes over the rows: the means, then the sums.

    Parameters
    ----------
    rows : ClusterRows
    units : ndarray of shape (clusters,), optional
        Unit of each cluster; one of all clusters when absent.
    held : bool
        Whether the weights of all rows are kept in memory; otherwise they are recomputed for each tile.

    Returns
    -------
    ClusterTerms
    """
    mean, layout, device = rows.means(), rows.layout, rows.device
    reader = ClusterTiles(rows, mean)
    count = len(reader.widths)
    units = np.zeros(len(layout.sizes), dtype=np.int64) if units is None else units
    within = torch.zeros((count, count, int(units.max()) + 1), dtype=torch.float64, device=device)
    k_rows = torch.empty((count, layout.n if held else 0), dtype=torch.float64, device=device)
    sums = WeightSums(count, layout, device)
    for start, stop, Z in reader:
        k = reader.row_sums(Z, start, stop, within, units)
        if held:
            k_rows[:, start:stop] = k
        else:
            sums.add(k, start, stop)
    weights = hold_weights(k_rows, layout) if held else sums.weights()
    return ClusterTerms(mean=mean, within=within, weights=weights)
