"""How do stacks become tables of values? Groups of layers through the moments, strips through the measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import WorkError
from ..inference.clusters import Clusters
from ..inference.influence import off_cluster_weights
from ..measures.declare import Chosen
from ..moments.bank import Bank
from ..moments.cells import Cells
from ..moments.clustered import (
    ClusterTerms,
    Layout,
    along_weights,
    cluster_scores,
    cluster_terms,
    unit_codes,
)
from ..moments.crossing import Crossing, cross
from ..moments.stack import Stack, dtype_name
from ..moments.strip import Strip, basis
from ..randomness import generator
from .nulls import null_details, null_of
from .plan import Plan, Settings

if TYPE_CHECKING:
    import torch

# What rounding may put a value outside of its range, by precision; more is an error of the program.
ROUNDING = {True: 1e-9, False: 1e-5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """
    Values of one measure for every pair of layers, as the engine leaves them.

    Parameters
    ----------
    values, null_mean, null_sd : ndarray of shape (left, right)
    reasons : ndarray of object, shape (left, right)
        None, or why the cell is undefined.
    kept, rank, lost : tuple of ndarray, or None
        Dimensions compared, ranks, and share of variance left out, of the left and of the right layers;
        None for measures without a subspace.
    details : dict of str to ndarray
    """

    values: np.ndarray
    null_mean: np.ndarray
    null_sd: np.ndarray
    reasons: np.ndarray
    kept: tuple[np.ndarray, ...] | None = None
    rank: tuple[np.ndarray, ...] | None = None
    lost: tuple[np.ndarray, ...] | None = None
    details: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFacts:
    """What is known of each layer of a side: arrays of shape (layers,)."""

    width: np.ndarray
    dead: np.ndarray
    participation: np.ndarray
    top1: np.ndarray
    top3: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """
    Shares of each unit in the debiased norms.

    Parameters
    ----------
    cross : ndarray of shape (left, right, units)
    left, right : ndarray of shape (layers, units)
        Of each layer with itself.
    left_h, right_h : ndarray of shape (layers,)
        The debiased norms themselves.
    """

    cross: np.ndarray
    left: np.ndarray
    right: np.ndarray
    left_h: np.ndarray
    right_h: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything one run over the moments gives."""

    tables: dict[str, Table]
    left: LayerFacts
    right: LayerFacts
    near_tolerance: bool
    scores: Scores | None


class _Layers:
    """The banks of one side, a bank for each run of layers of one width in a group."""

    def __init__(self) -> None:
        self.banks: dict[int, tuple[Bank, int]] = {}
        self.own: dict[int, torch.Tensor] = {}


def run(
    left: Stack,
    right: Stack | None,
    measures: Sequence[Chosen],
    plan: Plan,
    settings: Settings,
    *,
    clusters: Clusters | None = None,
    scores: bool = False,
    seed: int = 0,
) -> Outcome:
    """
    Compute every measure that needs moments only, for every pair of layers.

    Parameters
    ----------
    left : Stack
    right : Stack or None
        None compares the left with itself.
    measures : sequence of Chosen
    plan : Plan
    settings : Settings
    clusters : Clusters, optional
        Rows that belong together; debiasing then leaves out all pairs within a cluster.
    scores : bool
        Whether to read the rows a second time for the influence of each row or cluster.
    seed : int
        For the groups that many rows are summed in.

    Returns
    -------
    Outcome
    """
    return _Run(left, right, measures, plan, settings, clusters, scores, seed).outcome()


