"""Claims of truncation and skipping: what can be removed, and whether training the head helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ...findings.claims.claim import MARGIN, Claim, Quantity, Verdict, verdict_of
from ...findings.results import Curve, SpanMap
from ...scores.declare import Score
from ..curve_claims import above_lines, quantity_at
from .costs import Costs, costs_of_curve, costs_of_spans

NO_SEEDS: Mapping[str, np.ndarray] = MappingProxyType({})


def cut_claim(curve: Curve, score: Score, by_seed: np.ndarray | None = None) -> Claim:
    """
    Claim how many of the top layers can be removed.

    Parameters
    ----------
    curve : Curve
        Of `cut_costs`, the whole model last.
    score : Score
    by_seed : ndarray of shape (seeds, layers), optional
        The scores of each seed, UNTUNED.
    """
    depth = len(curve.x)
    differences = None if by_seed is None else by_seed - by_seed[:, -1:]
    costs = costs_of_curve(curve, score, "all cuts", differences)
    places = [place for place in costs.defined() if place < depth - 1]
    if not places:
        reason = "a model of one layer has no top layers" if depth == 1 else "no score of a cut is defined"
        facts = {"experiment": "truncation", "reason": reason}
        return Claim(kind="undefined", verdict="inconclusive", score=score.name, facts=facts)
    safe = [place for place in places if costs.most[place] <= MARGIN]
    # Of cuts that cost the same, the one that removes fewest layers.
    place = min(safe) if safe else min(places, key=lambda k: (costs.value[k], -k))
    return costs.claim(
        "cut",
        place,
        side="most",
        verdict=_within(costs, place, places),
        layers=tuple(range(place + 2, depth + 1)),
        depth=depth,
    )


def _within(costs: Costs, place: int, places: Sequence[int]) -> Verdict:
    """The verdict on a cost of at most the margin at any place; it does not hold only if it does at none."""
    if costs.most[place] <= MARGIN:
        return "holds"
    return verdict_of(min(float(costs.least[k]) for k in places), float(costs.most[place]))


def head_claims(
    curves: Mapping[str, Curve],
    score: Score,
    by_seed: Mapping[str, np.ndarray] = NO_SEEDS,
    lines: Mapping[str, float] = MappingProxyType({}),
) -> list[Claim]:
    """
    Claim what training the head gains over the tuned head, and where the encoder was best before fine-tuning.

    Parameters
    ----------
    curves : mapping of str to Curve
        By the name of the arm, and "gain", the differences of `gain_of`.
    score : Score
    by_seed : mapping of str to ndarray of shape (seeds, layers)
        The same of each seed.
    lines : mapping of str to float
        The majority baseline, where there is one: of an encoder none of whose layers is above it, none is
        called the best.
    """
    claims = []

    def at(name: str, place: int) -> Quantity:
        seeds = by_seed.get(name)
        return quantity_at(curves[name], place, score, () if seeds is None else seeds[:, place])

    gain = curves.get("gain")
    if "tuned" in curves and gain is not None and np.isfinite(gain.values).any():
        gains = costs_of_curve(gain, score, "all layers", by_seed.get("gain"), gain=True)
        helped = [place for place in gains.defined() if gains.least[place] > 0]
        place = max(helped or gains.defined(), key=lambda k: gains.value[k])
        claim = gains.claim(
            "head gain",
            place,
            side="least" if helped else "",
            verdict="holds" if helped else "inconclusive",
            layers=(place + 1,),
            depth=len(gain.x),
            beside={curves[name].name: at(name, place) for name in ("tuned", "untuned")},
            facts={"helped": len(helped)},
        )
        claims.append(claim)
    for name, after in (("tunedorig", "tuned"), ("converged before", "converged")):
        before, later = curves.get(name), curves.get(after)
        if before is None or not np.isfinite(before.values).any():
            continue
        place = int(np.nanargmax(before.values if score.higher_is_better else -before.values))
        beside, facts = {before.name: at(name, place)}, {}
        shown = above_lines(before, place, score, lines)
        if shown and later is not None and np.isfinite(later.values[place]):
            beside[later.name] = at(after, place)
            facts["ahead"] = int(np.sum(_ahead(later, before, score)))
        claims.append(
            Claim(
                kind="before tuning",
                verdict="holds" if shown else "inconclusive",
                score=score.name,
                points=score.points,
                subject=before.name,
                layers=(int(before.x[place]),),
                depth=len(before.x),
                n=before.n,
                beside=beside,
                facts=facts,
            )
        )
    return claims


def _ahead(curve: Curve, reference: Curve, score: Score) -> np.ndarray:
    """Where the band of a curve is on the better side of that of another."""
    if score.higher_is_better:
        return curve.band_low > reference.band_high
    return curve.band_high < reference.band_low


def span_claims(spans: SpanMap, score: Score, by_seed: Sequence[SpanMap] = ()) -> list[Claim]:
    """
    Claim which single blocks cost least and most, and which is the longest span that costs little.

    Parameters
    ----------
    spans : SpanMap
    score : Score
    by_seed : sequence of SpanMap
        The same of each seed.
    """
    places, costs = costs_of_spans(spans, score, by_seed)
    singles = [k for k, (first, last) in enumerate(places) if first == last]
    claims = []
    for extreme, pick in (("least", min), ("most", max)):
        if not singles or (extreme == "most" and len(singles) == 1):
            continue
        place = pick(singles, key=lambda k: costs.value[k])
        others = [k for k in singles if k != place]
        claims.append(
            costs.claim(
                "one block",
                place,
                verdict="holds" if costs.clear(place, others, most=extreme == "most") else "inconclusive",
                layers=(places[place][0],),
                depth=spans.depth,
                facts={"extreme": extreme},
            )
        )
    return [*claims, *_longest_span(spans, places, costs)]


def _longest_span(spans: SpanMap, places: Sequence[tuple[int, int]], costs: Costs) -> list[Claim]:
    if not places:
        return []
    sure, seeming = (
        [k for k in range(len(places)) if ends[k] <= MARGIN] for ends in (costs.most, costs.value)
    )
    if not seeming:
        verdict = verdict_of(float(costs.least.min()), np.inf)
        score = costs.score
        return [Claim(kind="span", verdict=verdict, score=score.name, points=score.points, depth=spans.depth)]
    place = max(sure or seeming, key=lambda k: (places[k][1] - places[k][0], -costs.value[k]))
    first, last = places[place]
    return [
        costs.claim(
            "span",
            place,
            side="most",
            verdict="holds" if sure else "inconclusive",
            layers=tuple(range(first, last + 1)),
            depth=spans.depth,
        )
    ]
