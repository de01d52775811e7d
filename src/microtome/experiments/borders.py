"""Is there a border between the layers of a model, and how does the doubt of it go with that of others?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..comparison.certainty import leave_out_values, subset
from ..comparison.inputs import using_threads
from ..comparison.similarity import compute, prepare
from ..errors import SmallSampleWarning
from ..findings.blocks import LEAST_SIDE, BlockFinding, block_structure, usable_layers
from ..inference.clusters import Clusters, check_balanced, halves
from .layerwise import ROUNDING, Recorded

MEASURE = "debiased_cka"  # the rule was calibrated on maps of it
GROUPS = 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Border:
    """
    Whether a border stands out in one model.

    Parameters
    ----------
    map : ndarray of shape (layers, layers)
        Of all rows.
    finding : BlockFinding, optional
        None where it cannot be tested.
    errors : ndarray of shape (groups,)
        What each group of sentences adds to the error of the contrast; groups are the same for all models
        on the same rows.
    reason : str, optional
        Why there is no finding.
    """

    map: np.ndarray
    finding: BlockFinding | None
    errors: np.ndarray
    reason: str | None = None

    @property
    def contrast(self) -> float:
        """In mean adjacent gaps; 0 where layers do not differ at all, and there is nothing to contrast."""
        if self.finding is None:
            return float("nan")
        return 0.0 if self.finding.verdict == "undefined" else self.finding.contrast

    @property
    def stands(self) -> bool:
        """Whether the rule calls it a border."""
        return self.finding is not None and self.finding.verdict in ("step", "two blocks")


def find_border(
    recorded: Recorded,
    model: str,
    *,
    groups: int = GROUPS,
    seed: int = 0,
    level: float = 0.95,
    device: Any = "cpu",
    threads: int | None = None,
    **options: Any,
) -> Border:
    """
    Test one model for a border as `find_blocks` does, and keep what each group of sentences adds.

    Parameters
    ----------
    recorded : Recorded
    model : str
    groups : int
        Of the jackknife.
    seed, level, device, threads
        As in `find_blocks`.
    **options
        precision, memory.

    Returns
    -------
    Border
    """
    layers = recorded.stack(model)
    if recorded.clusters is not None:
        check_balanced(recorded.clusters, recorded.unit)
    with warnings.catch_warnings(), using_threads(threads):
        warnings.simplefilter("ignore", SmallSampleWarning)
        request, _, _ = prepare(
            layers, None, MEASURE, clusters=recorded.clusters, seed=seed, device=device, **options
        )
        label = request.measures[0].label
        whole = compute(request).tables[label].values
        units = Clusters.singletons(request.n) if request.clusters is None else request.clusters
        why = _untestable(len(layers), len(units), groups, recorded.unit)
        if why is not None:
            return Border(map=whole, finding=None, errors=np.zeros(groups), reason=why)
        first, second = (subset(request, rows) for rows in halves(units, seed))
        select, evaluate = (compute(half).tables[label].values for half in (first, second))
        rest = Clusters.singletons(second.n) if second.clusters is None else second.clusters
        left_out = leave_out_values(second, rest, groups, compute)[0][label]
    # Identical layers differ by rounding alone.
    select, evaluate, left_out = (
        np.where(np.abs(one - 1) <= ROUNDING, 1.0, one) for one in (select, evaluate, left_out)
    )
    least, defined = 2 * LEAST_SIDE, len(usable_layers(select, evaluate, left_out)[0])
    if defined < least:
        why = f"a border needs at least {least} layers with defined similarities, and there are fewer"
        return Border(map=whole, finding=None, errors=np.zeros(groups), reason=why)
    finding = _of_layers(
        block_structure(select, evaluate, left_out, level=level, unit=recorded.unit), recorded.layers
    )
    if finding.verdict == "undefined":
        return Border(map=whole, finding=finding, errors=np.zeros(groups), reason=finding.reason)
    # The border stays the one that the first half chose, as in the finding itself.
    moved = np.array([block_structure(select, one, left_out).contrast for one in left_out])
    count = len(moved)
    return Border(
        map=whole,
        finding=finding,
        errors=(count - 1) / count * (moved.mean() - moved),
    )


def _untestable(layers: int, units: int, groups: int, unit: str) -> str | None:
    if layers < 2 * LEAST_SIDE:
        return f"a border needs at least {2 * LEAST_SIDE} layers, and there are {layers}"
    if units < 2 * groups + 2:
        return f"a border needs at least {2 * groups + 2} {unit}s, and there are {units}"
    return None


def _of_layers(finding: BlockFinding, layers: tuple[int, ...]) -> BlockFinding:
    """Count layers as the model does, also where rows of layer 0 are left out."""
    if layers == tuple(range(len(layers))):
        return finding
    moved = {
        name: None if getattr(finding, name) is None else layers[getattr(finding, name)]
        for name in ("border", "border_other", "plain_border")
    }
    kept = {
        name: tuple(layers[k] for k in getattr(finding, name)) for name in ("used", "left_out", "borders")
    }
    return replace(finding, layers=layers[-1] + 1, **moved, **kept)
