"""Products of one left layer with several right layers, computed once and shared by all measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from ..lazy import torch
from .bank import BATCH_WIDTH, Bank, Basis, aligned
from .nuclear import canonical, polar, singular_sums, singular_values
from .tiles import empty

T = TypeVar("T")
# The whitened directions: all within the numerical rank, or a truncation (scaling, threshold, inclusive).
Subspace = Literal["full"] | tuple[str, float, bool]


def basis(bank: Bank, subspace: Subspace) -> Basis:
    """Look up the whitened directions of a bank's layers."""
    if subspace == "full":
        return bank.full()
    scaling, threshold, inclusive = subspace
    return bank.cut(scaling, threshold, inclusive)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """
    Values of one left layer against b right layers.

    Parameters
    ----------
    forward : Tensor of shape (b,)
        Left matched in, or predicted from, right. NaN where undefined.
    backward : Tensor of shape (b,), optional
        The other direction; None for a symmetric measure.
    reasons : tuple of (str or None), optional
        Why a cell is undefined, one entry per cell.
    details : mapping of str to Tensor of shape (b,)
        Further values per cell, by name.
    """

    forward: torch.Tensor
    backward: torch.Tensor | None = None
    reasons: tuple[str | None, ...] | None = None
    details: Mapping[str, torch.Tensor] = field(default_factory=lambda: MappingProxyType({}))


def undefined(left: Any, right: Iterable[Any], why: str) -> tuple[str | None, ...]:
    """
    Why the cells of one left layer are undefined: where it, or the right layer, has nothing to compare.

    Parameters
    ----------
    left : int or bool
        The number of dimensions or neurons of the left layer, or whether it varies.
    right : iterable of int or bool
        The same of each right layer.
    why : str
        The reason where either is 0.
    """
    return tuple(None if left and count else why for count in right)


class Debiasing(NamedTuple):
    """
    What debiased CKA needs beside the cross-scatter.

    Parameters
    ----------
    correction : Tensor of shape (b,)
        The term that debiasing subtracts from the squared norm of the cross-scatter of each pair.
    left, right : Tensor of shape () and (b,)
        Debiased squared norms of the layers' scatter matrices.
    """

    correction: torch.Tensor
    left: torch.Tensor
    right: torch.Tensor


