"""Blocks of layers at one checkpoint of a training, with errors that can be shared between checkpoints."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...comparison.similarity import similarity_matrix
from ...comparison.structure import map_blocks
from ...errors import SmallSampleWarning
from ...findings.blocks import Block, BlockFinding
from ...findings.paired import cell_errors
from ...findings.squares import margin_errors
from ...inference.clusters import check_balanced
from ..layer_similarity import Recorded

MEASURE = "debiased_cka"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointBlocks:
    """
    The blocks of one checkpoint.

    Parameters
    ----------
    map : ndarray of shape (layers, layers)
    finding : BlockFinding
        Its layers are numbered as in the model.
    errors : ndarray of shape (units,)
        What each sentence or document adds to the error of the margin of the best run; units are the same
        for all checkpoints on the same rows.
    """

    map: np.ndarray
    finding: BlockFinding
    errors: np.ndarray

    @property
    def margin(self) -> float:
        """Margin of the run with the most evidence of being a block; NaN where nothing can be tested."""
        return math.nan if self.finding.best is None else self.finding.best.margin

    @property
    def evidence(self) -> float:
        """Lower end of that margin: positive where a block is certain."""
        best = self.finding.best
        return math.nan if best is None or best.interval is None else best.interval.low


def find_checkpoint_blocks(recorded: Recorded, model: str, **options: Any) -> CheckpointBlocks:
    """
    Find the blocks of one model as `find_blocks` does, and keep what each unit adds to the error.

    Parameters
    ----------
    recorded : Recorded
    model : str
    **options
        seed, level, device, threads, precision, memory, as in `find_blocks`.

    Returns
    -------
    CheckpointBlocks
    """
    if recorded.clusters is not None:
        check_balanced(recorded.clusters, recorded.unit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        maps = similarity_matrix(
            recorded.stack(model), measures=MEASURE, clusters=recorded.clusters, certainty=True, **options
        )
    layer_map = replace(next(iter(maps.values())), unit=recorded.unit)
    finding = map_blocks(layer_map)
    assert layer_map.resamples is not None
    errors, _ = cell_errors(layer_map.resamples, layer_map.values)
    count, layers = len(errors), recorded.layers
    shares = np.zeros(count)
    if finding.best is not None:
        # As influence shares: their variance is scaled where they are drawn from.
        shares = margin_errors(layer_map.values, errors, finding.best) * np.sqrt((count - 1) / count)

    def numbered(places: tuple[int, ...]) -> tuple[int, ...]:
        """Number layers as the model does, also where rows of layer 0 are left out."""
        return tuple(layers[place] for place in places)

    def renumbered(block: Block) -> Block:
        without = numbered(block.without)
        return replace(block, first=layers[block.first], last=layers[block.last], without=without)

    used, left_out = numbered(finding.used), numbered(finding.left_out)
    finding = finding.replaced(renumbered, layers=layers[-1] + 1, used=used, left_out=left_out)
    return CheckpointBlocks(map=layer_map.values, finding=finding, errors=shares)
