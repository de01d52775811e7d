"""Moment engine: computes the moments of groups of layers, and the measures of strips of moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from ..inference.estimate import Sides
from ..lazy import torch
from ..measures.declare import Chosen
from ..moments.bank import Bank
from ..moments.crossing import Crossing, cross
from ..moments.stack import Stack, rounding
from ..moments.strip import Cells, Debiasing, Strip, basis
from .nulls import null_details, null_of
from .tables import AllPairs, Scores, Table, facts_of, settle
from .units import in_cluster_order, unit_reading, whitened_rows

if TYPE_CHECKING:
    from .request import Request


def run(
    request: Request,
    *,
    scores: bool = False,
    source: Callable[..., Crossing] = cross,
    spectra: bool = False,
) -> AllPairs:
    """
    Compute every measure that needs moments only, for every pair of layers.

    Parameters
    ----------
    request : Request
        With clusters, debiasing leaves out all pairs within a cluster; its seed assigns rows to units, where
        there are too many to score one by one.
    scores : bool
        Whether to read the rows a second time for the influence of each row or cluster.
    source : callable
        Source of the moments, with the signature of `cross`.
    spectra : bool
        Whether the layer statistics include the spectra.

    Returns
    -------
    AllPairs
    """
    return _Run(request, scores, source).outcome(spectra)


class _LayerSide:
    """
    The banks of one side, and the debiased norm of each layer's own scatter matrix.

    A bank holds a run of layers of one width; `banks[layer]` is the bank and the layer's index in it.
    """

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.banks: dict[int, tuple[Bank, int]] = {}
        self.own: dict[int, torch.Tensor] = {}

    def in_order(self) -> list[tuple[Bank, int]]:
        """Bank and index of every layer, in the order of the stack."""
        return [self.banks[i] for i in sorted(self.banks)]

    def norms(self, kind: str) -> np.ndarray:
        """Squared norm of every layer's own scatter matrix: debiased or not."""
        if kind == "debiased":
            return np.array([float(self.own[i]) for i in sorted(self.own)])
        return np.array([bank.known["frob2"][row] for bank, row in self.in_order()])