class Strip:
    """
    One left layer against b right layers of the same width.

    Every product is computed on first use and cached, so that several measures share it.

    Parameters
    ----------
    left : Bank
        The bank of the left layer.
    row : int
        The index of the left layer in its bank.
    right : Bank
        The bank of the right layers.
    columns : slice
        The range of the right layers in their bank.
    flat : Tensor of shape (p, b q)
        Centered cross-scatter with all right layers side by side; never written to.
    debiasing : Debiasing
    both : bool
        Whether directed measures are computed in both directions.
    same : bool
        Whether the first right layer is the left layer itself, whose canonical correlations are all 1.
    """

    def __init__(
        self,
        *,
        left: Bank,
        row: int,
        right: Bank,
        columns: slice,
        flat: torch.Tensor,
        debiasing: Debiasing,
        both: bool,
        same: bool = False,
    ) -> None:
        self.left, self.row, self.right, self.columns = left, row, right, columns
        self.debiasing, self.both, self.same = debiasing, both, same
        self.n = left.n
        # Constant neurons are left out, also where rounding gave them a little variance.
        if not (left.all_alive and right.all_alive):
            flat = flat * (left.alive[row][:, None] & right.alive[columns].flatten())
        self.flat = flat
        self._made: dict[object, Any] = {}

    def __len__(self) -> int:
        return self.flat.shape[1] // self.right.width

    def _cut(self, flat: torch.Tensor) -> torch.Tensor:
        """View (p, b q) as (b, p, q)."""
        return flat.unflatten(1, (len(self), self.right.width)).permute(1, 0, 2)

    @property
    def cross(self) -> torch.Tensor:
        """Centered cross-scatter of each pair, float64, shape (b, p, q)."""
        return self._cut(self.flat.double())

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Compute a value on first use, and cache it under the key."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    @property
    def frob2(self) -> torch.Tensor:
        """Squared Frobenius norm of each cross-scatter, shape (b,)."""

        def make() -> torch.Tensor:
            # Rows first: short sums in the precision of the products, long ones in float64.
            rows = torch.linalg.vector_norm(self.flat.unflatten(1, (len(self), self.right.width)), dim=2)
            return rows.double().square().sum(0)

        return self.once("frob2", make)

    @property
    def small_flat(self) -> torch.Tensor:
        """The cross-scatter in the precision of the algebra, shape (p, b q)."""
        return self.once("small", lambda: self.flat.to(self.left.dtype))

    @property
    def small(self) -> torch.Tensor:
        """The cross-scatter in the precision of the algebra, shape (b, p, q)."""
        return self._cut(self.small_flat)

    def kept(self, subspace: Subspace) -> tuple[int, tuple[int, ...]]:
        """Return the number of dimensions of the left layer and of each right one."""
        right_dimensions = basis(self.right, subspace).kept[self.columns]
        return basis(self.left, subspace).kept[self.row], right_dimensions

    def on_right(self, subspace: Subspace) -> torch.Tensor:
        """Cross-scatter times the right layers' whitened directions, shape (b, p, r)."""

        def make() -> torch.Tensor:
            whiten = basis(self.right, subspace).whiten[self.columns]
            if not self.same:
                return self.small @ whiten
            out = empty((len(self), self.left.width, whiten.shape[2]), whiten.dtype, whiten.device)
            out[0] = basis(self.right, subspace).load()[self.row]
            torch.bmm(self.small[1:], whiten[1:], out=out[1:])
            return out

        return self.once(("on_right", subspace), make)

    def on_left(self, subspace: Subspace) -> torch.Tensor:
        """The left layer's whitened directions times the cross-scatter, shape (b, r, q)."""

        def make() -> torch.Tensor:
            whiten = self._left_whiten(subspace)
            if not self.same:
                return self._cut(whiten.mT @ self.small_flat)
            out = empty((whiten.shape[1], self.small_flat.shape[1]), whiten.dtype, whiten.device)
            width = self.right.width
            out[:, :width] = basis(self.left, subspace).load()[self.row, :, : whiten.shape[1]].mT
            torch.mm(whiten.mT, self.small_flat[:, width:], out=out[:, width:])
            return self._cut(out)

        return self.once(("on_left", subspace), make)

    def _left_whiten(self, subspace: Subspace) -> torch.Tensor:
        left_basis = basis(self.left, subspace)
        return left_basis.whiten[self.row, :, : aligned(left_basis.kept[self.row], self.left.width)]

    def whitened(self, subspace: Subspace) -> torch.Tensor:
        """The cross-correlation of the whitened directions, shape (b, k, l); 0 where padded."""

        def make() -> torch.Tensor:
            corner = self._inside_full(subspace)
            if corner is not None:
                return corner
            if ("on_left", subspace) in self._made:
                return self.on_left(subspace) @ basis(self.right, subspace).whiten[self.columns]
            return self._left_whiten(subspace).mT @ self.on_right(subspace)

        return self.once(("whitened", subspace), make)

    def _inside_full(self, subspace: Subspace) -> torch.Tensor | None:
        """Take a truncated scatter spectrum as a corner of the full rank, if both share one spectrum."""
        if subspace == "full" or subspace[0] != "center":
            return None
        if not (self.left.shares_spectrum and self.right.shares_spectrum):
            return None
        left_basis, right_basis = basis(self.left, subspace), basis(self.right, subspace)
        dimension = left_basis.kept[self.row]
        k, most = aligned(dimension, self.left.width), right_basis.whiten.shape[2]
        if ("whitened", "full") in self._made:
            corner = self.whitened("full")[:, :k, :most] * self._columns_kept(right_basis, most)
        elif ("on_left", "full") in self._made:
            corner = self.on_left("full")[:, :k] @ right_basis.whiten[self.columns]
        elif ("on_right", "full") in self._made:
            corner = self._left_whiten(subspace).mT @ self.on_right("full")[:, :, :most]
            corner *= self._columns_kept(right_basis, most)
        else:
            return None
        # The full rank extends beyond the left layer's truncation, up to the next multiple of the alignment.
        corner[:, dimension:] = 0
        return corner

    def _columns_kept(self, right_basis: Basis, most: int) -> torch.Tensor:
        dimensions = torch.tensor(right_basis.kept[self.columns], device=self.flat.device)
        return (torch.arange(most, device=self.flat.device) < dimensions[:, None])[:, None, :]

    def count(self, subspace: Subspace) -> torch.Tensor:
        """Number of canonical correlations of each pair, shape (b,)."""
        left_dimension, right_dimensions = self.kept(subspace)
        return torch.tensor(
            [min(left_dimension, right_dimension) for right_dimension in right_dimensions],
            device=self.flat.device,
        )

    def canonical(self, subspace: Subspace) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        Canonical correlations with both sides' directions, see `nuclear.canonical`.

        If the first right layer is the left layer itself, it is left out: its directions are the same.
        """
        skip = int(self.same)
        left_dimension, right_dimensions = self.kept(subspace)
        return self.once(
            ("canonical", subspace),
            lambda: canonical(self.whitened(subspace)[skip:], left_dimension, right_dimensions[skip:]),
        )

    def polar(self, subspace: Subspace) -> torch.Tensor:
        """The polar factor of the cross-correlation of each pair but that of the left layer with itself."""
        if self.flat.device.type != "cpu":
            return polar(self.whitened(subspace)[int(self.same) :])
        _, U, V = self.canonical(subspace)
        return U @ V.mT

    def correlations(self, subspace: Subspace) -> torch.Tensor:
        """Canonical correlations, float64, descending, shape (b, m)."""
        if ("canonical", subspace) in self._made:
            return self._with_self(self.canonical(subspace)[0], subspace)
        return self.once(("correlations", subspace), lambda: self._each(subspace, singular_values, pad=True))

    def _with_self(self, rho: torch.Tensor, subspace: Subspace) -> torch.Tensor:
        """Prepend the correlations of the left layer with itself to those of the other pairs (b, m)."""
        if not self.same:
            return rho
        ones = torch.arange(rho.shape[1], device=rho.device) < self.count(subspace)[0]
        return torch.cat([ones.to(rho.dtype)[None], rho])

    def correlation_sum(self, subspace: Subspace) -> torch.Tensor:
        """Sum of the canonical correlations, shape (b,)."""
        if ("canonical", subspace) in self._made or ("correlations", subspace) in self._made:
            return self.correlations(subspace).sum(1)
        return self.once(("sum", subspace), lambda: self._each(subspace, singular_sums, pad=False))

    def _each(self, subspace: Subspace, solve: Callable[..., torch.Tensor], *, pad: bool) -> torch.Tensor:
        """Solve in one padded batch where that is cheap, otherwise one by one without padding."""
        skip = int(self.same)
        matrix, count = self.whitened(subspace)[skip:], self.count(subspace)[skip:]
        left_dimension, right_dimensions = self.kept(subspace)
        if not len(matrix):
            self_correlations = (
                torch.arange(min(matrix.shape[1:]), device=matrix.device) < self.count(subspace)[0]
            )
            return self_correlations.double()[None] if pad else self.count(subspace).double()
        if self.flat.device.type != "cpu":
            values = solve(matrix, count)
        elif max(matrix.shape[1:]) <= BATCH_WIDTH:
            values = solve(matrix[:, : max(1, left_dimension), : max(1, *right_dimensions)], count)
        else:
            pair_values = [
                solve(
                    matrix[j : j + 1, : max(1, left_dimension), : max(1, right_dimension)], count[j : j + 1]
                )[0]
                for j, right_dimension in enumerate(right_dimensions[skip:])
            ]
            values = (
                torch.nn.utils.rnn.pad_sequence(pair_values, batch_first=True)
                if pad
                else torch.stack(pair_values)
            )
        if not self.same:
            return values
        return (
            self._with_self(values, subspace)
            if pad
            else torch.cat([self.count(subspace)[:1].double(), values])
        )
