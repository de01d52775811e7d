"""Row weights of cluster debiasing, held for all rows or recomputed for each tile, as the memory allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..lazy import torch
from .tiles import TILE_ROWS

# Scores are kept for at most this many units; with more clusters, they are summed in random groups, whose
# sums have the same variance.
MOST_UNITS = 4096
# Inner products within clusters that are held at once, for all layers together: 128 megabytes. A document of
# a few thousand rows has more, and is processed in strips.
MOST_PRODUCTS = 2**24
# Least number of rows of a tile in the second pass.
LEAST_TILE = 64


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

    @property
    def room(self) -> np.ndarray:
        """Number of rows outside each cluster beyond those within it, n - 2m."""
        return self.sizes.sum() - 2 * self.sizes

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

    def clusters(self, start: int, stop: int) -> np.ndarray:
        """Number the cluster of each row of a tile."""
        first, last = np.searchsorted(self.starts, [start, stop])
        return np.repeat(np.arange(first, last), self.sizes[first:last])

    def blocks(self, start: int, stop: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (clusters, rows) of a tile, rows of shape (clusters, size) counted from its start."""
        first, last = np.searchsorted(self.starts, [start, stop])
        sizes = self.sizes[first:last]
        for size in np.unique(sizes):
            clusters = first + np.flatnonzero(sizes == size)
            yield clusters, self.starts[clusters][:, None] - start + np.arange(size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowWeights:
    """
    Off-cluster row sums k of every layer, and the weights u that make them zero.

    With m the size of a row's cluster and K its total of k: U = [sum K/(n-2m)] / [1 + sum m/(n-2m)] over the
    clusters, and u = (k - U + (K - m U)/(n-2m)) / (n-m).

    Parameters
    ----------
    layout : Layout
    overall : Tensor of shape (layers,)
        U.
    uk : Tensor of shape (layers, layers)
        Sum over the rows of u of one layer times k of the other.
    u_sum : Tensor of shape (layers,)
    uu : Tensor of shape (layers, layers)
        Sums over the rows of u, and of the products of two layers' u.
    k_rows, u_rows : Tensor of shape (layers, n), optional
        The weights of all rows, where they are held.
    """

    layout: Layout
    overall: torch.Tensor
    uk: torch.Tensor
    u_sum: torch.Tensor
    uu: torch.Tensor
    k_rows: torch.Tensor | None = None
    u_rows: torch.Tensor | None = None

    def select(self, layers: Sequence[int]) -> RowWeights:
        """Return the weights of the given layers."""
        if list(layers) == list(range(len(self.overall))):
            return self
        index = torch.tensor(layers, device=self.overall.device)
        if self.k_rows is not None and self.u_rows is not None:
            return _held(self.layout, self.overall[index], self.k_rows[index], self.u_rows[index])
        return RowWeights(
            layout=self.layout,
            overall=self.overall[index],
            uk=self.uk[index][:, index],
            u_sum=self.u_sum[index],
            uu=self.uu[index][:, index],
        )

    def of_tile(
        self, start: int, stop: int, row_sums: Callable[[], torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Return k and u of the rows of a tile of complete clusters.

        Parameters
        ----------
        start, stop : int
        row_sums : callable
            Computes k of the tile, shape (layers, stop - start).
        """
        if self.k_rows is not None and self.u_rows is not None:
            return self.k_rows[:, start:stop], self.u_rows[:, start:stop]
        k = row_sums()
        fixed, slope = _parts(self.layout, k, start, stop)
        return k, fixed - self.overall[:, None] * slope


def hold_weights(k_rows: torch.Tensor, layout: Layout) -> RowWeights:
    """
    Compute the weights of all rows, one layer after the other.

    Parameters
    ----------
    k_rows : Tensor of shape (layers, n)
    layout : Layout
    """
    sizes, room, codes = layout.sizes, layout.room, layout.clusters(0, layout.n)
    outside = layout.n - sizes[codes]
    # Sums by cluster are fast on the processor, and there one copy serves all layers.
    sums_by_layer = k_rows.cpu().numpy()
    u_rows, overall = np.empty_like(sums_by_layer), np.empty(len(k_rows))
    for layer, k in enumerate(sums_by_layer):
        totals = np.bincount(codes, weights=k, minlength=len(sizes))
        U = (totals / room).sum() / (1 + (sizes / room).sum())
        per_cluster = (totals - sizes * U) / room
        u_rows[layer] = (k - U + per_cluster[codes]) / outside
        overall[layer] = U
    overall, u_rows = (torch.from_numpy(array).to(k_rows.device) for array in (overall, u_rows))
    return _held(layout, overall, k_rows, u_rows)


def _held(layout: Layout, overall: torch.Tensor, k_rows: torch.Tensor, u_rows: torch.Tensor) -> RowWeights:
    return RowWeights(
        layout=layout,
        overall=overall,
        uk=u_rows @ k_rows.T,
        u_sum=u_rows.sum(1),
        uu=u_rows @ u_rows.T,
        k_rows=k_rows,
        u_rows=u_rows,
    )


def _parts(layout: Layout, k: torch.Tensor, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the part of u that does not depend on U, shape (layers, rows), and the factor of U, (rows,)."""
    first, last = np.searchsorted(layout.starts, [start, stop])
    n, size = layout.n, torch.tensor(layout.sizes[first:last], device=k.device)
    cluster = torch.repeat_interleave(torch.arange(last - first, device=k.device), size)
    totals = torch.zeros((len(k), int(last - first)), dtype=k.dtype, device=k.device)
    totals.index_add_(1, cluster, k)
    room, outside = (n - 2 * size).to(k.dtype), (n - size).to(k.dtype)[cluster]
    fixed = (k + (totals / room)[:, cluster]) / outside
    return fixed, (1 + (size / room)[cluster]) / outside


class WeightSums:
    """
    Accumulator over tiles of the sums from which the products of the weights follow once U is known.

    Parameters
    ----------
    layers : int
    layout : Layout
    device : torch.device
    """

    def __init__(self, layers: int, layout: Layout, device: torch.device) -> None:
        self.layout = layout
        # The fixed parts of the layers, and the factor of U as one more layer.
        self.products = torch.zeros((layers + 1, layers + 1), dtype=torch.float64, device=device)
        self.with_k = torch.zeros((layers + 1, layers), dtype=torch.float64, device=device)
        self.sums = torch.zeros(layers + 1, dtype=torch.float64, device=device)
        self.totals = torch.zeros(layers, dtype=torch.float64, device=device)

    def add(self, k: torch.Tensor, start: int, stop: int) -> None:
        """Add the rows of a tile of complete clusters."""
        fixed, slope = _parts(self.layout, k, start, stop)
        stacked = torch.cat([fixed, slope[None]])
        self.products += stacked @ stacked.T
        self.with_k += stacked @ k.T
        self.sums += stacked.sum(1)
        first, last = np.searchsorted(self.layout.starts, [start, stop])
        size = self.layout.sizes[first:last]
        room = torch.as_tensor(1.0 / self.layout.room[first:last], device=k.device)
        self.totals += k @ torch.repeat_interleave(room, torch.tensor(size, device=k.device))

    def weights(self) -> RowWeights:
        """Solve for U, and compute the products of the weights."""
        overall = self.totals / (1 + float((self.layout.sizes / self.layout.room).sum()))
        fixed, slope = self.products[:-1, :-1], self.products[:-1, -1]
        mixed = slope[:, None] * overall
        return RowWeights(
            layout=self.layout,
            overall=overall,
            uk=self.with_k[:-1] - overall[:, None] * self.with_k[-1],
            u_sum=self.sums[:-1] - overall * self.sums[-1],
            uu=fixed - mixed - mixed.T + overall[:, None] * overall * self.products[-1, -1],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """
    Memory budget of the second pass over the rows, for intervals or clusters.

    Parameters
    ----------
    units : int
        Units whose scores are kept, at most.
    held : bool
        Whether the weights of all rows are held.
    cells : int
        Rows of a tile times pairs of layers.
    products : int
        Inner products within clusters that are held at once.
    bytes : int
        In total.
    """

    units: int
    held: bool
    cells: int
    products: int
    bytes: int


def second_share(layers: int, rows: int, clusters: int, memory: int) -> Share:
    """
    Divide the memory for the second pass over the rows.

    Parameters
    ----------
    layers : int
        Of both sides.
    rows, clusters, memory : int

    Returns
    -------
    Share
    """
    # Eight tables of float64 with one value for each pair of layers and unit; fewer units make larger groups.
    table = 8 * 8 * layers**2
    units = int(np.clip(0.8 * memory / table, 512, MOST_UNITS))
    scores = table * min(units, clusters)
    # Sums k and weights u of all rows.
    weights = 2 * 8 * layers * rows
    held = weights <= memory / 4
    room = max(memory - scores - held * weights, memory / 8)
    # Six temporary tables of a tile; three copies of the inner products.
    cells = int(min(2e7, room / 96))
    products = int(min(MOST_PRODUCTS, room / 64))
    return Share(
        units=units,
        held=held,
        cells=cells,
        products=products,
        bytes=int(scores + held * weights + 48 * max(min(cells, rows * layers**2), LEAST_TILE * layers**2)),
    )
