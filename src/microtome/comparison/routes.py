"""Dispatch of measures: from moments, Gram matrices, rotated layers, or rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..errors import InputError
from ..lazy import torch
from ..measures.declare import Chosen
from ..measures.kernels import trace_null
from ..measures.neighbors import chance
from ..moments.gram import gram_products, turn
from ..moments.stack import Stack, read_rows
from ..moments.strip import Debiasing
from ..moments.tiles import TILE_ROWS, ScaleError, column_spread
from .engine import run
from .nulls import null_details, null_of
from .request import Request, gram_pays
from .tables import AllPairs, Table, facts_of_spread, settle, shares
from .units import in_cluster_order, unit_reading


def compute(request: Request, *, scores: bool = False, spectra: bool = False) -> AllPairs:
    """
    Compute all tables of a request, in float64 if its values do not fit float32 products.

    Parameters
    ----------
    request : Request
    scores : bool
        Whether to read the rows again for influence scores.
    spectra : bool
        Whether the layer statistics include the spectra, where moments or rows are available.

    Returns
    -------
    AllPairs
    """
    try:
        return _compute(request, scores, spectra)
    except ScaleError:
        switched = "values too small or too large for float32 products"
        return _compute(replace(request, exact=True, switched=switched), scores, spectra)


def _compute(request: Request, scores: bool, spectra: bool) -> AllPairs:
    """Dispatch each measure to its route."""
    by_rows = [m for m in request.measures if m.declared("needs") == "rows"]
    by_moments = [m for m in request.measures if m not in by_rows]
    precision = "exact" if request.exact else "fast"
    if request.switched:
        precision = f"exact (switched: {request.switched})"
    further: list[AllPairs] = []
    turnable = [m for m in by_moments if _turns(m)]
    if not by_moments:
        outcome = _facts_alone(request)
    elif gram_pays(request, by_moments):
        outcome = run_gram(request, by_moments, scores=scores, spectra=spectra)
    elif turnable and request.n < min(request.widths):
        outcome = _run_turned(request, turnable, scores, spectra)
        remaining = [m for m in by_moments if m not in turnable]
        if remaining:
            further.append(_run(request, remaining, scores))
    else:
        outcome = _run(request, by_moments, scores, spectra)
    further.append(outcome)
    sensitive = [m for m in by_moments if m.measure.name in ("cca", "pwcca")]
    if outcome.near_tolerance and sensitive and not request.exact:
        further.append(_run(replace(request, exact=True), sensitive, scores))
        names = " and ".join(m.label for m in sensitive)
        precision = f"fast; {names} exact (switched: an eigenvalue lies near the rank tolerance)"
    tables = {label: table for part in further for label, table in part.tables.items()}
    tables |= {choice.label: run_rows(request, choice) for choice in by_rows}
    influences = {label: table for part in further for label, table in part.influences.items()}
    tables = {choice.label: tables[choice.label] for choice in request.measures}
    return replace(outcome, tables=tables, influences=influences, precision=precision)


def _turns(choice: Chosen) -> bool:
    """Whether the measure is invariant to rotations of either side, so that layers may be rotated first."""
    invariances = choice.declared("invariances")
    subspace = choice.declared("subspace")
    # The full rank is that of the correlation matrix of the neurons, which a rotation changes.
    ranked = subspace is not None and subspace(choice.options) == "full"
    return "orthogonal" in invariances.left and "orthogonal" in invariances.right and not ranked


def _run(
    request: Request, measures: Sequence[Chosen], scores: bool = False, spectra: bool = False
) -> AllPairs:
    return run(replace(request, measures=tuple(measures)), scores=scores, spectra=spectra)


def _run_turned(request: Request, measures: list[Chosen], scores: bool, spectra: bool) -> AllPairs:
    sides = [turn(stack, dtype=request.dtype, device=request.device) for stack in request.sides]
    turned = replace(request, left=sides[0][0], right=None if request.right is None else sides[1][0])
    outcome = _run(turned, measures, scores, spectra)
    left, right = (
        # A rotation changes no eigenvalue.
        facts_of_spread(sumsq, facts["participation"], facts.get("spectrum"))
        for (_, sumsq), facts in zip((sides[0], sides[-1]), (outcome.left, outcome.right), strict=True)
    )
    return replace(outcome, left=left, right=right)


def _facts_alone(request: Request) -> AllPairs:
    """Compute layer statistics for measures that do not need moments, in one pass over the rows."""
    facts = [facts_of_spread(column_spread(stack, request.device)) for stack in request.sides]
    return AllPairs(tables={}, left=facts[0], right=facts[-1])


def run_gram(
    request: Request, measures: Sequence[Chosen], *, scores: bool = False, spectra: bool = False
) -> AllPairs:
    """
    Compute linear and debiased CKA of all pairs of layers from Gram matrices.

    Parameters
    ----------
    request : Request
    measures : sequence of Chosen
        Of `NORMS_ONLY`.
    scores : bool
        Whether the contributions of rows or clusters are computed too.
    spectra : bool
        Whether the layer statistics include the spectra.

    Returns
    -------
    AllPairs
    """
    stacks = in_cluster_order(request)
    reading = unit_reading(replace(request, measures=tuple(measures)), stacks, TILE_ROWS, scores=scores)
    gram = gram_products(
        stacks,
        dtype=request.dtype,
        device=request.device,
        spectra=spectra,
        units=reading.row_units if reading is not None and reading.scores else None,
    )
    n, lefts = request.n, len(request.left)
    first = 0 if request.right is None else lefts
    rights = len(gram.norms) - first
    products = gram.norms @ gram.norms.T
    sums = gram.norms.sum(1)
    if request.clusters is None:
        correction = n / (n - 2) * products - torch.outer(sums, sums) / ((n - 1) * (n - 2))
    else:
        correction = torch.full_like(products, torch.nan) if reading is None else reading.correction
    norms2, frob2 = products.diagonal(), gram.frob2.diagonal()
    statistics = {"trace": sums.tolist(), "frob2": frob2.tolist(), "norms2": norms2.tolist()}
    # The parts of a `Bank` and of a `Strip` that CKA and its null use.
    bank = SimpleNamespace(frob2=frob2, known=statistics, dtype=request.dtype)
    self_norms = bank.frob2 - correction.diagonal()
    tables = {m.label: Table.blank((lefts, rights)) for m in measures}
    columns = slice(first, first + rights)
    for i in range(lefts):
        debiasing = Debiasing(correction[i, columns], self_norms[i], self_norms[columns])
        strip: Any = SimpleNamespace(
            left=bank,
            right=bank,
            row=i,
            columns=columns,
            n=n,
            frob2=gram.frob2[i, columns],
            debiasing=debiasing,
        )
        for choice in measures:
            table, cells = tables[choice.label], choice.measure.compute(strip, choice.options)
            table.values[i] = cells.forward.cpu().numpy()
            table.reasons[i] = np.array(cells.reasons, dtype=object)
            table.null_mean[i], _, table.null_sd[i] = null_of(choice, strip)
            details = {name: v.cpu().numpy() for name, v in cells.details.items()}
            for name, values in (details | null_details(choice, strip)).items():
                table.details.setdefault(name, np.full((lefts, rights), np.nan))[i] = values
    for choice in measures:
        settle(tables[choice.label], choice, exact=request.exact)
    participation = (sums.square() / bank.frob2).cpu().numpy()
    spectrum = None
    if gram.eigenvalues is not None:
        spectrum = shares([values.cpu().numpy() for values in gram.eigenvalues])
    left, right = (
        facts_of_spread(gram.sumsq[side], participation[side], None if spectrum is None else spectrum[side])
        for side in (slice(lefts), slice(first, None))
    )
    scored = {}
    if reading is not None and gram.unit_products is not None:
        places = range(len(gram.norms))
        reading.add(stacks, gram.unit_products, places, range(lefts), range(rights))
        for kind, table in reading.scores.items():
            norms = (self_norms if kind == "debiased" else gram.frob2.diagonal()).cpu().numpy()
            scored[kind] = replace(table, left_h=norms[:lefts], right_h=norms[first:])
    return AllPairs(tables=tables, left=left, right=right, scores=scored)


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
        return trace_null(left_layer, right_layer, n)
    if name == "chance":
        return chance(n, choice.options)
    return float("nan")