class _Run:
    """State of one run: the banks of both sides, and the tables under construction."""

    def __init__(self, request: Request, scores: bool, source: Callable[..., Crossing]) -> None:
        self.request, self.plan, self.source = request, request.plan, source
        self.symmetric = request.right is None
        # The eigenvectors of PWCCA give the correlations of CCA and SVCCA, so it comes first.
        self.measures = sorted(request.measures, key=lambda choice: choice.measure.name != "pwcca")
        stacks = in_cluster_order(request)
        sides = [_LayerSide(stack) for stack in stacks]
        self.left, self.right = sides[0], sides[-1]
        self.shape = (len(stacks[0]), len(stacks[-1]))
        self.tables = {choice.label: Table.blank(self.shape) for choice in self.measures}
        # Values stay on the device until all passes are done: copying each strip would stall it.
        self.tensors: dict[str, dict[str, torch.Tensor]] = {label: {} for label in self.tables}
        self.rows_done = 0
        influences = [m for m in self.measures if scores and m.measure.influence is not None]
        self.whitened = whitened_rows(request) if influences else None
        self.influences = {
            m.label: np.zeros((*self.shape, self.whitened.units)) for m in influences if self.whitened
        }
        self.reading = unit_reading(request, stacks, self.plan.tile_rows, scores=scores)

    def outcome(self, spectra: bool) -> AllPairs:
        """Run all passes and return the tables."""
        groups = len(self.plan.left)
        passes = groups * (groups + 1) // 2 if self.symmetric else groups * len(self.plan.right)
        for g, lefts in enumerate(self.plan.left):
            for rights in self.plan.right[g if self.symmetric else 0 :]:
                self._pass(lefts, rights, passes * self.request.n)
        sides = list(dict.fromkeys((self.left, self.right)))
        facts = [facts_of(side.in_order(), spectra=spectra) for side in sides]
        scores = {} if self.reading is None else self.reading.scores
        return AllPairs(
            tables={choice.label: self._table(choice) for choice in self.measures},
            left=facts[0],
            right=facts[-1],
            near_tolerance=any(bank.near_tolerance for side in sides for bank, _ in side.in_order()),
            scores={kind: self._finished(kind, table) for kind, table in scores.items()},
            influences=self.influences,
        )

    def _pass(self, lefts: tuple[int, ...], rights: tuple[int, ...], total: int) -> None:
        left, right = self.left, self.right
        same = self.symmetric and lefts == rights
        stacks = [left.stack.select(lefts), *([] if same else [right.stack.select(rights)])]
        sides = (("left", left, lefts), ("right", right, rights))
        crossing = self.source(
            stacks[0],
            None if same else stacks[1],
            dtype=self.request.dtype,
            device=self.request.device,
            own_sides=frozenset(name for name, side, layers in sides if not side.banks.keys() >= set(layers)),
            progress=self._report(total),
            tile_rows=self.plan.tile_rows,
        )
        offset = 0 if self.symmetric else len(left.stack)
        places = [*lefts, *([] if same else (offset + j for j in rights))]
        correction = self._correction(crossing, places)
        known = [(left, i) for i in lefts] + [(right, j) for j in rights if not same]
        self._make_banks(crossing, correction, known)
        for position, i in enumerate(lefts):
            self._strips(crossing, correction, position, i, rights[crossing.first[position] :])
        if self.reading is not None and self.reading.scores:
            self.reading.add(stacks, crossing, places, lefts, rights)

    def _make_banks(
        self, crossing: Crossing, correction: torch.Tensor, known: Sequence[tuple[_LayerSide, int]]
    ) -> None:
        """Create banks for the layers of a pass that occur for the first time."""
        fresh = [
            k
            for k, (side, layer) in enumerate(known)
            if layer not in side.banks and crossing.diagonal[k] is not None
        ]
        for _, run_ in groupby(fresh, key=lambda k: (crossing.widths[k], id(known[k][0]))):
            members = list(run_)
            bank = Bank(
                n=crossing.n,
                names=tuple(crossing.names[k] for k in members),
                mean=torch.stack([crossing.mean[k] for k in members]),
                scatter=torch.stack([b for k in members if (b := crossing.diagonal[k]) is not None]),
                norms2=crossing.products.diagonal()[members],
                dtype=self.request.dtype,
                input_eps=max(rounding(known[k][0].stack.layers[known[k][1]]) for k in members),
            )
            for row, k in enumerate(members):
                side, layer = known[k]
                side.banks[layer] = (bank, row)
                side.own[layer] = bank.frob2[row] - correction[k, k]

    def _blank(self) -> torch.Tensor:
        return torch.full(self.shape, float("nan"), dtype=torch.float64, device=self.request.device)

    def _report(self, total: int) -> Callable[[int], None] | None:
        progress = self.request.progress
        if progress is None:
            return None

        def report(rows: int) -> None:
            self.rows_done += rows
            progress("moments", self.rows_done, total)

        return report

    def _correction(self, crossing: Crossing, places: Sequence[int]) -> torch.Tensor:
        """Debiasing correction, shape (layers, layers) over the layers of the pass."""
        n, clustered = crossing.n, self.request.clusters is not None
        if clustered and self.reading is not None:
            index = torch.tensor(places, device=self.reading.correction.device)
            return self.reading.correction[index][:, index]
        if clustered or n < 4:
            return torch.full_like(crossing.products, float("nan"))
        sums = torch.outer(crossing.norms, crossing.norms)
        return n / (n - 2) * crossing.products - sums / ((n - 1) * (n - 2))

    def _strips(
        self, crossing: Crossing, correction: torch.Tensor, position: int, i: int, rights: tuple[int, ...]
    ) -> None:
        bank, row = self.left.banks[i]
        side = self.right
        offset = crossing.right[crossing.first[position]]
        begin = 0
        for _, run_ in groupby(enumerate(rights), key=lambda pair: id(side.banks[pair[1]][0])):
            places, layers = zip(*run_, strict=True)
            right_bank, first = side.banks[layers[0]]
            width = right_bank.width
            block = crossing.strips[position][:, begin : begin + len(layers) * width]
            begin += len(layers) * width
            strip = Strip(
                left=bank,
                row=row,
                right=right_bank,
                columns=slice(first, first + len(layers)),
                flat=block,
                debiasing=Debiasing(
                    correction=correction[position, offset + places[0] : offset + places[-1] + 1],
                    left=self.left.own[i],
                    right=torch.stack([side.own[j] for j in layers]),
                ),
                both=self.symmetric,
                same=self.symmetric and layers[0] == i,
            )
            for choice in self.measures:
                cells: Cells = choice.declared("compute")(strip, choice.options)
                self._fill(choice, strip, cells, i, slice(layers[0], layers[-1] + 1))
            for choice in self.measures:
                if choice.label in self.influences:
                    self._influence(choice, strip, i, layers[int(strip.same) :])

    def _influence(self, choice: Chosen, strip: Strip, i: int, layers: tuple[int, ...]) -> None:
        """Compute what each unit adds to the cells of a strip; nothing to that of a layer with itself."""
        if not layers or self.whitened is None or choice.measure.influence is None:
            return
        forms = choice.measure.influence(strip, choice.options)
        subspace, columns = choice.declared("subspace")(choice.options), slice(layers[0], layers[-1] + 1)
        sums = self.whitened.contributions(strip, subspace, forms, i, layers)
        self.influences[choice.label][i, columns] = sums[0]
        if self.symmetric:
            self.influences[choice.label][columns, i] = sums[-1]

    def _fill(self, choice: Chosen, strip: Strip, cells: Cells, i: int, columns: slice) -> None:
        table, tensors = self.tables[choice.label], self.tensors[choice.label]
        for name, values in {"values": cells.forward, **cells.details}.items():
            tensors.setdefault(name, self._blank())[i, columns] = values
        table.reasons[i, columns] = np.array(cells.reasons or [None] * len(strip), dtype=object)
        for name, values in null_details(choice, strip).items():
            table.details.setdefault(name, np.full(self.shape, np.nan))[i, columns] = values
        null = null_of(choice, strip)
        table.null_mean[i, columns], table.null_sd[i, columns] = null.forward, null.sd
        if self.symmetric:
            tensors["values"][columns, i] = cells.forward if cells.backward is None else cells.backward
            table.null_mean[columns, i], table.null_sd[columns, i] = null.backward, null.sd

    def _table(self, choice: Chosen) -> Table:
        """The table of a measure, whole and on the processor."""
        arrays = {name: values.cpu().numpy() for name, values in self.tensors[choice.label].items()}
        subspace = choice.declared("subspace")
        subspace_facts: dict[str, Sides] = {}
        if subspace is not None:
            name = subspace(choice.options)
            for what in ("kept", "rank", "lost"):
                subspace_facts[what] = Sides._make(
                    np.array([getattr(basis(bank, name), what)[row] for bank, row in side.in_order()])
                    for side in (self.left, self.right)
                )
        table = replace(self.tables[choice.label], values=arrays.pop("values"), **subspace_facts)
        table.details.update(arrays)
        if self.symmetric:
            _mirror(table.reasons, *table.details.values())
        settle(table, choice, exact=self.request.exact)
        return table

    def _finished(self, kind: str, scores: Scores) -> Scores:
        """The scores of all pairs of layers, with the norms that they add up to."""
        if self.symmetric:
            _mirror(scores.cross)
        return replace(scores, left_h=self.left.norms(kind), right_h=self.right.norms(kind))


def _mirror(*tables: np.ndarray) -> None:
    """Copy the upper triangle of symmetric tables to the lower one."""
    i, j = np.tril_indices(len(tables[0]), -1)
    for table in tables:
        table[i, j] = table[j, i]