class _Run:
    """One run: owns the banks and the tables while they fill."""

    def __init__(
        self,
        left: Stack,
        right: Stack | None,
        measures: Sequence[Chosen],
        plan: Plan,
        settings: Settings,
        clusters: Clusters | None,
        scores: bool,
        seed: int,
    ) -> None:
        self.measures, self.plan, self.settings, self.seed = _vectors_first(measures), plan, settings, seed
        self.clusters, self.symmetric, self.want_scores = clusters, right is None, scores
        if clusters is None and scores:
            clusters = Clusters.singletons(left.rows)
        self.layout: Layout | None = None
        if clusters is not None:
            if not np.array_equal(clusters.order, np.arange(clusters.n)):
                left = left.take(clusters.order)
                right = None if right is None else right.take(clusters.order)
            self.layout = Layout(starts=clusters.starts, sizes=clusters.sizes)
        self.left, self.right = left, left if right is None else right
        self.sides = (_Layers(),) * 2 if right is None else (_Layers(), _Layers())
        shape = (len(self.left), len(self.right))
        # Tables stay on the device until all passes are done: fetching each strip would stall it.
        self.found = {m.label: self._blank() for m in self.measures}
        self.found_details: dict[str, dict[str, torch.Tensor]] = {m.label: {} for m in self.measures}
        self.values: dict[str, np.ndarray] = {}
        self.null_mean = {m.label: np.full(shape, np.nan) for m in self.measures}
        self.null_sd = {m.label: np.full(shape, np.nan) for m in self.measures}
        self.reasons = {m.label: np.full(shape, None, dtype=object) for m in self.measures}
        self.details: dict[str, dict[str, np.ndarray]] = {m.label: {} for m in self.measures}
        self.terms: ClusterTerms | None = None
        self.correction: torch.Tensor | None = None
        if self.layout is not None:
            self._read_clusters(self.layout)
        if self.want_scores:
            units = int(self.units.max()) + 1
            self.cross_scores = np.zeros((*shape, units))
            self.own_scores = tuple(np.full((len(s), units), np.nan) for s in (self.left, self.right))

    def _read_clusters(self, layout: Layout) -> None:
        import torch

        s = self.settings
        stacks = [self.left] if self.symmetric else [self.left, self.right]
        count = sum(len(stack) for stack in stacks)
        self.tile_rows = int(np.clip(2e7 // count**2, 256, self.plan.tile_rows))
        where = {"dtype": s.dtype, "device": s.device, "tile_rows": self.tile_rows}
        self.terms = cluster_terms(stacks, layout, **where)
        codes = np.repeat(np.arange(len(layout.sizes)), layout.sizes)
        u_rows = off_cluster_weights(self.terms.k_rows.cpu().numpy(), codes)
        self.u_rows = torch.as_tensor(u_rows, device=s.device)
        self.correction = self.terms.within + 2 * self.u_rows @ self.terms.k_rows.T
        if self.want_scores:
            self.units = unit_codes(layout, generator(self.seed, "units"))
            self.along = along_weights(stacks, self.terms, self.u_rows, layout, **where)

    def outcome(self) -> Outcome:
        """Run all passes and hand the tables over."""
        total = self.plan.passes * self.left.rows
        self.done = 0
        for g, lefts in enumerate(self.plan.left):
            for h, rights in enumerate(self.plan.right):
                if self.symmetric and h < g:
                    continue
                self._pass(lefts, rights, total)
        for label, table in self.found.items():
            self.values[label] = table.cpu().numpy()
            for name, more in self.found_details[label].items():
                self.details[label][name] = more.cpu().numpy()
        if self.symmetric:
            self._mirror()
        for choice in self.measures:
            self._settle(choice)
        facts = [_facts(side) for side in self.sides]
        return Outcome(
            tables={m.label: self._table(m) for m in self.measures},
            left=facts[0],
            right=facts[1],
            near_tolerance=any(b.near_tolerance for s in self.sides for b, _ in s.banks.values()),
            scores=self._scores() if self.want_scores else None,
        )

    def _pass(self, lefts: tuple[int, ...], rights: tuple[int, ...], total: int) -> None:
        same = self.symmetric and lefts == rights
        left, right = self.left.select(lefts), None if same else self.right.select(rights)
        own = {
            name
            for name, side, layers in (("left", self.sides[0], lefts), ("right", self.sides[1], rights))
            if any(i not in side.banks for i in layers)
        }
        s = self.settings
        crossing = cross(
            left,
            right,
            dtype=s.dtype,
            device=s.device,
            own_sides=frozenset(own),
            progress=self._report(total),
            tile_rows=self.plan.tile_rows,
        )
        correction = self._correction(crossing, lefts, rights, same)
        self._bank(crossing, correction, lefts, rights, same)
        for place, i in enumerate(lefts):
            self._strips(crossing, correction, place, i, rights[crossing.first[place] :])
        if self.want_scores:
            self._second_reading(left, right, crossing, lefts, rights, same)

    def _blank(self) -> torch.Tensor:
        import torch

        shape = (len(self.left), len(self.right))
        return torch.full(shape, float("nan"), dtype=torch.float64, device=self.settings.device)

    def _report(self, total: int) -> Callable[[int], None] | None:
        progress = self.settings.progress
        if progress is None:
            return None

        def report(rows: int) -> None:
            self.done += rows
            progress("moments", self.done, total)

        return report

    def _places(self, lefts: tuple[int, ...], rights: tuple[int, ...], same: bool) -> list[int]:
        """Positions of a pass's layers among all layers, left then right."""
        if same:
            return list(lefts)
        offset = 0 if self.symmetric else len(self.left)
        return [*lefts, *(offset + j for j in rights)]

    def _correction(
        self, crossing: Crossing, lefts: tuple[int, ...], rights: tuple[int, ...], same: bool
    ) -> torch.Tensor:
        """What debiasing takes off, shape (layers, layers) over the layers of the pass."""
        import torch

        n = crossing.n
        if self.clusters is not None and self.correction is not None:
            places = torch.tensor(self._places(lefts, rights, same), device=self.correction.device)
            return self.correction[places][:, places]
        if n < 4:
            return torch.full_like(crossing.products, float("nan"))
        sums = torch.outer(crossing.norms, crossing.norms)
        return n / (n - 2) * crossing.products - sums / ((n - 1) * (n - 2))

    def _bank(
        self,
        crossing: Crossing,
        correction: torch.Tensor,
        lefts: tuple[int, ...],
        rights: tuple[int, ...],
        same: bool,
    ) -> None:
        import torch

        plain = [(self.sides[0], self.left, i) for i in lefts]
        if not same:
            plain += [(self.sides[1], self.right, j) for j in rights]
        fresh = [
            k
            for k, (side, _, layer) in enumerate(plain)
            if layer not in side.banks and crossing.diagonal[k] is not None
        ]
        for run_ in _runs(fresh, [crossing.widths[k] for k in fresh], [id(plain[k][0]) for k in fresh]):
            eps = max(_rounding(plain[k][1].layers[plain[k][2]], self.settings.exact) for k in run_)
            bank = Bank(
                n=crossing.n,
                names=tuple(crossing.names[k] for k in run_),
                mean=torch.stack([crossing.mean[k] for k in run_]),
                scatter=torch.stack([b for k in run_ if (b := crossing.diagonal[k]) is not None]),
                norms=crossing.norms[run_],
                norms2=crossing.products.diagonal()[run_],
                dtype=self.settings.dtype,
                input_eps=eps,
            )
            for row, k in enumerate(run_):
                side, _, layer = plain[k]
                side.banks[layer] = (bank, row)
                side.own[layer] = bank.frob2[row] - correction[k, k]

    def _strips(
        self, crossing: Crossing, correction: torch.Tensor, place: int, i: int, rights: tuple[int, ...]
    ) -> None:
        import torch

        bank, row = self.sides[0].banks[i]
        side = self.sides[1]
        offset = crossing.right[crossing.first[place]]
        begin = 0
        for run_ in _runs(
            list(range(len(rights))),
            [self.right.widths[j] for j in rights],
            [id(side.banks[j][0]) for j in rights],
        ):
            layers = [rights[k] for k in run_]
            other, first = side.banks[layers[0]]
            width = other.width
            columns = slice(first, first + len(layers))
            block = crossing.strips[place][:, begin : begin + len(layers) * width]
            begin += len(layers) * width
            strip = Strip(
                left=bank,
                row=row,
                right=other,
                columns=columns,
                flat=block,
                correction=correction[place, offset + run_[0] : offset + run_[-1] + 1],
                left_self=self.sides[0].own[i],
                right_self=torch.stack([side.own[j] for j in layers]),
                clustered=self.clusters is not None,
                both=self.symmetric,
            )
            for choice in self.measures:
                cells: Cells = choice.declared("compute")(strip, choice.options)
                self._fill(choice, strip, cells, i, layers)

    def _fill(self, choice: Chosen, strip: Strip, cells: Cells, i: int, layers: list[int]) -> None:
        label = choice.label
        columns = slice(layers[0], layers[-1] + 1)
        self.found[label][i, columns] = cells.forward
        self.reasons[label][i, layers] = np.array(cells.reasons or [None] * len(layers), dtype=object)
        for name, values in cells.details.items():
            self.found_details[label].setdefault(name, self._blank())[i, columns] = values
        for name, values in null_details(choice, strip).items():
            table = self.details[label].setdefault(name, np.full(self.reasons[label].shape, np.nan))
            table[i, layers] = values
        forward, backward = null_of(choice, strip)
        self.null_mean[label][i, layers], self.null_sd[label][i, layers] = forward
        if self.symmetric:
            back = cells.forward if cells.backward is None else cells.backward
            self.found[label][columns, i] = back
            self.null_mean[label][layers, i], self.null_sd[label][layers, i] = backward

    def _second_reading(
        self,
        left: Stack,
        right: Stack | None,
        crossing: Crossing,
        lefts: tuple[int, ...],
        rights: tuple[int, ...],
        same: bool,
    ) -> None:
        import torch

        assert self.terms is not None and self.layout is not None
        s = self.settings
        places = self._places(lefts, rights, same)
        at = torch.tensor(places, device=s.device)
        terms = ClusterTerms(
            mean=[self.terms.mean[p] for p in places],
            within=self.terms.within[at][:, at],
            k_rows=self.terms.k_rows[at],
        )
        found, own = cluster_scores(
            left,
            right,
            crossing,
            terms,
            self.u_rows[at],
            [self.along[p][:, at] for p in places],
            self.layout,
            self.units,
            dtype=s.dtype,
            device=s.device,
            tile_rows=self.tile_rows,
        )
        self.cross_scores[np.ix_(lefts, rights)] = found.cpu().numpy()
        shares = own.cpu().numpy()
        for k, i in enumerate(lefts):
            if np.isfinite(shares[k]).all():
                self.own_scores[0][i] = shares[k]
        for k, j in enumerate(rights):
            row = shares[k if same else len(lefts) + k]
            if np.isfinite(row).all():
                self.own_scores[1][j] = row

    def _mirror(self) -> None:
        """Copy what a symmetric map has above the diagonal to below it."""
        i, j = np.tril_indices(len(self.left), -1)
        for choice in self.measures:
            self.reasons[choice.label][i, j] = self.reasons[choice.label][j, i]
            for table in self.details[choice.label].values():
                table[i, j] = table[j, i]
        if self.want_scores:
            self.cross_scores[i, j] = self.cross_scores[j, i]

    def _settle(self, choice: Chosen) -> None:
        """Blank undefined cells, and bring values that rounding put outside of the range back to it."""
        label = choice.label
        values, reasons = self.values[label], self.reasons[label]
        undefined = np.array([[r is not None for r in row] for row in reasons])
        values[undefined] = np.nan
        bad = ~undefined & ~np.isfinite(values)
        reasons[bad] = "the value is not a finite number"
        low, high = choice.declared("range")
        slack = ROUNDING[self.settings.exact]
        defined = values[~undefined & ~bad]
        # Debiased values have no such bounds; in small samples they may lie beyond 1.
        if choice.measure.interval != "influence" and len(defined):
            if defined.min() < low - slack or defined.max() > high + slack:
                raise WorkError(
                    f"{label} must lie between {low:g} and {high:g}, but came out between "
                    f"{defined.min():.6g} and {defined.max():.6g}; please report this with the input."
                )
            np.clip(values, low, high, out=values)

    def _scores(self) -> Scores:
        left, right = (
            np.array([float(side.own[i]) for i in range(len(stack))])
            for side, stack in zip(self.sides, (self.left, self.right), strict=True)
        )
        return Scores(
            cross=self.cross_scores,
            left=self.own_scores[0],
            right=self.own_scores[1],
            left_h=left,
            right_h=right,
        )

    def _table(self, choice: Chosen) -> Table:
        label = choice.label
        subspace = choice.declared("subspace")
        known: dict[str, tuple[np.ndarray, ...]] = {}
        if subspace is not None:
            name = subspace(choice.options)
            for what in ("kept", "rank", "lost"):
                known[what] = tuple(
                    np.array([getattr(basis(bank, name), what)[row] for bank, row in _in_order(side)])
                    for side in self.sides
                )
        return Table(
            values=self.values[label],
            null_mean=self.null_mean[label],
            null_sd=self.null_sd[label],
            reasons=self.reasons[label],
            details=self.details[label],
            **known,
        )


def _in_order(side: _Layers) -> list[tuple[Bank, int]]:
    return [side.banks[i] for i in sorted(side.banks)]


def _facts(side: _Layers) -> LayerFacts:
    found = _in_order(side)
    return LayerFacts(
        width=np.array([bank.width for bank, _ in found]),
        dead=np.array([int((~bank.alive[row]).sum()) for bank, row in found]),
        participation=np.array([float(bank.participation[row]) for bank, row in found]),
        top1=np.array([float(bank.variance_share(1)[row]) for bank, row in found]),
        top3=np.array([float(bank.variance_share(3)[row]) for bank, row in found]),
    )


def _vectors_first(measures: Sequence[Chosen]) -> list[Chosen]:
    """PWCCA's eigenvectors bring the correlations that CCA and SVCCA need: do it before them."""
    return sorted(measures, key=lambda m: m.measure.name != "pwcca")


def _runs(items: list[int], widths: list[int], owners: list[int]) -> list[list[int]]:
    """Cut a list into stretches of one width and one owner."""
    runs: list[list[int]] = []
    previous: tuple[int, int] | None = None
    for item, width, owner in zip(items, widths, owners, strict=True):
        if previous != (width, owner):
            runs.append([])
        runs[-1].append(item)
        previous = (width, owner)
    return runs


def _rounding(layer: Any, exact: bool) -> float:
    """Relative rounding of a layer's numbers as the products see them."""
    if exact and dtype_name(layer) == "float64":
        return float(np.finfo(np.float64).eps)
    return float(np.finfo(np.float32).eps)
