"""Dispatch of measures: from moments, Gram matrices, rotated layers, or rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..measures.declare import Chosen
from ..moments.gram import turn
from ..moments.spread import column_spread
from ..moments.tiles import ScaleError
from .engine import run
from .gramroute import gram_pays, run_gram
from .request import Request
from .rowwise import run_rows
from .tables import Outcome, facts_of_spread


def compute(request: Request, *, scores: bool = False, spectra: bool = False) -> Outcome:
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
    Outcome
    """
    try:
        return _compute(request, scores, spectra)
    except ScaleError:
        switched = "values too small or too large for float32 products"
        return _compute(replace(request, exact=True, switched=switched), scores, spectra)


def _compute(request: Request, scores: bool, spectra: bool) -> Outcome:
    """Dispatch each measure to its route."""
    by_rows = [m for m in request.measures if m.declared("needs") == "rows"]
    by_moments = [m for m in request.measures if m not in by_rows]
    precision = "exact" if request.exact else "fast"
    if request.switched:
        precision = f"exact (switched: {request.switched})"
    tables = {}
    turnable = [m for m in by_moments if _turns(m)]
    if not by_moments:
        outcome = _facts_alone(request)
    elif not scores and gram_pays(request, by_moments):
        outcome = run_gram(request, by_moments, spectra=spectra)
    elif turnable and request.n < min(request.widths):
        outcome = _run_turned(request, turnable, scores, spectra)
        remaining = [m for m in by_moments if m not in turnable]
        if remaining:
            tables |= _run(request, remaining).tables
    else:
        outcome = _run(request, by_moments, scores, spectra)
    tables |= outcome.tables
    sensitive = [m for m in by_moments if m.measure.name in ("cca", "pwcca")]
    if outcome.near_tolerance and sensitive and not request.exact:
        tables |= _run(replace(request, exact=True), sensitive).tables
        names = " and ".join(m.label for m in sensitive)
        precision = f"fast; {names} exact (switched: an eigenvalue lies near the rank tolerance)"
    tables |= {choice.label: run_rows(request, choice) for choice in by_rows}
    return replace(outcome, tables={m.label: tables[m.label] for m in request.measures}, precision=precision)


def _turns(choice: Chosen) -> bool:
    """Whether the measure is invariant to rotations of either side, so that layers may be rotated first."""
    invariances = choice.declared("invariances")
    subspace = choice.declared("subspace")
    # The full rank is that of the correlation matrix of the neurons, which a rotation changes.
    ranked = subspace is not None and subspace(choice.options) == "full"
    return "orthogonal" in invariances.left and "orthogonal" in invariances.right and not ranked


def _run(
    request: Request, measures: Sequence[Chosen], scores: bool = False, spectra: bool = False
) -> Outcome:
    return run(replace(request, measures=tuple(measures)), scores=scores, spectra=spectra)


def _run_turned(request: Request, measures: list[Chosen], scores: bool, spectra: bool) -> Outcome:
    sides = [turn(stack, dtype=request.dtype, device=request.device) for stack in request.sides]
    turned = replace(request, left=sides[0].stack, right=sides[1].stack if len(sides) > 1 else None)
    outcome = _run(turned, measures, scores, spectra)
    left, right = (
        # A rotation changes no eigenvalue.
        facts_of_spread(side.sumsq, facts["participation"], facts.get("spectrum"))
        for side, facts in zip((sides[0], sides[-1]), (outcome.left, outcome.right), strict=True)
    )
    return replace(outcome, left=left, right=right)


def _facts_alone(request: Request) -> Outcome:
    """Compute layer statistics for measures that do not need moments, in one pass over the rows."""
    facts = [facts_of_spread(column_spread(stack, request.device)) for stack in request.sides]
    return Outcome(tables={}, left=facts[0], right=facts[-1])
