"""Contributions of rows to canonical correlations: quadratic forms of whitened rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..lazy import torch
from .stack import Stack, read_rows
from .strip import Strip, Subspace, basis
from .tiles import tiles

# Mean number of rows of a unit above which their second moments are cheaper than the forms of each row.
LARGE_UNIT = 100


class QuadraticForm(NamedTuple):
    """
    Derivative of a similarity with respect to the weight of a row, for b pairs of layers.

    A row of whitened x and y contributes x'Ax + x'By + y'Cy.

    Parameters
    ----------
    left, cross, right : Tensor of shape (b, k, k), (b, k, l) and (b, l, l)
        A, B and C.
    """

    left: torch.Tensor
    cross: torch.Tensor
    right: torch.Tensor

    @property
    def swapped(self) -> QuadraticForm:
        """The same with the sides exchanged."""
        return QuadraticForm(left=self.right, cross=self.cross.mT, right=self.left)


class WhitenedRows:
    """
    Rows whose contributions are summed over units.

    Parameters
    ----------
    left, right : Stack
        The rows of these units alone.
    codes : ndarray of shape (rows,)
        Unit of each row.
    dtype, device
        Of the products.
    """

    def __init__(
        self, left: Stack, right: Stack, codes: np.ndarray, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.left, self.right, self.dtype, self.device = left, right, dtype, device
        self.codes, self.units = torch.as_tensor(codes, device=device), int(codes.max()) + 1

    def contributions(
        self, strip: Strip, subspace: Subspace, forms: Sequence[QuadraticForm], i: int, columns: Sequence[int]
    ) -> np.ndarray:
        """
        Sum the forms of one left layer's pairs over the rows of each unit.

        Parameters
        ----------
        strip : Strip
        subspace : Subspace
            Of the whitened directions.
        forms : sequence of QuadraticForm
            Of the last layers of the strip.
        i, columns : int and sequence of int
            Positions of the left layer and of the right layers of the forms on their sides.

        Returns
        -------
        ndarray of shape (forms, right layers, units)
        """
        shape = (len(forms), len(columns), self.units)
        sums = torch.zeros(shape, dtype=torch.float64, device=self.device)
        whiten = basis(strip.left, subspace).whiten[strip.row, :, : forms[0].left.shape[-1]]
        first = strip.columns.stop - len(columns)
        right_whiten = basis(strip.right, subspace).whiten
        for start, stop in tiles(len(self.codes)):
            codes = self.codes[start:stop]
            present = codes.unique().tolist()
            large = present if stop - start >= LARGE_UNIT * len(present) else []
            x = self._read(self.left, i, start, stop, strip.left.mean[strip.row]) @ whiten
            for place, j in enumerate(columns):
                y = self._read(self.right, j, start, stop, strip.right.mean[first + place])
                pair = [QuadraticForm(*(part[place] for part in form)) for form in forms]
                self._add(sums[:, place], pair, x, y @ right_whiten[first + place], codes, large)
        return sums.cpu().numpy()

    def _add(
        self,
        totals: torch.Tensor,
        forms: Sequence[QuadraticForm],
        x: torch.Tensor,
        y: torch.Tensor,
        codes: torch.Tensor,
        large: Sequence[int],
    ) -> None:
        """Add one pair's forms to totals (forms, units): row by row, or by the moments of large units."""
        if not large:
            for total, form in zip(totals, forms, strict=True):
                products = torch.addmm(x @ form.left, y, form.cross.mT).mul_(x).sum(1)
                products += (y @ form.right).mul_(y).sum(1)
                total.index_add_(0, codes, products.double())
            return
        for unit in large:
            a, b = x[codes == unit], y[codes == unit]
            moments = QuadraticForm(left=a.mT @ a, cross=a.mT @ b, right=b.mT @ b)
            for total, form in zip(totals, forms, strict=True):
                for part, moment in zip(form, moments, strict=True):
                    total[unit] += torch.vdot(part.flatten(), moment.flatten()).double()

    def _read(self, stack: Stack, layer: int, start: int, stop: int, mean: torch.Tensor) -> torch.Tensor:
        return read_rows(stack, layer, start, stop, self.dtype, self.device) - mean.to(self.dtype)
