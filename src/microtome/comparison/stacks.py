"""Do the layers of each model fall into blocks? Asked of recorded rows, one model after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..errors import InputError, SmallSampleWarning
from ..extraction.recording import Activations
from ..findings.blocks import LEAST_SIDE
from ..findings.stackblocks import StackBlocks
from ..measures.declare import Chosen
from .structure import find_blocks

# The rule was calibrated on maps of this measure.
MEASURE = "debiased_cka"
# What `find_blocks` is told of the options of a comparison.
OPTIONS = ("precision", "memory", "threads", "level", "zscore", "remove_top")


def stack_blocks(
    found: Sequence[Activations],
    measures: Sequence[Chosen],
    *,
    clusters: Any = None,
    seed: int = 0,
    device: Any = "cpu",
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> list[StackBlocks]:
    """
    Test for each model whether a step stands out between its layers.

    Parameters
    ----------
    found : sequence of Activations
    measures : sequence of Chosen
        Without debiased CKA among them nothing is tested.
    clusters : array_like of shape (rows,), optional
    seed, device, progress
        As in `find_blocks`.
    **options
        Of `compare`.

    Returns
    -------
    list of StackBlocks
        None for a model with too few layers, or too few rows to be halved and put into groups.
    """
    label = next((choice.label for choice in measures if choice.measure.name == MEASURE), None)
    if label is None:
        return []
    shared = {"clusters": clusters, "measure": label, "seed": seed, "device": device, "progress": progress}
    told = {**shared, **{name: value for name, value in options.items() if name in OPTIONS}}
    out = []
    for one in found:
        # A last state that is normed once more is no layer of its own.
        kept = [k for k in one.varying if one.names[k].rpartition("/")[2].isdigit()]
        if len(kept) < 2 * LEAST_SIDE:
            continue
        layers, names = [one.layers.stored[k] for k in kept], [one.names[k] for k in kept]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SmallSampleWarning)
                finding = find_blocks(layers, names=names, **told)
        except InputError:
            continue
        stack = names[0].rpartition("/")[0]
        out.append(StackBlocks(stack=stack, measure=label, names=tuple(names), finding=finding))
    return out


def of_unit(one: StackBlocks, unit: str) -> StackBlocks:
    """Call what was taken as independent by the name that a reader knows."""
    interval = one.finding.interval
    if interval is None:
        return one
    return replace(one, finding=replace(one.finding, interval=replace(interval, unit=unit)))
