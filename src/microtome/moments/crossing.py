"""What must be kept of the rows? Shifted cross-moments of every pair of layers, in one streaming pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import InputError
from .stack import Stack
from .tiles import TILE_ROWS, Tiles, block_sum, squared_norms

if TYPE_CHECKING:
    import torch


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
