"""Measures that need the rows: each layer is prepared once, then compared pair by pair."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import InputError
from ..lazy import torch
from ..measures.declare import Chosen
from ..moments.stack import Stack, read_rows
from .request import Request
from .tables import Table, settle


def footprint(choice: Chosen, n: int, width: int) -> int:
    """Bytes of one prepared layer: half a matrix of row pairs, or the rows themselves."""
    if choice.measure.name in ("rsa", "rbf_cka"):
        return 4 * n * n
    return 8 * n * width * 3


def run_rows(request: Request, choice: Chosen) -> Table:
    """
    Compute one measure that needs rows for every pair of layers.

    Parameters
    ----------
    request : Request
        Its memory limits how many prepared layers are held at once.
    choice : Chosen

    Returns
    -------
    Table
    """
    symmetric, n = request.right is None, request.n
    left, right = request.left, request.sides[-1]
    layer_bytes = max(footprint(choice, n, width) for width in request.widths)
    fits = int(request.memory // layer_bytes)
    if fits < 2:
        raise InputError(
            f"{choice.label} must fit two layers of {n} rows into memory={request.memory / 1e9:.2g}GB, "
            f"but they take {2 * layer_bytes / 1e9:.2g}GB; give more memory or fewer rows (sample=)."
        )
    prepare = _prepared(request, choice)
    table = Table.blank((len(left), len(right)))
    values, reasons, nulls = table.values, table.reasons, table.null_mean
    directed = not choice.declared("symmetric")
    held = max(1, fits - 1)
    for start in range(0, len(left), held):
        group = range(start, min(start + held, len(left)))
        ready = {i: prepare(left, i) for i in group}
        for j in range(start if symmetric else 0, len(right)):
            right_layer = ready[j] if symmetric and j in ready else prepare(right, j)
            for i in group:
                if symmetric and j < i:
                    continue
                values[i, j], reasons[i, j] = choice.pair(ready[i], right_layer)
                nulls[i, j] = _null(choice, ready[i], right_layer, n)
                if symmetric and i != j:
                    values[j, i], reasons[j, i] = (
                        choice.pair(right_layer, ready[i]) if directed else (values[i, j], reasons[i, j])
                    )
                    nulls[j, i] = nulls[i, j]
            if request.progress is not None:
                request.progress(choice.label, j + 1, len(right))
    settle(table, choice)
    return table


def _prepared(request: Request, choice: Chosen) -> Callable[[Stack, int], Any]:
    prepare, options = choice.declared("prepare"), {}
    if request.clusters is not None and "clusters" in inspect.signature(prepare).parameters:
        options["clusters"] = request.clusters.codes

    def prepared(stack: Stack, layer: int) -> Any:
        rows = read_rows(stack, layer, 0, stack.rows, torch.float64, request.device)
        return prepare(rows, choice.options, **options)

    return prepared


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

        return chance(n, choice.options)
    return float("nan")
