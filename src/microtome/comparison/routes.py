"""Which way is each measure computed? By moments, by turned layers when rows are few, or by rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..measures.declare import Chosen
from ..moments.turned import turn
from .engine import run
from .plan import Plan
from .request import Request, plan_for
from .rowwise import run_rows
from .tables import LayerFacts, Outcome, Scores, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Tables of all measures, and what is known of the layers."""

    tables: dict[str, Table]
    left: LayerFacts
    right: LayerFacts
    scores: dict[str, Scores]
    precision: str


def compute(request: Request, plan: Plan | None = None, *, scores: bool = False) -> Raw:
    """
    Compute all tables of a request, each measure by the route that suits it.

    Parameters
    ----------
    request : Request
    plan : Plan, optional
    scores : bool
        Whether to read the rows again for influence scores.

    Returns
    -------
    Raw
    """
    plan = plan_for(request) if plan is None else plan
    by_rows = [m for m in request.measures if m.declared("needs") == "rows"]
    by_moments = [m for m in request.measures if m not in by_rows]
    precision = "exact" if request.settings.exact else "fast"
    if request.switched:
        precision = f"exact (switched: {request.switched})"
    tables: dict[str, Table] = {}
    widths = request.left.widths if request.right is None else (*request.left.widths, *request.right.widths)
    turnable = [m for m in by_moments if _turns(m)]
    if turnable and request.n < min(widths):
        outcome = _run_turned(request, turnable, scores)
        tables |= outcome.tables
        rest = [m for m in by_moments if m not in turnable]
        if rest:
            tables |= _run(request, rest, plan, False).tables
    else:
        # With row measures alone the moments still tell ranks, spectra and constant neurons.
        outcome = _run(request, by_moments, plan, scores)
        tables |= outcome.tables
        sensitive = [m for m in by_moments if m.measure.name in ("cca", "pwcca")]
        if outcome.near_tolerance and sensitive and not request.settings.exact:
            again = replace(request, settings=replace(request.settings, exact=True))
            tables |= _run(again, sensitive, plan_for(again), False).tables
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
    """Whether rotating either side changes nothing, so that the Gram route may be taken."""
    kept = choice.declared("invariances")
    return "orthogonal" in kept.left and "orthogonal" in kept.right and choice.measure.name != "cca"


def _run(request: Request, measures: list[Chosen], plan: Plan, scores: bool) -> Outcome:
    return run(
        request.left,
        request.right,
        measures,
        plan,
        request.settings,
        clusters=request.clusters,
        scores=scores,
        seed=request.seed,
    )


def _run_turned(request: Request, measures: list[Chosen], scores: bool) -> Outcome:
    s = request.settings
    sides = [turn(t, dtype=s.dtype, device=s.device) for t in (request.left, request.right) if t is not None]
    turned = replace(request, left=sides[0].stack, right=sides[1].stack if len(sides) > 1 else None)
    outcome = _run(turned, measures, plan_for(turned), scores)
    facts = []
    for side, found in zip((sides[0], sides[-1]), (outcome.left, outcome.right), strict=True):
        share = [(v.sort(descending=True).values.cumsum(0) / v.sum()).cpu().numpy() for v in side.sumsq]
        facts.append(
            replace(
                found,
                width=np.array([len(v) for v in side.sumsq]),
                dead=np.array([int((v == 0).sum()) for v in side.sumsq]),
                top1=np.array([v[0] for v in share]),
                top3=np.array([v[min(2, len(v) - 1)] for v in share]),
            )
        )
    return replace(outcome, left=facts[0], right=facts[1])
