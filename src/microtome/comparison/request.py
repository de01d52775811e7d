"""Comparison requests: stacks, measures, rows and device, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, must
from ..extraction.rowtable import Grouping
from ..inference.clusters import Clusters
from ..measures.declare import Chosen
from ..measures.table import chosen_all
from ..moments.stack import Stack
from ..runtime import find_device
from .inputs import choose_rows, controlled, gather, read_clusters, recorded_grouping
from .plan import Plan, Settings, make_plan, read_bytes

PRECISIONS = ("fast", "exact")
# Rounding averages out over the neurons of a wide layer; up to this width there are too few of them.
NARROW = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """
    Checked inputs of one comparison.

    `grouping` comes from recorded layers, where the user passed no clusters.
    """

    left: Stack
    right: Stack | None
    measures: tuple[Chosen, ...]
    clusters: Clusters | None
    settings: Settings
    seed: int
    switched: str = ""
    grouping: Grouping | None = None

    @property
    def n(self) -> int:
        """Number of rows in the comparison."""
        return self.left.rows


def check_precision(precision: str) -> None:
    """Check the name of a precision."""
    if precision not in PRECISIONS:
        raise must("precision", "'fast' or 'exact'", precision)


def prepare(
    left: Any,
    right: Any,
    measures: Any,
    *,
    clusters: Any = None,
    precision: str = "fast",
    memory: str | int = "2GB",
    device: Any = "cpu",
    seed: int = 0,
    certainty: bool = False,
    halves: int = 40,
    permutations: int = 0,
    rows: int | None = None,
    leave_out: Any = None,
    zscore: bool = False,
    remove_top: int = 0,
    names: Sequence[str] | None = None,
    right_names: Sequence[str] | None = None,
    progress: Any = None,
) -> tuple[Request, Plan, str]:
    """Check a comparison and plan it, without computing anything; see `similarity_matrix`."""
    check_precision(precision)
    choices = tuple(chosen_all(measures))
    for choice in choices:
        if choice.declared("needs") == "attention":
            raise InputError(
                f"{choice.measure.name} must be given attention maps, not rows; "
                "use `microtome compare` on the shell, and attention_similarity_matrix in Python."
            )
    torch_device = find_device(device)
    left_stack, right_stack = gather(left, right, names, right_names)
    total = left_stack.rows
    debiased = any(c.measure.interval == "debiased" for c in choices)
    grouping = recorded_grouping(left, right) if clusters is None else None
    cluster_options: dict[str, Any] = {
        "balanced": debiased,
        "noun": "cluster" if grouping is None else grouping.unit,
    }
    grouped = read_clusters(clusters if grouping is None else grouping.codes, total, **cluster_options)
    index = choose_rows(total, grouped, rows=rows, leave_out=leave_out, seed=seed)
    if index is not None:
        left_stack, right_stack = (
            left_stack.take(index),
            None if right_stack is None else right_stack.take(index),
        )
        if grouped is not None:
            grouped = read_clusters(grouped.codes[index], len(index), **cluster_options)
    notes = [f"{len(index)} of {total} rows"] if index is not None else []
    if zscore or remove_top:
        left_stack = controlled(left_stack, zscore=zscore, remove_top=remove_top, device=torch_device)
        right_stack = (
            None
            if right_stack is None
            else controlled(right_stack, zscore=zscore, remove_top=remove_top, device=torch_device)
        )
        notes += ["neurons standardized"] if zscore else []
        notes += [f"the {remove_top} neurons of largest variance removed"] if remove_top else []
    n = left_stack.rows
    if n < 2:
        raise InputError(f"a comparison must have at least 2 rows, but got {n}.")
    if n < 4 and any(c.measure.name == "debiased_cka" for c in choices):
        raise InputError(f"debiased_cka must have at least 4 rows, but got {n}.")
    exact, switched = precision == "exact", ""
    widest = max(*left_stack.widths, *(() if right_stack is None else right_stack.widths), 1)
    if not exact and torch_device.type == "cuda":
        exact, switched = True, "float64 costs a data-center GPU no more"
    elif not exact and any(c.declared("subspace") is not None for c in choices):
        if widest <= NARROW:
            exact, switched = True, "layers are narrow, and float64 costs little"
        elif n < 2 * widest:
            exact, switched = True, "fewer than twice as many rows as features"
    memory_bytes = read_bytes(memory)
    if torch_device.type == "cuda" and memory == "2GB":
        import torch

        memory_bytes = int(0.6 * torch.cuda.mem_get_info(torch_device)[0])
    settings = Settings(exact=exact, device=torch_device, memory=memory_bytes, progress=progress)
    request = Request(
        left=left_stack,
        right=right_stack,
        measures=choices,
        clusters=grouped,
        grouping=grouping,
        settings=settings,
        seed=seed,
        switched=switched,
    )
    resampled = any(c.measure.interval == "halves" for c in choices)
    plan = plan_for(
        request,
        certainty=certainty,
        halves=halves if certainty and resampled else 0,
        permutations=permutations,
    )
    return request, plan, "; ".join(notes)


def plan_for(request: Request, **more: Any) -> Plan:
    """Make the plan of a checked request."""
    return make_plan(
        request.left,
        request.right,
        request.measures,
        memory=request.settings.memory,
        itemsize=8 if request.settings.exact else 4,
        clustered=request.clusters is not None,
        **more,
    )
