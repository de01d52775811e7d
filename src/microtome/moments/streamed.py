"""Moments of layers whose rows are streamed and not stored."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError
from ..lazy import torch
from .crossing import Crossing, CrossingSums
from .stack import Stack, make_stack
from .tiles import COARSE, FLOAT32_SCALES, TILE_ROWS, block_sum, check_finite


class StreamedMoments:
    """
    Accumulator of the moments of layers whose rows arrive in batches; it buffers one tile of rows.

    Parameters
    ----------
    names : sequence of str
    widths : sequence of int
        The number of features of each layer.
    left : int, optional
        The number of left layers; all layers are compared with one another when absent.
    dtype : torch.dtype
        The precision of the products: float32 (accumulated in float64 over tiles) or float64.
    device : torch.device
    tile_rows : int
    """

    def __init__(
        self,
        names: Sequence[str],
        widths: Sequence[int],
        *,
        left: int | None,
        dtype: torch.dtype,
        device: torch.device,
        tile_rows: int = TILE_ROWS,
    ) -> None:
        self.names, self.widths, self.left = tuple(names), tuple(widths), left
        self.dtype, self.device = dtype, device
        self.tile = torch.empty((tile_rows, sum(self.widths)), dtype=dtype, device=device)
        self.filled = self.rows = 0
        self.coarse = False
        self.shift: torch.Tensor | None = None
        self.sums: CrossingSums | None = None

    def add(self, layers: Sequence[torch.Tensor]) -> None:
        """
        Add a batch of rows of all layers.

        Parameters
        ----------
        layers : sequence of Tensor of shape (rows, features)
            In the order of the names; copied.
        """
        count = len(layers[0])
        for name, width, layer in zip(self.names, self.widths, layers, strict=True):
            if tuple(layer.shape) != (count, width):
                raise InputError(
                    f"layer {name} must give {count} rows of {width} features, but got {list(layer.shape)}."
                )
        done = 0
        while done < count:
            take = min(count - done, len(self.tile) - self.filled)
            target, begin = self.tile[self.filled : self.filled + take], 0
            for width, layer in zip(self.widths, layers, strict=True):
                target[:, begin : begin + width] = layer[done : done + take]
                begin += width
            self.filled += take
            done += take
            if self.filled == len(self.tile):
                self._flush()

    def finish(self) -> Crossing:
        """Add the remaining rows, and return the moments."""
        if self.filled:
            self._flush()
        if self.sums is None or self.shift is None:
            raise InputError("layers must have seen at least one row, but they saw none.")
        return self.sums.finish(list(self.shift.split(list(self.widths))))

    def stack(self) -> tuple[Stack, Stack | None]:
        """Return the left and right layers without their rows."""
        layers = [
            torch.empty((self.rows, width), dtype=torch.float32, device="meta") for width in self.widths
        ]
        left = make_stack(layers[: self.left], names=self.names[: self.left])
        if self.left is None:
            return left, None
        return left, make_stack(layers[self.left :], "right", self.names[self.left :])

    def _flush(self) -> None:
        if self.sums is None or self.shift is None:
            self.sums, self.shift = self._start()
        Z = self.tile[: self.filled]
        if self.coarse:
            # With a mean far from 0, float32 values lie on a coarse grid: it is subtracted in float64.
            Z.copy_(Z.double() - self.shift)
        else:
            Z.sub_(self.shift.to(Z.dtype))
        column_sums = self.sums.add(Z)
        if not bool(torch.isfinite(column_sums).all()):
            self._complain(Z)
        self.rows += self.filled
        self.filled = 0

    def _start(self) -> tuple[CrossingSums, torch.Tensor]:
        """Compute the shift from the first rows, and check whether float32 can represent their products."""
        Z = self.tile[: self.filled]
        mean = block_sum(Z) / len(Z)
        spread = (Z - mean.to(Z.dtype)).abs().amax(0).double()
        largest = torch.stack([part.max() for part in spread.split(list(self.widths))])
        low, high = FLOAT32_SCALES
        if self.dtype == torch.float32 and bool(((largest > 0) & ((largest < low) | (largest > high))).any()):
            self.dtype, self.tile = torch.float64, self.tile.double()
        self.coarse = self.dtype == torch.float32 and bool((mean.abs() > COARSE * spread).any())
        # A shift in the precision of the products, whose subtraction is exact near the mean.
        shift = mean if self.coarse else mean.to(self.dtype).double()
        sums = CrossingSums(
            names=self.names, widths=self.widths, left=self.left, dtype=self.dtype, device=self.device
        )
        return sums, shift

    def _complain(self, Z: torch.Tensor) -> None:
        numbers = range(self.rows, self.rows + self.filled)
        for name, part in zip(self.names, Z.split(list(self.widths), 1), strict=True):
            check_finite(name, part, numbers)
        raise InputError(
            f"every layer must have values whose squares fit the number format, but rows {self.rows} to "
            f"{self.rows + self.filled - 1} overflow."
        )
