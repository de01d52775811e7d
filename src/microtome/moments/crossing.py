"""Cross-moments of every pair of layers, accumulated in one streaming pass over shifted rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..lazy import torch
from .stack import Stack
from .tiles import TILE_ROWS, Tiles, block_sum, empty, squared_norms

# Layers at least this wide are multiplied one by one.
PIECE_WIDTH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """
    Centered second moments of left layers against right layers.

    All are sums over rows, not means. Layers are numbered left first, then right; when a stack is
    compared with itself there are only left layers.

    Parameters
    ----------
    n : int
        The number of rows.
    names : tuple of str
    widths : tuple of int
    left, right : tuple of int
        Positions of the left and of the right layers among `names`; the same when a stack is compared
        with itself.
    mean : list of Tensor of shape (features,)
        Float64.
    diagonal : list of (Tensor of shape (features, features), or None)
        Scatter matrix of each layer, float64, where it was requested.
    strips : list of Tensor of shape (p, sum of q)
        For each left layer, its cross-scatter with the right layers from `first[i]` on; float64, or in
        the precision of the products when a single tile held all rows.
    first : tuple of int
        For each left layer, the first position in `right` that its strip holds.
    norms : Tensor of shape (layers,)
        Sum over rows of the squared distance from the mean, float64.
    products : Tensor of shape (layers, layers)
        Sum over rows of the product of two layers' squared distances from the mean, float64.
    """

    n: int
    names: tuple[str, ...]
    widths: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    mean: list[torch.Tensor]
    diagonal: list[torch.Tensor | None]
    strips: list[torch.Tensor]
    first: tuple[int, ...]
    norms: torch.Tensor
    products: torch.Tensor


def cross(
    left: Stack,
    right: Stack | None,
    *,
    dtype: torch.dtype,
    device: torch.device,
    shift: list[torch.Tensor] | None = None,
    own_sides: frozenset[str] = frozenset({"left", "right"}),
    progress: Callable[[int], None] | None = None,
    tile_rows: int = TILE_ROWS,
) -> Crossing:
    """
    Accumulate all moments of two stacks, or of one with itself, in one pass over their rows.

    Parameters
    ----------
    left : Stack
    right : Stack or None
        None compares the left with itself, and computes each pair once.
    dtype : torch.dtype
        The precision of the products: float32 (accumulated in float64 over tiles) or float64.
    device : torch.device
    shift : list of Tensor, optional
        The vector to subtract from each layer first; the mean of the first tile when absent.
    own_sides : frozenset of {"left", "right"}
        Sides whose layers' scatter matrices are computed too, when `right` is given.
    progress : callable, optional
        Called with the number of rows processed since the last call.
    tile_rows : int
        The number of rows read at a time.

    Returns
    -------
    Crossing
    """
    stacks = [left] if right is None else [left, right]
    reader = Tiles(stacks, dtype=dtype, device=device, shift=shift, tile_rows=tile_rows)
    sums = CrossingSums(
        names=reader.names,
        widths=reader.widths,
        left=None if right is None else len(left),
        dtype=dtype,
        device=device,
        own_sides=own_sides,
        single=len(reader.ranges) == 1,
    )
    for start, stop, Z in reader:
        reader.check(sums.add(Z), start, stop)
        if progress is not None:
            progress(stop - start)
    return sums.finish(reader.shift)


class CrossingSums:
    """
    Accumulator of moments over tiles of shifted rows.

    Parameters
    ----------
    names : sequence of str
    widths : sequence of int
    left : int, optional
        The number of left layers; all layers are compared with one another when absent.
    dtype, device, own_sides
        As in `cross`.
    single : bool
        Whether a single tile holds all rows, so that no accumulation is needed.
    """

    def __init__(
        self,
        *,
        names: Sequence[str],
        widths: Sequence[int],
        left: int | None,
        dtype: torch.dtype,
        device: torch.device,
        own_sides: frozenset[str] = frozenset({"left", "right"}),
        single: bool = False,
    ) -> None:
        count = len(names)
        self.names, self.widths = tuple(names), tuple(widths)
        self.symmetric = left is None
        self.lefts = tuple(range(count if left is None else left))
        self.rights = self.lefts if left is None else tuple(range(left, count))
        self.first = tuple(i if left is None else 0 for i in self.lefts)
        self.offsets = (0, *itertools.accumulate(self.widths))
        self.begin = [self.offsets[self.rights[0] + f] for f in self.first]
        self.wanted = [
            k for k in range(count) if left is not None and ("left" if k < left else "right") in own_sides
        ]
        self.dtype, self.single, self.n = dtype, single, 0
        self.strips: list[torch.Tensor] = []
        self.own: list[torch.Tensor | None] = [None] * count
        self.sums = torch.zeros(self.offsets[-1], dtype=torch.float64, device=device)
        self.total = torch.zeros(count, dtype=torch.float64, device=device)
        self.total2 = torch.zeros((count, count), dtype=torch.float64, device=device)
        self.weighted = torch.zeros((count, self.offsets[-1]), dtype=torch.float64, device=device)

    def part(self, Z: torch.Tensor, layer: int) -> torch.Tensor:
        """Return the columns of one layer."""
        return Z[:, self.offsets[layer] : self.offsets[layer + 1]]

    def add(self, Z: torch.Tensor) -> torch.Tensor:
        """
        Add a tile.

        Parameters
        ----------
        Z : Tensor of shape (rows, sum of widths)
            Shifted rows of all layers side by side; may be overwritten afterwards.

        Returns
        -------
        Tensor of shape (sum of widths,)
            Column sums of the tile, float64; not finite where a value is not.
        """
        tile_sum = block_sum(Z)
        self.sums += tile_sum
        a = squared_norms(Z, self.widths)
        self.total += a.sum(1)
        self.total2 += a @ a.T
        if not (self.single and _negligible(tile_sum, self.total, self.widths, len(Z))):
            self.weighted += a.to(self.dtype) @ Z
        for i in self.lefts:
            if self.n and Z.device.type != "cpu" and self.dtype == torch.float64:
                self.strips[i].addmm_(self.part(Z, i).T, Z[:, self.begin[i] :])
                continue
            product = self._product(Z, i)
            if not self.n:
                self.strips.append(product if self.single else product.double())
            else:
                self.strips[i].add_(product)
        for k in self.wanted:
            part = self.part(Z, k)
            block = self.own[k]
            self.own[k] = (part.T @ part).double() if block is None else block.add_(part.T @ part)
        self.n += len(Z)
        return tile_sum

    def _product(self, Z: torch.Tensor, i: int) -> torch.Tensor:
        """Product of left layer i with all its right layers, shape (width, sum of their widths)."""
        left_block, right_block = self.part(Z, i).T, Z[:, self.begin[i] :]
        if Z.device.type != "cpu" or len(left_block) < PIECE_WIDTH:
            return left_block @ right_block
        # A single wide product strides over all layers and takes 5 % longer.
        product = empty((len(left_block), right_block.shape[1]), Z.dtype, Z.device)
        for j in self.rights[self.first[i] :]:
            columns = slice(self.offsets[j] - self.begin[i], self.offsets[j + 1] - self.begin[i])
            torch.mm(left_block, right_block[:, columns], out=product[:, columns])
        return product

    def finish(self, shift: Sequence[torch.Tensor]) -> Crossing:
        """
        Convert the sums about the shift to sums about the means; no tile can be added afterwards.

        Parameters
        ----------
        shift : sequence of Tensor of shape (features,)
            The vector that was subtracted from each layer.

        Returns
        -------
        Crossing
        """
        n, count, offsets, widths, diagonal = self.n, len(self.names), self.offsets, self.widths, self.own
        if not bool(torch.isfinite(self.total2).all()):
            raise InputError(
                "every layer must have values whose squares fit the number format, but the row norms "
                "overflow."
            )
        delta = self.sums / n
        for i in self.lefts:
            strip = self.strips[i]
            sums = self.sums.to(strip.dtype)
            strip.addr_(sums[offsets[i] : offsets[i + 1]], sums[self.begin[i] :], alpha=-1.0 / n)
        for k in range(count):
            block = diagonal[k]
            if block is not None:
                part = self.sums[offsets[k] : offsets[k + 1]]
                block.addr_(part, part, alpha=-1.0 / n)
            elif self.symmetric:
                diagonal[k] = self.strips[k][:, : widths[k]].double()
        deltas = [delta[offsets[k] : offsets[k + 1]] for k in range(count)]
        crossed = torch.full_like(self.total2, float("nan"))
        for i in self.lefts:
            # d_x' C d_y for a whole strip at once: one row vector times the strip, then split by layer.
            along = (deltas[i].to(self.strips[i].dtype) @ self.strips[i]).double() * delta[self.begin[i] :]
            columns = self.rights[self.first[i] :]
            pieces = torch.stack([piece.sum() for piece in along.split([widths[j] for j in columns])])
            crossed[i, list(columns)] = pieces
            crossed[list(columns), i] = pieces
        for k in range(count):
            block = diagonal[k]
            if block is not None:
                crossed[k, k] = deltas[k] @ block @ deltas[k]
        # [x, y]: sum over rows of |x_i - s|^2 times the shifted row of y, along y's remaining mean.
        segments = torch.stack([p.sum(1) for p in (self.weighted * delta).split(list(widths), 1)], 1)
        norms, products = _center_norms(self.total, self.total2, segments, deltas, crossed, n)
        return Crossing(
            n=n,
            names=self.names,
            widths=widths,
            left=self.lefts,
            right=self.rights,
            mean=[d + s.double() for d, s in zip(deltas, shift, strict=True)],
            diagonal=diagonal,
            strips=self.strips,
            first=self.first,
            norms=norms,
            products=products,
        )


def _negligible(sums: torch.Tensor, total: torch.Tensor, widths: Sequence[int], n: int) -> bool:
    """Whether the shift equals the mean up to rounding, so that a correction of row norms is negligible."""
    remainder = torch.stack([piece @ piece for piece in sums.split(list(widths))]) / n
    return bool((remainder <= 1e-13 * total).all())


def _center_norms(
    total: torch.Tensor,
    total2: torch.Tensor,
    weighted: torch.Tensor,
    deltas: list[torch.Tensor],
    crossed: torch.Tensor,
    n: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Convert sums of row norms about the shift to sums about the mean, without a second pass over the rows.

    Parameters
    ----------
    total : Tensor of shape (layers,)
        Sum of squared row norms about the shift.
    total2, weighted, crossed : Tensor of shape (layers, layers)
        Sums of products of squared norms; of squared norms times rows, along the remaining mean d; and
        d_x' C d_y with the centered C.
    deltas : list of Tensor
        The remaining mean of each layer after the shift.
    n : int

    Returns
    -------
    norms : Tensor of shape (layers,)
    products : Tensor of shape (layers, layers)
    """
    d2 = torch.stack([d @ d for d in deltas])
    norms = total - n * d2
    # The shifted, uncentered C~ equals C + n d_x d_y', hence 4 d_x' C~ d_y - 3 n |d_x|^2 |d_y|^2 below.
    products = (
        total2
        - 2 * weighted
        - 2 * weighted.T
        + 4 * crossed
        + n * torch.outer(d2, d2)
        + torch.outer(total, d2)
        + torch.outer(d2, total)
    )
    return norms, products
