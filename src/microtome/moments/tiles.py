"""Reading of rows in tiles, with all layers side by side and shifted near their means."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..errors import InputError, WorkError
from ..lazy import torch
from .stack import Stack, constant_bound, dtype_name, read_rows, rounding

# Rows per tile. Longer tiles accumulate rounding errors in float32 sums, shorter ones cost more additions.
TILE_ROWS = 5000
# Rows per float32 partial sum, and the number of first rows whose spread is measured.
SUM_BLOCK = 250
# With a mean of more than this many times the spread, float32 values lie on a coarse grid.
COARSE = 100.0


# Products of deviations within this range neither underflow nor overflow in float32.
FLOAT32_SCALES = (1e-15, 1e15)


class ScaleError(WorkError):
    """Float32 products would underflow or overflow: float64 is required."""


def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """
    Allocate an uninitialized tensor.

    On Linux, NumPy requests huge pages and torch does not; writing 66 MB for the first time takes 17 ms with
    them and 42 ms without.

    Parameters
    ----------
    shape : tuple of int
    dtype : torch.dtype
        Float32 or float64.
    device : torch.device

    Returns
    -------
    Tensor of shape `shape`
    """
    if device.type != "cpu":
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(shape, dtype=np.float64 if dtype == torch.float64 else np.float32))


def tiles(n: int, size: int = TILE_ROWS) -> Iterator[tuple[int, int]]:
    """Split n rows into ranges of nearly equal length, at most `size` each."""
    count = -(-n // size)
    edges = [round(i * n / count) for i in range(count + 1)]
    yield from itertools.pairwise(edges)


class Tiles:
    """Reader of ranges of rows of several layers side by side, shifted, into one buffer."""

    def __init__(
        self,
        stacks: Sequence[Stack],
        *,
        dtype: torch.dtype,
        device: torch.device,
        shift: list[torch.Tensor] | None = None,
        tile_rows: int = TILE_ROWS,
    ) -> None:
        self.layers = [(stack, i) for stack in stacks for i in range(len(stack))]
        self.names = tuple(name for stack in stacks for name in stack.names)
        self.widths = tuple(width for stack in stacks for width in stack.widths)
        self.offsets = (0, *np.cumsum(self.widths).tolist())
        self.n = stacks[0].rows
        self.dtype, self.device = dtype, device
        self.ranges = list(tiles(self.n, tile_rows))
        # Half precision is read as float32, which represents it exactly; float64 input keeps its digits
        # until the shift is subtracted, even when the products are then float32.
        self.wide = [
            torch.float64 if dtype == torch.float64 or dtype_name(s.layers[i]) == "float64" else torch.float32
            for s, i in self.layers
        ]
        self.shift = shift if shift is not None else self._first_means()

    def _first_means(self) -> list[torch.Tensor]:
        start, stop = self.ranges[0]
        means = []
        for position, wide in enumerate(self.wide):
            rows = self._read(position, start, stop)
            total = block_sum(rows)
            if not bool(torch.isfinite(total).all()):
                self._complain(position, start, stop)
            mean = total / (stop - start)
            sample = rows[: min(stop - start, SUM_BLOCK)]
            spread = (sample - mean.to(wide)).abs().amax(0).double()
            largest = float(spread.max())
            if (
                self.dtype == torch.float32
                and largest
                and not (FLOAT32_SCALES[0] < largest < FLOAT32_SCALES[1])
            ):
                raise ScaleError(
                    f"layer {self.names[position]} must have values that fit float32 products, but they "
                    f"deviate by {largest:.1g}."
                )
            if wide == torch.float32 and bool((mean.abs() > COARSE * spread).any()):
                # Such values lie on a coarse grid that a float32 shift preserves, and squares of integers
                # do not round evenly: subtract the shift in float64.
                self.wide[position] = torch.float64
            # A shift in the precision of the input, whose subtraction is exact near the mean.
            means.append(mean.to(self.wide[position]))
        return means

    def _read(self, position: int, start: int, stop: int) -> torch.Tensor:
        stack, layer = self.layers[position]
        return read_rows(stack, layer, start, stop, self.wide[position], self.device)

    def __iter__(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Yield (start, stop, Z) with Z of shape (stop - start, all features); Z is overwritten."""
        longest = max(stop - start for start, stop in self.ranges)
        buffer = empty((longest, self.offsets[-1]), self.dtype, self.device)
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
        """Return the columns of one layer."""
        return Z[:, self.offsets[position] : self.offsets[position + 1]]

    def check(self, sums: torch.Tensor, start: int, stop: int) -> None:
        """Raise an error that names layer and row when a column sum of the tile is not finite."""
        if bool(torch.isfinite(sums).all()):
            return
        for position in range(len(self.layers)):
            if not bool(torch.isfinite(sums[self.offsets[position] : self.offsets[position + 1]]).all()):
                self._complain(position, start, stop)

    def _complain(self, position: int, start: int, stop: int) -> None:
        stack, _ = self.layers[position]
        numbers = range(start, stop) if stack.index is None else stack.index[start:stop]
        check_finite(self.names[position], self._read(position, start, stop), numbers)
        raise InputError(
            f"layer {self.names[position]} must have values whose squares fit the number format, but "
            f"rows {start} to {stop - 1} overflow; try precision='exact'."
        )


