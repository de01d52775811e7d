"""Block structure of each model, from recorded rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import InputError, SmallSampleWarning
from ..extraction.recording import Activations
from ..findings.blocks import Block
from ..findings.runs import LEAST_LAYERS
from ..findings.stackblocks import StackBlocks
from ..measures.declare import Chosen
from .request import SimilarityOptions
from .structure import find_blocks

MEASURE = "debiased_cka"
# Options of a comparison that are passed on to `find_blocks`.
OPTIONS = (
    *("clusters", "precision", "memory", "threads", "level", "zscore", "remove_top"),
    *("seed", "device", "progress"),
)


def stack_blocks(
    recordings: Sequence[Activations], measures: Sequence[Chosen], options: SimilarityOptions
) -> list[StackBlocks]:
    """
    Find the blocks of each model.

    Parameters
    ----------
    recordings : sequence of Activations
    measures : sequence of Chosen
        Blocks are tested only where debiased CKA is among them.
    options : SimilarityOptions
        Of the comparison.

    Returns
    -------
    list of StackBlocks
        Models with too few layers or too few rows are left out.
    """
    label = next((choice.label for choice in measures if choice.measure.name == MEASURE), None)
    if label is None:
        return []
    block_options: dict[str, Any] = {name: getattr(options, name) for name in OPTIONS}
    out = []
    for recording in recordings:
        # A final state with an additional normalization is not a layer of its own.
        indices = [k for k in recording.varying if recording.names[k].rpartition("/")[2].isdigit()]
        if len(indices) <= LEAST_LAYERS:
            continue
        layers, names = [recording.layers.stored[k] for k in indices], [recording.names[k] for k in indices]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SmallSampleWarning)
                finding = find_blocks(layers, names=names, measure=label, **block_options)
        except InputError:
            continue
        stack = names[0].rpartition("/")[0]
        out.append(StackBlocks(stack=stack, measure=label, names=tuple(names), finding=finding))
    return out


def of_unit(one: StackBlocks, unit: str) -> StackBlocks:
    """Set the name of the independent unit in the intervals of all blocks."""

    def renamed(block: Block) -> Block:
        interval = None if block.interval is None else replace(block.interval, unit=unit)
        return replace(block, interval=interval, cores=tuple(renamed(core) for core in block.cores))

    finding = one.finding
    best = None if finding.best is None else renamed(finding.best)
    blocks = tuple(renamed(block) for block in finding.blocks)
    return replace(one, finding=replace(finding, blocks=blocks, best=best))
