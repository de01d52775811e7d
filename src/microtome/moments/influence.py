"""Contributions of rows and clusters to the norms of CKA, and the norms without each cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ..lazy import torch
from .clustered import ClusterRows, ClusterTerms, ClusterTiles
from .crossing import Crossing
from .rowweights import MOST_UNITS, Layout

# Rows that a processor multiplies with a cross-scatter at a time: their products stay in its cache.
CACHED_ROWS = 512
# Numbers of all layers, rows and left-out clusters that are held at once: 32 megabytes.
MOST_NUMBERS = 2**22


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
    sums = [torch.zeros((w, count), dtype=rows.dtype, device=rows.device) for w in reader.widths]
    for start, stop, Z in reader:
        _, u = terms.weights.of_tile(start, stop, partial(reader.row_sums, Z, start, stop))
        weights = u.T.to(rows.dtype)
        for position, total in enumerate(sums):
            total += reader.part(Z, position).T @ weights
    return sums


class RowProducts:
    """
    Products of each row of two layers with their cross-scatter, x_i'(X'Y)y_i, summed over units.

    Parameters
    ----------
    reader : ClusterTiles
    crossing : Crossing
        Of the layers of the reader.
    symmetric : bool
        Whether the layers are compared with themselves, so that their own scatter is among the strips.
    """

    def __init__(self, reader: ClusterTiles, crossing: Crossing, *, symmetric: bool) -> None:
        self.reader, self.crossing, dtype = reader, crossing, reader.dtype
        self.strips = [strip.to(dtype) for strip in crossing.strips]
        self.own = [None if block is None or symmetric else block.to(dtype) for block in crossing.diagonal]

    def add(self, total: torch.Tensor, Z: torch.Tensor, codes: torch.Tensor) -> None:
        """Add the rows of a tile, of the given units, to a total of shape (layers, layers, units)."""
        on_processor = Z.device.type == "cpu"
        for rows, units in zip(
            *(part.split(CACHED_ROWS if on_processor else len(Z)) for part in (Z, codes)), strict=True
        ):
            for i, strip in enumerate(self.strips):
                columns = self.crossing.right[self.crossing.first[i] :]
                # Next to one another on a graphics processor, one by one where the cache is small.
                groups = [[j] for j in columns] if on_processor else [list(columns)]
                for group, block in zip(
                    groups,
                    strip.split([sum(self.reader.widths[j] for j in g) for g in groups], 1),
                    strict=True,
                ):
                    total[i, group] = total[i, group].index_add(
                        1, units, self._products(rows, i, group, block)
                    )
            for k, block in enumerate(self.own):
                if block is not None:
                    total[k, k].index_add_(0, units, self._products(rows, k, [k], block)[0])

    def _products(
        self, rows: torch.Tensor, i: int, columns: Sequence[int], block: torch.Tensor
    ) -> torch.Tensor:
        offsets = self.reader.offsets
        product = (self.reader.part(rows, i) @ block).mul_(
            rows[:, offsets[columns[0]] : offsets[columns[-1] + 1]]
        )
        parts = product.split([self.reader.widths[j] for j in columns], 1)
        return torch.stack([part.sum(1) for part in parts]).double()


def unit_scores(
    rows: ClusterRows,
    crossing: Crossing | torch.Tensor,
    terms: ClusterTerms,
    along: list[torch.Tensor],
    units: np.ndarray,
) -> dict[str, torch.Tensor]:
    """
    Contribution of each unit to the cluster-debiased norm of every cross-scatter.

    Parameters
    ----------
    rows : ClusterRows
        Of the layers of `crossing`.
    crossing : Crossing, or Tensor of shape (layers, layers, units)
        Tensor: the products of the rows of each unit with the cross-scatters, from Gram matrices.
    terms, along
        Results of `cluster_terms`, with the same units, and `along_weights` for the same layers, in the same
        order.
    units : ndarray of shape (clusters,)
        Unit of each cluster.

    Returns
    -------
    dict of str to Tensor of shape (layers, layers, units)
        "debiased": what each unit contributes to the debiased norms; "biased": how the biased norms change
        with the weight of the unit. Meaningless for pairs that are not compared.
    """
    layout, device = rows.layout, rows.device
    reader = ClusterTiles(rows, terms.mean)
    count, size = len(reader.widths), int(units.max()) + 1
    products = torch.zeros((count, count, size), dtype=torch.float64, device=device)
    pairs = -terms.within
    row_products = None
    if isinstance(crossing, Crossing):
        row_products = RowProducts(reader, crossing, symmetric=len(rows.stacks) == 1)
    else:
        products = crossing
    u_sum, uv_sum = terms.weights.u_sum, terms.weights.uu
    for start, stop, Z in reader:
        codes = torch.as_tensor(units[layout.clusters(start, stop)], device=device)
        if row_products is not None:
            row_products.add(products, Z, codes)
        k, u = terms.weights.of_tile(start, stop, partial(reader.row_sums, Z, start, stop))
        # Row by row, for all pairs (x, y): x_i'(X'v) + 2 k_i v_i, and the same with the sides swapped
        # except for one k_i v_i: see the expansion of the projected products below.
        projected = torch.stack([(reader.part(Z, p) @ along[p]).double() for p in range(count)])
        projected = projected.permute(0, 2, 1) + k[:, None, :] * u[None, :, :]
        linear = projected + projected.transpose(0, 1) + k[:, None, :] * u[None, :, :]
        pairs.index_add_(2, codes, -linear)
        for clusters, at in layout.blocks(start, stop):
            index = torch.as_tensor(at, device=device)
            ui = u[:, index]
            u_c = ui.sum(2).T
            uv_c = torch.einsum("acm,bcm->cab", ui, ui)
            block = u_c[:, None, :] * (u_sum[:, None] - u_c[:, :, None])
            block = block + at.shape[1] * (uv_sum - uv_c)
            block_units = torch.as_tensor(units[clusters], device=device)
            pairs.index_add_(2, block_units, block.permute(1, 2, 0))
    # A cluster is paired with itself once and with each other cluster twice, in its row and in its column.
    return {"debiased": pairs.add_(products), "biased": (2 * products).sub_(terms.within)}


def left_out_norms(rows: ClusterRows, crossing: Crossing | torch.Tensor, terms: ClusterTerms) -> torch.Tensor:
    """
    Debiased norms of the cross-scatters over all rows but those of one cluster, for each cluster in turn.

    Parameters
    ----------
    rows, crossing, terms
        As in `unit_scores`, with each cluster a unit.

    Returns
    -------
    Tensor of shape (layers, layers, clusters)
        NaN where too few rows of other clusters remain.

    Notes
    -----
    With centered rows and T_g,i = x_i'S_g for the sum S_g of the rows of cluster g, the off-cluster row sums
    without g are k_i = -x_i'(S_c + S_g) for a row i of cluster c, and the weights u follow from them and
    from their totals -(S_c'S_c + S_c'S_g) by the formula of `RowWeights`.
    """
    layout, device = rows.layout, rows.device
    reader = ClusterTiles(rows, terms.mean)
    clusters = len(layout.sizes)
    sums = [torch.zeros((clusters, w), dtype=rows.dtype, device=device) for w in reader.widths]
    products = torch.zeros_like(terms.within) if isinstance(crossing, Crossing) else crossing
    row_products = (
        RowProducts(reader, crossing, symmetric=len(rows.stacks) == 1)
        if isinstance(crossing, Crossing)
        else None
    )
    for start, stop, Z in reader:
        codes = torch.as_tensor(layout.clusters(start, stop), device=device)
        for p, total in enumerate(sums):
            total.index_add_(0, codes, reader.part(Z, p))
        if row_products is not None:
            row_products.add(products, Z, codes)
    off = products - terms.within
    uk = _left_out_corrections(reader, sums)
    return off.sum(2, keepdim=True) - 2 * off - 2 * uk.permute(1, 2, 0)


def _left_out_corrections(reader: ClusterTiles, sums: list[torch.Tensor]) -> torch.Tensor:
    """Sum of u times k over the rows that remain without each cluster, shape (clusters, layers, layers)."""
    layout, device = reader.layout, reader.device
    count, clusters = len(sums), len(layout.sizes)
    size = torch.tensor(layout.sizes, dtype=torch.float64, device=device)
    remaining = layout.n - size
    apart = ~torch.eye(clusters, dtype=torch.bool, device=device)
    # Of the left-out cluster (first) and each other one: rows beyond twice the cluster, and outside of it.
    room, outside = remaining[:, None] - 2 * size, remaining[:, None] - size
    possible = ((room > 0) | ~apart).all(1) & (remaining >= 4)
    room, outside = (torch.where(apart & (table > 0), table, torch.inf) for table in (room, outside))
    between = torch.stack([total.double() @ total.double().T for total in sums])
    totals = -(between.diagonal(dim1=1, dim2=2)[:, None, :] + between) * apart
    overall = (totals / room).sum(2) / (1 + (size / room).sum(1))
    fixed = (totals - size * overall[:, :, None]) / room - overall[:, :, None]
    uk = torch.einsum("xgc,ygc->gxy", fixed / outside, totals)
    for start, stop, Z in reader:
        codes = torch.as_tensor(layout.clusters(start, stop), device=device)
        step = max(1, MOST_NUMBERS // (count * clusters))
        for part, own in zip(Z.split(step), codes.split(step), strict=True):
            along = torch.stack([(reader.part(part, p) @ total.T).double() for p, total in enumerate(sums)])
            k = -(along + along[:, torch.arange(len(own), device=device), own][:, :, None])
            k = k.permute(2, 0, 1)
            uk += (k / outside[:, own][:, None, :]) @ k.mT
    uk[~possible] = torch.nan
    return uk