def check_finite(name: str, rows: torch.Tensor, numbers: Sequence[int] | np.ndarray) -> None:
    """Raise an error that names the first value of a layer that is not finite; rows have these numbers."""
    bad = torch.nonzero(~torch.isfinite(rows))
    if len(bad):
        row, column = (int(v) for v in bad[0])
        kind = "NaN" if bool(torch.isnan(rows[row, column])) else "infinite"
        raise InputError(
            f"every value must be finite, but layer {name} is {kind} at row {int(numbers[row])}, "
            f"feature {column}."
        )


def block_sum(rows: torch.Tensor) -> torch.Tensor:
    """
    Sum over rows in float64 without converting every element: short float32 sums, then a float64 sum.

    Parameters
    ----------
    rows : Tensor of shape (rows, features)

    Returns
    -------
    Tensor of shape (features,)
    """
    if rows.dtype == torch.float64:
        return rows.sum(0)
    n_blocked = rows.shape[0] // SUM_BLOCK * SUM_BLOCK
    total = rows[n_blocked:].sum(0).double()
    if n_blocked:
        total += rows[:n_blocked].unflatten(0, (-1, SUM_BLOCK)).sum(1).double().sum(0)
    return total


def squared_norms(Z: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    """
    Squared norm of each row in each layer.

    Parameters
    ----------
    Z : Tensor of shape (rows, sum of widths)
    widths : sequence of int

    Returns
    -------
    Tensor of shape (layers, rows), float64
    """
    if len(set(widths)) == 1:
        lengths = torch.linalg.vector_norm(Z.unflatten(1, (len(widths), widths[0])), dim=2).T
    else:
        lengths = torch.stack([torch.linalg.vector_norm(part, dim=1) for part in Z.split(list(widths), 1)])
    return lengths.double().square()


SPREAD_ROWS = 1000


def column_spread(stack: Stack, device: torch.device) -> list[torch.Tensor]:
    """
    Centered sum of squares of every neuron, float64, shape (features,) for each layer.

    One pass over the rows, shifted by the mean of the first tile. A neuron whose spread is no more than the
    rounding error of its mean is constant, and its sum is 0.
    """
    reader = Tiles([stack], dtype=torch.float64, device=device, tile_rows=SPREAD_ROWS)
    sums = torch.zeros(reader.offsets[-1], dtype=torch.float64, device=device)
    squares = torch.zeros_like(sums)
    for start, stop, Z in reader:
        part = block_sum(Z)
        reader.check(part, start, stop)
        sums += part
        squares += Z.square().sum(0)
    spread = squares - sums.square() / reader.n
    mean = sums / reader.n + torch.cat([shift.double() for shift in reader.shift])
    eps = torch.cat(
        [torch.full((w,), rounding(layer)) for w, layer in zip(reader.widths, stack.layers, strict=True)]
    ).to(device)
    spread[spread <= constant_bound(mean, reader.n, eps)] = 0.0
    return list(spread.split(list(reader.widths)))


def controlled(stack: Stack, *, zscore: bool, remove_top: int, device: torch.device) -> Stack:
    """
    Standardize neurons, or remove those of largest variance, as a control for outlier dimensions.

    Parameters
    ----------
    stack : Stack
    zscore : bool
        Divide each neuron by its standard deviation.
    remove_top : int
        How many neurons of largest variance to leave out of each layer.
    device : torch.device

    Returns
    -------
    Stack
    """
    columns, scales = [], []
    for neurons in column_spread(stack, device):
        spread = neurons.cpu().numpy()
        keep = np.arange(len(spread))
        if remove_top:
            keep = np.sort(np.argsort(-spread, kind="stable")[remove_top:])
        if zscore and (spread[keep] > 0).any():
            # The values of a constant neuron are rounding error, which standardizing would amplify.
            keep = keep[spread[keep] > 0]
        sd = np.sqrt(spread[keep] / (stack.rows - 1))
        columns.append(keep)
        scales.append(np.where(sd > 0, 1 / np.where(sd > 0, sd, 1.0), 1.0) if zscore else None)
    return replace(stack, columns=tuple(columns), scales=tuple(scales))
