"""Readings of rows in clusters: sums within clusters, and the contribution of each cluster to the norms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..inference.resampling import ENOUGH_CLUSTERS
from ..lazy import torch
from ..moments.clustered import ClusterRows, cluster_terms
from ..moments.crossing import Crossing
from ..moments.influence import along_weights, left_out_norms, unit_codes, unit_scores
from ..moments.rowweights import LEAST_TILE, Layout, second_share
from ..moments.stack import Stack
from ..moments.whitened import WhitenedRows
from ..randomness import generator
from .tables import Scores

if TYPE_CHECKING:
    from .request import Request


def in_cluster_order(request: Request) -> list[Stack]:
    """Both sides, or the one, with the rows of each cluster next to one another."""
    clusters = request.clusters
    if clusters is None or np.array_equal(clusters.order, np.arange(clusters.n)):
        return request.sides
    return [stack.take(clusters.order) for stack in request.sides]


# Units whose contributions to canonical correlations are computed; they give the standard error to 2 %.
MOST_SCORED = 2048


def scored_units(request: Request) -> np.ndarray:
    """The clusters, or rows, whose contributions to canonical correlations are computed: all, or a sample."""
    count = len(request.units)
    if count <= MOST_SCORED:
        return np.arange(count)
    return np.sort(generator(request.options.seed, "scored units").permutation(count)[:MOST_SCORED])


def whitened_rows(request: Request) -> WhitenedRows:
    """The rows of the scored units."""
    chosen = scored_units(request)
    rows = request.units.rows(chosen)
    left, right = (stack.take(rows) for stack in (request.left, request.sides[-1]))
    codes = np.searchsorted(chosen, request.units.codes[rows])
    return WhitenedRows(left, right, codes, dtype=request.dtype, device=request.device)


def unit_reading(
    request: Request, stacks: Sequence[Stack], tile_rows: int, *, scores: bool
) -> UnitReading | None:
    """
    Read the sums within clusters, where a measure or its interval needs them.

    Parameters
    ----------
    request : Request
    stacks : sequence of Stack
        From `in_cluster_order`.
    tile_rows : int
    scores : bool
        Whether the contributions of the clusters, or of the rows, are needed too.
    """
    kinds = {choice.measure.interval for choice in request.measures} - {"halves"}
    scores = scores and bool(kinds)
    needed = scores or "debiased" in kinds
    clusters = request.units if scores else request.clusters
    # With a larger cluster, too few pairs across clusters remain for debiasing; the measure reports it.
    if clusters is None or not needed or 2 * clusters.sizes.max() >= clusters.n:
        return None
    return UnitReading(request, stacks, tile_rows, scores=scores)


class UnitReading:
    """
    Sums within clusters and, on request, what each unit contributes to the norms.

    With at least `ENOUGH_CLUSTERS` units, the contributions are influence scores for debiased and for biased
    norms; with fewer, the debiased norms without each unit ("left out").
    """

    def __init__(self, request: Request, stacks: Sequence[Stack], tile_rows: int, *, scores: bool) -> None:
        clusters = request.units if scores else request.clusters
        assert clusters is not None
        layout = Layout(starts=clusters.starts, sizes=clusters.sizes)
        count = sum(len(stack) for stack in stacks)
        share = second_share(count, layout.n, len(layout.sizes), request.memory)
        self.rows = ClusterRows(
            stacks=stacks,
            layout=layout,
            dtype=request.dtype,
            device=request.device,
            tile_rows=int(np.clip(share.cells // count**2, LEAST_TILE, tile_rows)),
            products=share.products,
        )
        self.units = unit_codes(layout, generator(request.options.seed, "units"), share.units)
        self.terms = cluster_terms(self.rows, units=self.units if scores else None, held=share.held)
        self.correction = self.terms.within.sum(2) + 2 * self.terms.weights.uk
        self.scores: dict[str, Scores] = {}
        kinds: tuple[str, ...] = ()
        if scores:
            kinds = ("debiased", "biased") if len(clusters) >= ENOUGH_CLUSTERS else ("left out",)
        self.along = along_weights(self.rows, self.terms) if "debiased" in kinds else []
        units, (left, right) = int(self.units.max()) + 1, (len(stacks[0]), len(stacks[-1]))
        for kind in kinds:
            self.scores[kind] = Scores(
                cross=np.zeros((left, right, units)),
                left=np.full((left, units), np.nan),
                right=np.full((right, units), np.nan),
            )

    @property
    def row_units(self) -> np.ndarray:
        """Unit of each row, in the order of the clusters."""
        return np.repeat(self.units, self.rows.layout.sizes)

    def add(
        self,
        stacks: Sequence[Stack],
        crossing: Crossing | torch.Tensor,
        places: Sequence[int],
        lefts: Sequence[int],
        rights: Sequence[int],
    ) -> None:
        """
        Read the rows of the layers of a pass again, for the contributions of their units.

        Parameters
        ----------
        stacks : sequence of Stack
        crossing : Crossing or Tensor
            As in `unit_scores`.
        places : sequence of int
            Positions of the layers among those of all stacks.
        lefts, rights : sequence of int
            Positions of the layers on their sides.
        """
        rows, terms = replace(self.rows, stacks=stacks), self.terms.select(places)
        if "left out" in self.scores:
            contributions = {"left out": left_out_norms(rows, crossing, terms)}
        else:
            index = torch.tensor(places, device=rows.device)
            along = [self.along[place][:, index] for place in places]
            contributions = unit_scores(rows, crossing, terms, along, self.units)
        offset = 0 if len(stacks) == 1 else len(lefts)
        for kind, values in contributions.items():
            table, values = self.scores[kind], values.cpu().numpy()
            table.cross[np.ix_(lefts, rights)] = values[: len(lefts), offset : offset + len(rights)]
            for own, layers, first in ((table.left, lefts, 0), (table.right, rights, offset)):
                for k, layer in enumerate(layers, first):
                    if not isinstance(crossing, Crossing) or crossing.diagonal[k] is not None:
                        own[layer] = values[k, k]
