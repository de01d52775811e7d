"""What must be kept of the rows? Shifted cross-moments of every pair of layers, in one streaming pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .stack import Stack, dtype_name, read_rows

if TYPE_CHECKING:
    import torch

# Rows a tile. Longer tiles let float32 sums drift, shorter ones spend time adding tiles up.
TILE_ROWS = 5000
# Rows whose mean becomes the shift: what is left of the mean after it is small against the spread.
SUM_BLOCK = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """
    Centered second moments of some left layers against some right layers.

    All are sums over rows, not means. Layers are numbered left first, then right; when a stack is
    compared with itself there is only the left.

    Parameters
    ----------
    n : int
        Rows.
    names : tuple of str
    widths : tuple of int
    left, right : tuple of int
        Positions of the left and of the right layers among `names`; the same when a stack is compared
        with itself.
    mean : list of Tensor of shape (features,)
        Float64.
    diagonal : list of (Tensor of shape (features, features), or None)
        Scatter matrix of each layer, float64, where it was wanted.
    strips : list of Tensor of shape (p, sum of q)
        For each left layer, its cross-scatter with the right layers from `first[i]` on; float64, or in
        the precision of the products when one tile held all rows and nothing had to be added up.
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


def tiles(n: int, size: int = TILE_ROWS) -> Iterator[tuple[int, int]]:
    """Cut n rows into ranges of nearly equal length, at most `size` each."""
    count = -(-n // size)
    edges = [round(i * n / count) for i in range(count + 1)]
    yield from itertools.pairwise(edges)


class Tiles:
    """Reads ranges of rows of several layers side by side, shifted, into one buffer."""

    def __init__(
        self,
        stacks: Sequence[Stack],
        *,
        dtype: torch.dtype,
        device: torch.device,
        shift: list[torch.Tensor] | None = None,
        tile_rows: int = TILE_ROWS,
    ) -> None:
        import torch

        self.layers = [(stack, i) for stack in stacks for i in range(len(stack))]
        self.names = tuple(name for stack in stacks for name in stack.names)
        self.widths = tuple(width for stack in stacks for width in stack.widths)
        self.offsets = (0, *np.cumsum(self.widths).tolist())
        self.n = stacks[0].rows
        self.dtype, self.device = dtype, device
        self.ranges = list(tiles(self.n, tile_rows))
        # Half precision is read as float32, which holds it exactly; float64 input keeps its digits
        # until the shift is taken off, even when the products are then float32.
        self.wide = [
            torch.float64 if dtype == torch.float64 or dtype_name(s.layers[i]) == "float64" else torch.float32
            for s, i in self.layers
        ]
        self.shift = shift if shift is not None else self._first_means()
        self._zero = [bool((s == 0).all()) for s in self.shift]

    def _first_means(self) -> list[torch.Tensor]:
        import torch

        start, stop = self.ranges[0]
        means = []
        for position, wide in enumerate(self.wide):
            rows = self._read(position, start, stop)
            total = block_sum(rows)
            if not bool(torch.isfinite(total).all()):
                self._complain(position, start, stop)
            # A shift of the input's own precision: its subtraction is then exact near the mean.
            means.append((total / (stop - start)).to(wide))
        return means

    def _read(self, position: int, start: int, stop: int) -> torch.Tensor:
        stack, layer = self.layers[position]
        return read_rows(stack, layer, start, stop, self.wide[position], self.device)

    def __iter__(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Yield (start, stop, Z) with Z of shape (stop - start, all features); Z is overwritten."""
        import torch

        longest = max(stop - start for start, stop in self.ranges)
        buffer = torch.empty((longest, self.offsets[-1]), dtype=self.dtype, device=self.device)
        for start, stop in self.ranges:
            Z = buffer[: stop - start]
            for position, shift in enumerate(self.shift):
                part = Z[:, self.offsets[position] : self.offsets[position + 1]]
                rows = self._read(position, start, stop)
                if rows.dtype == self.dtype:
                    torch.sub(rows, shift, out=part)
                else:
                    part.copy_(rows - shift)
            yield start, stop, Z

    def part(self, Z: torch.Tensor, position: int) -> torch.Tensor:
        """The columns of one layer."""
        return Z[:, self.offsets[position] : self.offsets[position + 1]]

    def check(self, sums: torch.Tensor, start: int, stop: int) -> None:
        """Complain, naming layer and row, when a column sum of the tile is not finite."""
        import torch

        if bool(torch.isfinite(sums).all()):
            return
        for position in range(len(self.layers)):
            if not bool(torch.isfinite(sums[self.offsets[position] : self.offsets[position + 1]]).all()):
                self._complain(position, start, stop)

    def _complain(self, position: int, start: int, stop: int) -> None:
        import torch

        rows = self._read(position, start, stop)
        bad = torch.nonzero(~torch.isfinite(rows))
        if not len(bad):
            raise InputError(
                f"layer {self.names[position]} must have values whose squares fit the number format, but "
                f"rows {start} to {stop - 1} overflow; try precision='exact'."
            )
        row, column = (int(v) for v in bad[0])
        kind = "NaN" if bool(torch.isnan(rows[row, column])) else "infinite"
        stack, _ = self.layers[position]
        true_row = start + row if stack.index is None else int(stack.index[start + row])
        raise InputError(
            f"every value must be finite, but layer {self.names[position]} is {kind} at row {true_row}, "
            f"feature {column}."
        )


def block_sum(rows: torch.Tensor) -> torch.Tensor:
    """
    Sum over rows in float64 without converting every element: short float32 sums, then long ones.

    Parameters
    ----------
    rows : Tensor of shape (rows, features)

    Returns
    -------
    Tensor of shape (features,)
    """
    import torch

    if rows.dtype == torch.float64:
        return rows.sum(0)
    whole = rows.shape[0] // SUM_BLOCK * SUM_BLOCK
    total = rows[whole:].sum(0).double()
    if whole:
        total += rows[:whole].unflatten(0, (-1, SUM_BLOCK)).sum(1).double().sum(0)
    return total


def squared_norms(Z: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    """
    Squared length of each row in each layer.

    Parameters
    ----------
    Z : Tensor of shape (rows, sum of widths)
    widths : sequence of int

    Returns
    -------
    Tensor of shape (layers, rows), float64
    """
    import torch

    if len(set(widths)) == 1:
        lengths = torch.linalg.vector_norm(Z.unflatten(1, (len(widths), widths[0])), dim=2).T
    else:
        lengths = torch.stack([torch.linalg.vector_norm(part, dim=1) for part in Z.split(list(widths), 1)])
    return lengths.double().square()


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
        None compares the left with itself, and does each pair once.
    dtype : torch.dtype
        Of the products: float32 (added up in float64 tile by tile) or float64.
    device : torch.device
    shift : list of Tensor, optional
        What to subtract from each layer first; the mean of the first tile when absent.
    own_sides : frozenset of {"left", "right"}
        Sides whose layers' own scatter matrices are wanted too, when `right` is given.
    progress : callable, optional
        Called with the number of rows done since the last call.
    tile_rows : int
        Rows read at a time.

    Returns
    -------
    Crossing
    """
    import torch

    stacks = [left] if right is None else [left, right]
    reader = Tiles(stacks, dtype=dtype, device=device, shift=shift, tile_rows=tile_rows)
    count, offsets, widths = len(reader.layers), reader.offsets, reader.widths
    lefts = tuple(range(len(left)))
    rights = lefts if right is None else tuple(range(len(left), count))
    first = tuple(i if right is None else 0 for i in lefts)
    begin = [offsets[rights[0] + f] for f in first]

    strips: list[torch.Tensor] = []
    own: list[torch.Tensor | None] = [None] * count
    sums = torch.zeros(offsets[-1], dtype=torch.float64, device=device)
    total = torch.zeros(count, dtype=torch.float64, device=device)
    total2 = torch.zeros((count, count), dtype=torch.float64, device=device)
    weighted = torch.zeros((count, offsets[-1]), dtype=torch.float64, device=device)
    single = len(reader.ranges) == 1
    wanted = [
        k for k in range(count) if right is not None and ("left" if k < len(left) else "right") in own_sides
    ]
    for start, stop, Z in reader:
        tile_sum = block_sum(Z)
        reader.check(tile_sum, start, stop)
        sums += tile_sum
        a = squared_norms(Z, widths)
        total += a.sum(1)
        total2 += a @ a.T
        if not (single and _negligible(tile_sum, total, widths, reader.n)):
            weighted += a.to(dtype) @ Z
        for i in lefts:
            product = reader.part(Z, i).T @ Z[:, begin[i] :]
            if start == 0:
                strips.append(product if single else product.double())
            else:
                strips[i].add_(product)
        for k in wanted:
            part = reader.part(Z, k)
            block = own[k]
            own[k] = (part.T @ part).double() if block is None else block.add_(part.T @ part)
        if progress is not None:
            progress(stop - start)

    n = reader.n
    if not bool(torch.isfinite(total2).all()):
        raise InputError(
            "every layer must have values whose squares fit the number format, but the row norms overflow."
        )
    delta = sums / n
    for i in lefts:
        strip = strips[i]
        rest = sums.to(strip.dtype)
        strip.addr_(rest[offsets[i] : offsets[i + 1]], rest[begin[i] :], alpha=-1.0 / n)
    for k in range(count):
        block = own[k]
        if block is not None:
            part = sums[offsets[k] : offsets[k + 1]]
            block.addr_(part, part, alpha=-1.0 / n)
        elif right is None:
            own[k] = strips[k][:, : widths[k]].double()
    deltas = [delta[offsets[k] : offsets[k + 1]] for k in range(count)]
    crossed = torch.full((count, count), float("nan"), dtype=torch.float64, device=device)
    for i in lefts:
        # d_x' C d_y for a whole strip at once: one row vector times the strip, then cut at the layers.
        along = (deltas[i].to(strips[i].dtype) @ strips[i]).double() * delta[begin[i] :]
        columns = rights[first[i] :]
        pieces = torch.stack([piece.sum() for piece in along.split([widths[j] for j in columns])])
        crossed[i, list(columns)] = pieces
        crossed[list(columns), i] = pieces
    for k in range(count):
        block = own[k]
        if block is not None:
            crossed[k, k] = deltas[k] @ block @ deltas[k]
    norms, products = _center_norms(total, total2, _segments(weighted, delta, widths), deltas, crossed, n)
    return Crossing(
        n=n,
        names=reader.names,
        widths=widths,
        left=lefts,
        right=rights,
        mean=[d + s.double() for d, s in zip(deltas, reader.shift, strict=True)],
        diagonal=own,
        strips=strips,
        first=first,
        norms=norms,
        products=products,
    )


def _negligible(sums: torch.Tensor, total: torch.Tensor, widths: Sequence[int], n: int) -> bool:
    """Whether the shift was the mean but for rounding, so that no correction of row norms can show."""
    import torch

    rest = torch.stack([piece @ piece for piece in sums.split(list(widths))]) / n
    return bool((rest <= 1e-13 * total).all())


def _segments(weighted: torch.Tensor, delta: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    """[x, y]: sum over rows of |x_i - s|^2 times the shifted row of y, along y's remaining mean."""
    import torch

    return torch.stack([piece.sum(1) for piece in (weighted * delta).split(list(widths), 1)], 1)


def _center_norms(
    total: torch.Tensor,
    total2: torch.Tensor,
    weighted: torch.Tensor,
    deltas: list[torch.Tensor],
    crossed: torch.Tensor,
    n: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Turn sums of row norms about the shift into sums about the mean, without a second look at the rows.

    Parameters
    ----------
    total : Tensor of shape (layers,)
        Sum of squared row norms about the shift.
    total2, weighted, crossed : Tensor of shape (layers, layers)
        Sums of products of squared norms; of squared norms times rows, along the mean's remainder d;
        and d_x' C d_y with the centered C.
    deltas : list of Tensor
        What remains of each mean after the shift.
    n : int

    Returns
    -------
    norms : Tensor of shape (layers,)
    products : Tensor of shape (layers, layers)
    """
    import torch

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
