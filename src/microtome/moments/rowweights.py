"""Row weights of cluster debiasing, held for all rows or recomputed for each tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..lazy import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowWeights:
    """
    Off-cluster row sums k of every layer, and the weights u that make them zero.

    With m the size of a row's cluster and K its total of k: U = [sum K/(n-2m)] / [1 + sum m/(n-2m)] over the
    clusters, and u = (k - U + (K - m U)/(n-2m)) / (n-m).

    Parameters
    ----------
    starts, sizes : ndarray of shape (clusters,)
        The first row and the number of rows of each contiguous cluster.
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

    starts: np.ndarray
    sizes: np.ndarray
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
            return _held(self.starts, self.sizes, self.overall[index], self.k_rows[index], self.u_rows[index])
        return RowWeights(
            starts=self.starts,
            sizes=self.sizes,
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
        fixed, slope = _parts(self.starts, self.sizes, k, start, stop)
        return k, fixed - self.overall[:, None] * slope


def hold_weights(k_rows: torch.Tensor, starts: np.ndarray, sizes: np.ndarray) -> RowWeights:
    """
    Compute the weights of all rows, one layer after the other.

    Parameters
    ----------
    k_rows : Tensor of shape (layers, n)
    starts, sizes : ndarray of shape (clusters,)
    """
    n, room = int(sizes.sum()), sizes.sum() - 2 * sizes
    codes = np.repeat(np.arange(len(sizes)), sizes)
    outside = n - sizes[codes]
    u_rows, overall = torch.empty_like(k_rows), torch.empty_like(k_rows[:, 0])
    for layer, layer_sums in enumerate(k_rows):
        k = layer_sums.cpu().numpy()
        totals = np.bincount(codes, weights=k, minlength=len(sizes))
        U = (totals / room).sum() / (1 + (sizes / room).sum())
        per_cluster = (totals - sizes * U) / room
        u_rows[layer] = torch.as_tensor((k - U + per_cluster[codes]) / outside)
        overall[layer] = U
    return _held(starts, sizes, overall, k_rows, u_rows)


def _held(
    starts: np.ndarray, sizes: np.ndarray, overall: torch.Tensor, k_rows: torch.Tensor, u_rows: torch.Tensor
) -> RowWeights:
    return RowWeights(
        starts=starts,
        sizes=sizes,
        overall=overall,
        uk=u_rows @ k_rows.T,
        u_sum=u_rows.sum(1),
        uu=u_rows @ u_rows.T,
        k_rows=k_rows,
        u_rows=u_rows,
    )


def _parts(
    starts: np.ndarray, sizes: np.ndarray, k: torch.Tensor, start: int, stop: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the part of u that does not depend on U, shape (layers, rows), and the factor of U, (rows,)."""
    first, last = np.searchsorted(starts, [start, stop])
    n, size = int(sizes.sum()), torch.tensor(sizes[first:last], device=k.device)
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
    starts, sizes : ndarray of shape (clusters,)
    device : torch.device
    """

    def __init__(self, layers: int, starts: np.ndarray, sizes: np.ndarray, device: torch.device) -> None:
        self.starts, self.sizes = starts, sizes
        # The fixed parts of the layers, and the factor of U as one more layer.
        self.products = torch.zeros((layers + 1, layers + 1), dtype=torch.float64, device=device)
        self.with_k = torch.zeros((layers + 1, layers), dtype=torch.float64, device=device)
        self.sums = torch.zeros(layers + 1, dtype=torch.float64, device=device)
        self.totals = torch.zeros(layers, dtype=torch.float64, device=device)

    def add(self, k: torch.Tensor, start: int, stop: int) -> None:
        """Add the rows of a tile of complete clusters."""
        fixed, slope = _parts(self.starts, self.sizes, k, start, stop)
        stacked = torch.cat([fixed, slope[None]])
        self.products += stacked @ stacked.T
        self.with_k += stacked @ k.T
        self.sums += stacked.sum(1)
        first, last = np.searchsorted(self.starts, [start, stop])
        size = self.sizes[first:last]
        room = torch.as_tensor(1.0 / (self.sizes.sum() - 2 * size), device=k.device)
        self.totals += k @ torch.repeat_interleave(room, torch.tensor(size, device=k.device))

    def weights(self) -> RowWeights:
        """Solve for U, and compute the products of the weights."""
        room = self.sizes.sum() - 2 * self.sizes
        overall = self.totals / (1 + float((self.sizes / room).sum()))
        fixed, slope = self.products[:-1, :-1], self.products[:-1, -1]
        mixed = slope[:, None] * overall
        return RowWeights(
            starts=self.starts,
            sizes=self.sizes,
            overall=overall,
            uk=self.with_k[:-1] - overall[:, None] * self.with_k[-1],
            u_sum=self.sums[:-1] - overall * self.sums[-1],
            uu=fixed - mixed - mixed.T + overall[:, None] * overall * self.products[-1, -1],
        )
