"""Dispatch of measures: from moments, Gram matrices, rotated layers, or rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..measures.declare import Chosen
from ..moments.spread import column_spread
from ..moments.tiles import ScaleError
from ..moments.turned import turn
from .engine import run
from .gramroute import gram_pays, run_gram
from .layers import facts_of_spread
from .plan import EnginePlan
from .request import Request, plan_for
from .rowwise import run_rows
from .tables import LayerFacts, Outcome, Scores, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Tables of all measures, and layer statistics."""

    tables: dict[str, Table]
    left: LayerFacts
    right: LayerFacts
    scores: dict[str, Scores]
    precision: str


def compute(
    request: Request, plan: EnginePlan | None = None, *, scores: bool = False, spectra: bool = False
) -> Raw:
    """
    Compute all tables of a request, in float64 if its values do not fit float32 products.

    Parameters
    ----------
    request : Request
    plan : EnginePlan, optional
    scores : bool
        Whether to read the rows again for influence scores.
    spectra : bool
        Whether the layer statistics include the spectra, where moments or rows are available.

    Returns
    -------
    Raw
    """
    try:
        return _compute(request, plan, scores, spectra)
    except ScaleError:
        exact_request = replace(
            request,
            settings=replace(request.settings, exact=True),
            switched="values too small or too large for float32 products",
        )
        return _compute(exact_request, None, scores, spectra)


def _compute(request: Request, plan: EnginePlan | None, scores: bool, spectra: bool) -> Raw:
    """Dispatch each measure to its route."""
    plan = plan_for(request) if plan is None else plan
    by_rows = [m for m in request.measures if m.declared("needs") == "rows"]
    by_moments = [m for m in request.measures if m not in by_rows]
    precision = "exact" if request.settings.exact else "fast"
    if request.switched:
        precision = f"exact (switched: {request.switched})"
    tables: dict[str, Table] = {}
    widths = request.left.widths if request.right is None else (*request.left.widths, *request.right.widths)
    turnable = [m for m in by_moments if _turns(m)]
    if not by_moments:
        outcome = _facts_alone(request)
    elif not scores and gram_pays(request, by_moments):
        outcome = run_gram(request, by_moments, spectra=spectra)
    elif turnable and request.n < min(widths):
        outcome = _run_turned(request, turnable, scores, spectra)
        remaining = [m for m in by_moments if m not in turnable]
        if remaining:
            tables |= _run(request, remaining, plan, False).tables
    else:
        outcome = _run(request, by_moments, plan, scores, spectra)
    tables |= outcome.tables
    sensitive = [m for m in by_moments if m.measure.name in ("cca", "pwcca")]
    if outcome.near_tolerance and sensitive and not request.settings.exact:
        exact_request = replace(request, settings=replace(request.settings, exact=True))
        tables |= _run(exact_request, sensitive, plan_for(exact_request), False).tables
        names = " and ".join(m.label for m in sensitive)
        precision = f"fast; {names} exact (switched: an eigenvalue lies near the rank tolerance)"
    for choice in by_rows:
        tables[choice.label] = run_rows(
            request.left, request.right, choice, request.settings, request.clusters
        )
    return Raw(
        tables={m.label: tables[m.label] for m in request.measures},
        left=outcome.left,
        right=outcome.right,
        scores=outcome.scores,
        precision=precision,
    )


def _turns(choice: Chosen) -> bool:
    """Whether the measure is invariant to rotations of either side, so that layers may be rotated first."""
    invariances = choice.declared("invariances")
    subspace = choice.declared("subspace")
    # The full rank is that of the correlation matrix of the neurons, which a rotation changes.
    ranked = subspace is not None and subspace(choice.options) == "full"
    return "orthogonal" in invariances.left and "orthogonal" in invariances.right and not ranked


def _run(
    request: Request, measures: list[Chosen], plan: EnginePlan, scores: bool, spectra: bool = False
) -> Outcome:
    return run(replace(request, measures=tuple(measures)), plan, scores=scores, spectra=spectra)


def _run_turned(request: Request, measures: list[Chosen], scores: bool, spectra: bool) -> Outcome:
    s = request.settings
    sides = [turn(t, dtype=s.dtype, device=s.device) for t in (request.left, request.right) if t is not None]
    turned = replace(request, left=sides[0].stack, right=sides[1].stack if len(sides) > 1 else None)
    outcome = _run(turned, measures, plan_for(turned), scores, spectra)
    facts = [
        # A rotation changes no eigenvalue.
        facts_of_spread(side.sumsq, layer_facts.participation, layer_facts.spectrum)
        for side, layer_facts in zip((sides[0], sides[-1]), (outcome.left, outcome.right), strict=True)
    ]
    return replace(outcome, left=facts[0], right=facts[1])


def _facts_alone(request: Request) -> Outcome:
    """Compute the layer statistics alone, where no measure needs moments."""
    sides = [request.left] if request.right is None else [request.left, request.right]
    facts = [facts_of_spread(column_spread(side, request.settings.device)) for side in sides]
    return Outcome(tables={}, left=facts[0], right=facts[-1], near_tolerance=False, scores={})
