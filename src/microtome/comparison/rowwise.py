"""Measures that need the rows: each layer is prepared once, then compared pair by pair."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError
from ..inference.clusters import Clusters
from ..measures.declare import Chosen
from ..moments.stack import Stack, read_rows
from .plan import Settings
from .tables import NOT_FINITE, Table, settle

# How far rounding may put a value out of range.
ROUNDING = 1e-9


def footprint(choice: Chosen, n: int, width: int) -> int:
    """Bytes of one prepared layer: half a matrix of row pairs, or the rows themselves."""
    if choice.measure.name in ("rsa", "rbf_cka"):
        return 4 * n * n
    return 8 * n * width * 3


def run_rows(
    left: Stack, right: Stack | None, choice: Chosen, settings: Settings, clusters: Clusters | None = None
) -> Table:
    """
    Compute one measure that needs rows for every pair of layers.

    Parameters
    ----------
    left, right : Stack, Stack or None
    choice : Chosen
    settings : Settings
        Its memory limits how many prepared layers are held at once.
    clusters : Clusters, optional

    Returns
    -------
    Table
    """
    symmetric = right is None
    right_stack = left if right is None else right
    n = left.rows
    layer_bytes = max(footprint(choice, n, w) for w in (*left.widths, *right_stack.widths))
    fits = int(settings.memory // layer_bytes)
    if fits < 2:
        raise InputError(
            f"{choice.label} must fit two layers of {n} rows into memory={settings.memory / 1e9:.2g}GB, "
            f"but they take {2 * layer_bytes / 1e9:.2g}GB; give more memory or fewer rows (sample=)."
        )
    prepare, compute = _prepared(choice, clusters), choice.declared("compute")
    shape = (len(left), len(right_stack))
    values, nulls = np.full(shape, np.nan), np.full(shape, np.nan)
    reasons = np.full(shape, None, dtype=object)
    directed = not choice.declared("symmetric")
    held = max(1, fits - 1)
    for start in range(0, len(left), held):
        group = range(start, min(start + held, len(left)))
        ready = {i: prepare(_rows(left, i, settings)) for i in group}
        for j in range(start if symmetric else 0, len(right_stack)):
            right_layer = ready[j] if symmetric and j in ready else prepare(_rows(right_stack, j, settings))
            for i in group:
                if symmetric and j < i:
                    continue
                values[i, j], reasons[i, j] = compute(ready[i], right_layer, choice.options)
                nulls[i, j] = _null(choice, ready[i], right_layer, n)
                if symmetric and i != j:
                    back = (
                        compute(right_layer, ready[i], choice.options)
                        if directed
                        else (values[i, j], reasons[i, j])
                    )
                    values[j, i], reasons[j, i] = back
                    nulls[j, i] = nulls[i, j]
            if settings.progress is not None:
                settings.progress(choice.label, j + 1, len(right_stack))
    unsaid = ~np.isfinite(values) & np.array([[r is None for r in row] for row in reasons])
    reasons[unsaid] = NOT_FINITE
    values[unsaid] = np.nan
    settle(values, choice, ROUNDING)
    return Table(values=values, null_mean=nulls, null_sd=np.full(shape, np.nan), reasons=reasons)


def _rows(stack: Stack, layer: int, settings: Settings) -> Any:
    import torch

    return read_rows(stack, layer, 0, stack.rows, torch.float64, settings.device)


def _prepared(choice: Chosen, clusters: Clusters | None) -> Callable[[Any], Any]:
    prepare = choice.declared("prepare")
    cluster_options: dict[str, Any] = {}
    if clusters is not None and "clusters" in inspect.signature(prepare).parameters:
        cluster_options["clusters"] = clusters.codes
    return lambda x: prepare(x, choice.options, **cluster_options)


def _null(choice: Chosen, left_layer: Any, right_layer: Any, n: int) -> float:
    """Null mean, where a formula is known."""
    name = choice.declared("null")
    if name == "zero":
        return 0.0
    if name == "trace":
        from ..measures.kernels import trace_null

        return trace_null(left_layer, right_layer, n)
    if name == "chance":
        from ..measures.neighbors import chance

        return chance(n, choice.options) if choice.options["k"] < n else float("nan")
    return float("nan")
