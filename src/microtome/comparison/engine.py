"""Moment engine: computes the moments of groups of layers, and the measures of strips of moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..inference.clusters import Clusters
from ..measures.declare import Chosen
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
from ..moments.stack import Stack
from ..moments.strip import Strip, basis
from ..randomness import generator
from .layers import Layers, facts_of, in_order, make_banks, runs, vectors_first
from .nulls import null_details, null_of
from .plan import LEAST_TILE, EnginePlan, second_share
from .tables import KINDS, NOT_FINITE, ROUNDING, Outcome, Scores, Table, settle

if TYPE_CHECKING:
    import torch

    from .request import Request


def run(
    request: Request,
    plan: EnginePlan,
    *,
    scores: bool = False,
    source: Callable[..., Crossing] = cross,
    spectra: bool = False,
) -> Outcome:
    """
    Compute every measure that needs moments only, for every pair of layers.

    Parameters
    ----------
    request : Request
        With clusters, debiasing leaves out all pairs within a cluster; its seed assigns rows to units, where
        there are too many to score one by one.
    plan : EnginePlan
    scores : bool
        Whether to read the rows a second time for the influence of each row or cluster.
    source : callable
        Source of the moments, with the signature of `cross`.
    spectra : bool
        Whether the layer statistics include the spectra.

    Returns
    -------
    Outcome
    """
    return _Run(request, plan, scores, source).outcome(spectra)


class _Run:
    """State of one run: its banks, and the tables under construction."""

    def __init__(
        self, request: Request, plan: EnginePlan, scores: bool, source: Callable[..., Crossing]
    ) -> None:
        left_stack, right_stack, clusters = request.left, request.right, request.clusters
        self.source, self.plan = source, plan
        self.measures = vectors_first(request.measures)
        self.settings, self.seed = request.settings, request.seed
        self.clusters, self.symmetric, self.want_scores = clusters, right_stack is None, scores
        if clusters is None and scores:
            clusters = Clusters.singletons(left_stack.rows)
        self.layout: Layout | None = None
        if clusters is not None:
            if not np.array_equal(clusters.order, np.arange(clusters.n)):
                left_stack = left_stack.take(clusters.order)
                right_stack = None if right_stack is None else right_stack.take(clusters.order)
            self.layout = Layout(starts=clusters.starts, sizes=clusters.sizes)
        self.left, self.right = left_stack, left_stack if right_stack is None else right_stack
        self.sides = (Layers(),) * 2 if right_stack is None else (Layers(), Layers())
        shape = (len(self.left), len(self.right))
        # Tables stay on the device until all passes are done: copying each strip would stall it.
        self.found = {m.label: self._blank() for m in self.measures}
        self.found_details: dict[str, dict[str, torch.Tensor]] = {m.label: {} for m in self.measures}
        self.values: dict[str, np.ndarray] = {}
        self.null_mean = {m.label: np.full(shape, np.nan) for m in self.measures}
        self.null_sd = {m.label: np.full(shape, np.nan) for m in self.measures}
        self.reasons = {m.label: np.full(shape, None, dtype=object) for m in self.measures}
        self.details: dict[str, dict[str, np.ndarray]] = {m.label: {} for m in self.measures}
        self.terms: ClusterTerms | None = None
        self.correction: torch.Tensor | None = None
        debiased = any(m.measure.interval == "debiased" for m in self.measures)
        if self.layout is not None and (scores or debiased):
            self._read_clusters(self.layout)
        if self.want_scores:
            units = int(self.units.max()) + 1
            self.cross_scores = {kind: np.zeros((*shape, units)) for kind in KINDS}
            self.own_scores = {
                kind: tuple(np.full((len(s), units), np.nan) for s in (self.left, self.right))
                for kind in KINDS
            }

    def _read_clusters(self, layout: Layout) -> None:
        if 2 * layout.sizes.max() >= layout.n:
            # Too few pairs across clusters remain for debiasing; the measure reports it.
            return
        s = self.settings
        stacks = [self.left] if self.symmetric else [self.left, self.right]
        count = sum(len(stack) for stack in stacks)
        share = second_share(count, layout.n, len(layout.sizes), s.memory)
        tile_rows = int(np.clip(share.cells // count**2, LEAST_TILE, self.plan.tile_rows))
        self.where = {"dtype": s.dtype, "device": s.device}
        self.where |= {"tile_rows": tile_rows, "products": share.products}
        self.terms = cluster_terms(stacks, layout, held=share.held, **self.where)
        self.correction = self.terms.within + 2 * self.terms.weights.uk
        if self.want_scores:
            self.units = unit_codes(layout, generator(self.seed, "units"), share.units)
            self.along = along_weights(stacks, self.terms, layout, **self.where)

    def outcome(self, spectra: bool) -> Outcome:
        """Run all passes and return the tables."""
        groups = len(self.plan.left)
        passes = groups * (groups + 1) // 2 if self.symmetric else groups * len(self.plan.right)
        total = passes * self.left.rows
        self.done = 0
        for g, lefts in enumerate(self.plan.left):
            for h, rights in enumerate(self.plan.right):
                if self.symmetric and h < g:
                    continue
                self._pass(lefts, rights, total)
        for label, table in self.found.items():
            self.values[label] = table.cpu().numpy()
            for name, detail in self.found_details[label].items():
                self.details[label][name] = detail.cpu().numpy()
        if self.symmetric:
            self._mirror()
        for choice in self.measures:
            self._settle(choice)
        facts = [facts_of(side, spectra=spectra) for side in dict.fromkeys(self.sides)]
        return Outcome(
            tables={m.label: self._table(m) for m in self.measures},
            left=facts[0],
            right=facts[-1],
            near_tolerance=any(b.near_tolerance for s in self.sides for b, _ in s.banks.values()),
            scores={kind: self._scores(kind) for kind in KINDS} if self.want_scores else {},
        )

    def _pass(self, lefts: tuple[int, ...], rights: tuple[int, ...], total: int) -> None:
        same = self.symmetric and lefts == rights
        left_group, right_group = self.left.select(lefts), None if same else self.right.select(rights)
        own_sides = {
            name
            for name, side, layers in (("left", self.sides[0], lefts), ("right", self.sides[1], rights))
            if any(i not in side.banks for i in layers)
        }
        s = self.settings
        crossing = self.source(
            left_group,
            right_group,
            dtype=s.dtype,
            device=s.device,
            own_sides=frozenset(own_sides),
            progress=self._report(total),
            tile_rows=self.plan.tile_rows,
        )
        correction = self._correction(crossing, lefts, rights, same)
        pass_layers = [(self.sides[0], self.left, i) for i in lefts]
        if not same:
            pass_layers += [(self.sides[1], self.right, j) for j in rights]
        make_banks(crossing, correction, pass_layers, s)
        for position, i in enumerate(lefts):
            self._strips(crossing, correction, position, i, rights[crossing.first[position] :])
        if self.want_scores:
            self._second_reading(left_group, right_group, crossing, lefts, rights, same)

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
        """Debiasing correction, shape (layers, layers) over the layers of the pass."""
        import torch

        n = crossing.n
        if self.clusters is not None and self.correction is None:
            return torch.full_like(crossing.products, float("nan"))
        if self.clusters is not None and self.correction is not None:
            positions = torch.tensor(self._places(lefts, rights, same), device=self.correction.device)
            return self.correction[positions][:, positions]
        if n < 4:
            return torch.full_like(crossing.products, float("nan"))
        sums = torch.outer(crossing.norms, crossing.norms)
        return n / (n - 2) * crossing.products - sums / ((n - 1) * (n - 2))

    def _strips(
        self, crossing: Crossing, correction: torch.Tensor, position: int, i: int, rights: tuple[int, ...]
    ) -> None:
        import torch

        bank, row = self.sides[0].banks[i]
        side = self.sides[1]
        offset = crossing.right[crossing.first[position]]
        begin = 0
        for run_ in runs(
            list(range(len(rights))),
            [self.right.widths[j] for j in rights],
            [id(side.banks[j][0]) for j in rights],
        ):
            layers = [rights[k] for k in run_]
            right_bank, first = side.banks[layers[0]]
            width = right_bank.width
            columns = slice(first, first + len(layers))
            block = crossing.strips[position][:, begin : begin + len(layers) * width]
            begin += len(layers) * width
            strip = Strip(
                left=bank,
                row=row,
                right=right_bank,
                columns=columns,
                flat=block,
                correction=correction[position, offset + run_[0] : offset + run_[-1] + 1],
                left_self=self.sides[0].own[i],
                right_self=torch.stack([side.own[j] for j in layers]),
                both=self.symmetric,
                same=self.symmetric and layers[0] == i,
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
        left_group: Stack,
        right_group: Stack | None,
        crossing: Crossing,
        lefts: tuple[int, ...],
        rights: tuple[int, ...],
        same: bool,
    ) -> None:
        import torch

        assert self.terms is not None
        assert self.layout is not None
        positions = self._places(lefts, rights, same)
        index = torch.tensor(positions, device=self.settings.device)
        unit_scores = cluster_scores(
            left_group,
            right_group,
            crossing,
            self.terms.select(positions),
            [self.along[p][:, index] for p in positions],
            self.layout,
            self.units,
            **self.where,
        )
        for kind, cross_, self_scores in (
            ("debiased", unit_scores.cross, unit_scores.own),
            ("biased", unit_scores.biased_cross, unit_scores.biased_own),
        ):
            self.cross_scores[kind][np.ix_(lefts, rights)] = cross_.cpu().numpy()
            shares = self_scores.cpu().numpy()
            for side, layers, offset in ((0, lefts, 0), (1, rights, 0 if same else len(lefts))):
                for k, layer in enumerate(layers):
                    if np.isfinite(shares[offset + k]).all():
                        self.own_scores[kind][side][layer] = shares[offset + k]

    def _mirror(self) -> None:
        """Copy the upper triangle of a symmetric map to the lower one."""
        i, j = np.tril_indices(len(self.left), -1)
        for choice in self.measures:
            self.reasons[choice.label][i, j] = self.reasons[choice.label][j, i]
            for table in self.details[choice.label].values():
                table[i, j] = table[j, i]
        if self.want_scores:
            for table in self.cross_scores.values():
                table[i, j] = table[j, i]

    def _settle(self, choice: Chosen) -> None:
        """Set undefined cells to NaN, and clip values that rounding put out of range."""
        label = choice.label
        values, reasons = self.values[label], self.reasons[label]
        undefined = np.array([[r is not None for r in row] for row in reasons])
        values[undefined] = np.nan
        bad = ~undefined & ~np.isfinite(values)
        reasons[bad] = NOT_FINITE
        values[bad] = np.nan
        settle(values, choice, ROUNDING[self.settings.exact])

    def _scores(self, kind: str) -> Scores:
        def norm(side: Layers, layer: int) -> float:
            bank, row = side.banks[layer]
            return float(side.own[layer]) if kind == "debiased" else bank.known["frob2"][row]

        left_norms, right_norms = (
            np.array([norm(side, i) for i in range(len(stack))])
            for side, stack in zip(self.sides, (self.left, self.right), strict=True)
        )
        return Scores(
            cross=self.cross_scores[kind],
            left=self.own_scores[kind][0],
            right=self.own_scores[kind][1],
            left_h=left_norms,
            right_h=right_norms,
        )

    def _table(self, choice: Chosen) -> Table:
        label = choice.label
        subspace = choice.declared("subspace")
        subspace_facts: dict[str, tuple[np.ndarray, ...]] = {}
        if subspace is not None:
            name = subspace(choice.options)
            for what in ("kept", "rank", "lost"):
                subspace_facts[what] = tuple(
                    np.array([getattr(basis(bank, name), what)[row] for bank, row in in_order(side)])
                    for side in self.sides
                )
        return Table(
            values=self.values[label],
            null_mean=self.null_mean[label],
            null_sd=self.null_sd[label],
            reasons=self.reasons[label],
            details=self.details[label],
            **subspace_facts,
        )
