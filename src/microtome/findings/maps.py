"""Similarity maps: the values of a measure for every pair of layers, with intervals and nulls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, MicrotomeError, must
from ..inference.estimate import Estimate, Interval, Sides, coverage, over
from ..measures.table import chosen
from .cells import arrow_schema, cell_records, find_place
from .paired import Resamples, paired_band

if TYPE_CHECKING:
    import pandas
    import pyarrow


Cell = tuple[int | str, int | str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Map:
    """
    One measure between every left and every right layer.

    Parameters
    ----------
    measure : str
        Name with the options that differ from the defaults.
    left, right : tuple of str
        Names of the layers.
    values : ndarray of shape (left, right)
        NaN where undefined.
    reasons : tuple of tuple of (str or None)
        Why a cell is undefined.
    n : int
        Rows.
    estimator : str
        What exactly was computed, in words.
    null_mean : ndarray of shape (left, right)
        Expected value for unrelated rows; NaN where no formula is known and nothing was permuted.
    z, p : ndarray of shape (left, right)
        Distance from it in standard deviations, and its one-sided p-value; NaN where they are not valid
        (`null_note` gives the reason).
    low, high : ndarray of shape (left, right), or None
        The interval, where one was requested.
    level, method, unit, target
        Of the interval.
    p_map : ndarray of shape (left, right), or None
        Familywise p-value: probability that unrelated sides give any cell as extreme; with permutations only.
    rank, kept, lost : Sides
        Arrays of shape (layers,): rank, dimensions compared, share of variance left out.
    layers : Sides
        For each side a mapping of arrays of shape (layers,): width, dead neurons, participation ratio,
        share of variance of the largest one and three neurons, and whether that flags the layer. On request
        also "spectrum", of shape (layers, directions): see `similarity_matrix`.
    precision : str
        "fast" or "exact", and why it was switched.
    warnings : tuple of str
    details : mapping of str to ndarray
        Further values per cell, such as the biased one.
    resamples : Resamples or None
    symmetric : bool
        Whether left and right are the same stack.
    provenance : mapping
        Versions, seed, device, digests.
    """

    measure: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    values: np.ndarray
    reasons: tuple[tuple[str | None, ...], ...]
    n: int
    estimator: str
    null_mean: np.ndarray
    z: np.ndarray
    p: np.ndarray
    null_note: str = ""
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    level: float | None = None
    method: str | None = None
    unit: str = "row"
    target: str | None = None
    p_map: np.ndarray | None = None
    rank: Sides = Sides(None, None)
    kept: Sides = Sides(None, None)
    lost: Sides = Sides(None, None)
    layers: Sides = Sides(None, None)
    precision: str = "fast"
    warnings: tuple[str, ...] = ()
    details: Mapping[str, np.ndarray] = field(default_factory=lambda: MappingProxyType({}))
    resamples: Resamples | None = None
    symmetric: bool = False
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of left and right layers."""
        return len(self.left), len(self.right)

    @property
    def title(self) -> str:
        """Title of the measure in figures."""
        try:
            return str(chosen(self.measure).declared("title"))
        except MicrotomeError:
            # A user-defined measure is in no table.
            return self.measure

    def index(self, cell: Cell) -> tuple[int, int]:
        """Find the indices of a cell by numbers or by names of layers."""
        if not isinstance(cell, tuple) or len(cell) != 2:
            raise must("a cell", "a left and a right layer", cell)
        return find_place("left", self.left, cell[0]), find_place("right", self.right, cell[1])

    def __getitem__(self, cell: Cell) -> Estimate:
        return self.cell(*self.index(cell))

    def at(
        self, left_model: str, left_layer: int | str, right_model: str, right_layer: int | str
    ) -> Estimate:
        """
        Look up a cell by the models and the numbers of their layers: `at("base", 3, "tuned", 7)`.

        Layer 0 is the embedding output, and "norm" the last state after a final norm.
        """
        return self[f"{left_model}/{left_layer}", f"{right_model}/{right_layer}"]

    def cell(self, i: int, j: int) -> Estimate:
        """Return the cell at two indices of `values` with its interval and null."""
        interval = None
        if self.low is not None and self.high is not None:
            interval = Interval(
                low=float(self.low[i, j]),
                high=float(self.high[i, j]),
                level=self.level or 0.95,
                method=self.method or "",
                unit=self.unit,
                target=self.target or "",
            )

        def pick(sides: Sides) -> Sides:
            return sides if sides.left is None else Sides(int(sides.left[i]), int(sides.right[j]))

        return Estimate(
            value=float(self.values[i, j]),
            measure=self.measure,
            estimator=self.estimator,
            n=self.n,
            interval=interval,
            null_mean=float(self.null_mean[i, j]),
            z=float(self.z[i, j]),
            p=float(self.p[i, j]),
            rank=pick(self.rank),
            kept=pick(self.kept),
            reason=self.reasons[i][j],
            warnings=self.warnings,
            details=MappingProxyType({name: float(table[i, j]) for name, table in self.details.items()}),
        )

    def difference(self, cell: Cell, other: Cell, *, of: Map | None = None) -> Estimate:
        """
        Compare two cells that were read from the same rows, with a paired interval.

        Parameters
        ----------
        cell, other : pair
            Left and right layer, by number or by name such as "tuned/7".
        of : Map, optional
            The map that `other` is in; this one when absent.

        Returns
        -------
        Estimate
            Of the value of `cell` minus the value of `other`; `z` is its distance from 0 in standard
            errors, and `p` its two-sided p-value.
        """
        second = self if of is None else of
        i, j = self.index(cell)
        k, m = second.index(other)
        band = paired_band(self, (i, j), second, (k, m))
        names = f"({self.left[i]}, {self.right[j]}) - ({second.left[k]}, {second.right[m]})"
        value = float(self.values[i, j] - second.values[k, m])
        interval = band.at()
        reason = self.reasons[i][j] or second.reasons[k][m]
        return Estimate(
            value=value,
            measure=f"{self.measure} {names}",
            estimator=f"difference of two cells: {self.estimator}",
            n=self.n,
            interval=interval,
            z=float(band.z),
            p=float(band.p),
            reason=reason,
        )

    def minus(self, other: Map) -> Map:
        """Subtract a map of the same shape and rows, cell by cell, with paired intervals."""
        if self.shape != other.shape:
            raise must("the other map", f"of the shape {self.shape}", other.shape)
        band = paired_band(self, ..., other, ...)
        blank = np.full(self.shape, np.nan)
        return replace(
            self,
            values=self.values - other.values,
            estimator=f"difference of two maps: {self.estimator}; {other.estimator}",
            reasons=tuple(
                tuple(a or b for a, b in zip(row, other_row, strict=True))
                for row, other_row in zip(self.reasons, other.reasons, strict=True)
            ),
            null_mean=blank,
            z=blank,
            p=blank,
            null_note="a difference has no null of its own here",
            low=band.low,
            high=band.high,
            level=band.level,
            method=band.method,
            unit=band.unit,
            target=band.target,
            p_map=None,
            details=MappingProxyType({}),
            resamples=None,
        )

    def rescaled(
        self, *, floor: Map | np.ndarray | float | None = None, ceiling: Map | np.ndarray | float = 1.0
    ) -> np.ndarray:
        """
        Rescale values linearly from a floor (0) to a ceiling (1).

        Parameters
        ----------
        floor : Map, array or float, optional
            Value of unrelated layers: `null_mean` when absent, or the map of a randomly initialized copy.
        ceiling : Map, array or float
            Value of the best possible agreement, such as the map of two seeds.

        Returns
        -------
        ndarray of shape (left, right)
            (value - floor) / (ceiling - floor); NaN where the ceiling does not lie above the floor.
        """
        low = self.null_mean if floor is None else _array(floor)
        if floor is None and not np.isfinite(low[np.isfinite(self.values)]).all():
            raise InputError(
                f"{self.measure} must be given a floor, since no formula gives what unrelated rows would "
                "have; ask for permutations, or pass the map of a random baseline."
            )
        high = _array(ceiling)
        room = np.broadcast_to(high - low, self.shape)
        return np.where(room > 0, (self.values - low) / np.where(room > 0, room, 1.0), np.nan)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the map with matplotlib; see `microtome.figures.heatmap.draw`."""
        from importlib import import_module

        # `figures` is a higher layer than `findings`, so it is imported only on request.
        return import_module("microtome.figures.heatmap").draw(self, ax, **options)

    def rows(self) -> list[dict[str, Any]]:
        """One record per cell: measure, left, right, value, interval and null."""
        return cell_records(self)

    def to_arrow(self) -> pyarrow.Table:
        """The records as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows(), schema=arrow_schema())

    def to_pandas(self) -> pandas.DataFrame:
        """The records as a data frame (needs pandas)."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise InputError("to_pandas must find pandas installed; try `pip install pandas`.") from error
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        rows, columns = self.shape
        doubt = ""
        if self.low is not None:
            doubt = f", {coverage(self.level or 0)} intervals {over(self.unit)} by {self.method}"
        return f"<Map {self.measure}: {rows} x {columns} layers, n = {self.n}{doubt}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.right)
        body = "".join(
            f"<tr><th>{escape(name)}</th>"
            + "".join(
                f"<td>{v:.3f}</td>" if np.isfinite(v) else f"<td title='{escape(str(r), quote=True)}'>–</td>"
                for v, r in zip(values, reasons, strict=True)
            )
            + "</tr>"
            for name, values, reasons in zip(self.left, self.values, self.reasons, strict=True)
        )
        return f"<table><caption>{escape(repr(self))}</caption><tr><th></th>{head}</tr>{body}</table>"


def _array(value: Map | np.ndarray | float) -> np.ndarray:
    return value.values if isinstance(value, Map) else np.asarray(value, dtype=np.float64)
