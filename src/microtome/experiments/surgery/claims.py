"""Claims of surgery experiments: costs of changes, gains of heads, and comparisons of arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...context import Context
from ...findings.claims.claim import MARGIN, Claim, Quantity, verdict_of
from ...findings.intervals import Unit
from ...findings.results import Curve, SpanMap, X
from ...inference.answers import Answers
from ...inference.baselines import Standing, against_baseline
from ...inference.holm import holm
from ...inference.pairing import Comparison, compare_scores
from ...scores.declare import Score
from ...scores.table import find_score
from ...tasks.task import Task
from ..curve_claims import above_lines, best_place, quantity_at
from ..grid import GridRuns
from ..run_curves import RunPoints
from .costs import Costs, costs_of_curve, costs_of_spans, extent_claims, extreme_claims

NO_SEEDS: Mapping[str, np.ndarray] = MappingProxyType({})


def undefined_claim(experiment: str, score: Score, reason: str, subject: str = "") -> Claim:
    """The claim that nothing is concluded, for a reason of `microtome.findings.claims.general`."""
    facts = {"experiment": experiment, "reason": reason}
    return Claim(kind="undefined", verdict="inconclusive", score=score.name, subject=subject, facts=facts)


def baseline_claim(standing: Standing, experiment: str, model: str, curve: str, subject: str = "") -> Claim:
    """The claim that nothing is concluded from a model that does not beat the majority baseline."""
    facts = {"experiment": experiment, "model": model, "curve": curve, **standing.plain()}
    return Claim(kind="baseline", verdict="inconclusive", score=standing.score, subject=subject, facts=facts)


def below_baseline(task: Task, answers: Answers | None, baseline: float, context: Context) -> Standing | None:
    """
    Test whether a model fails to beat the majority baseline.

    Parameters
    ----------
    task : Task
    answers : Answers or None
        Predictions of the model without an intervention; None where all runs diverged.
    baseline : float
        Score of the baseline on the same examples; NaN where there is none.
    context : Context

    Returns
    -------
    Standing or None
        None where it beats the baseline, and where one of them is missing.
    """
    if answers is None:
        return None
    standing = against_baseline(task.main, answers, baseline, task.labels, level=context.level)
    return None if standing is None or standing.beats else standing


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
    cuts = {place: tuple(range(place + 2, depth + 1)) for place in reversed(range(depth - 1))}
    claims = extent_claims(costs, "cut", cuts, depth=depth)
    reason = "one layer" if depth == 1 else "no cut"
    return claims[0] if claims else undefined_claim("truncation", score, reason)


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
        return quantity_at(curves[name], place, score, () if seeds is None else seeds[:, place].tolist())

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
        place = None if before is None else best_place(before, score)
        if before is None or place is None:
            continue
        beside, facts = {before.name: at(name, place)}, {}
        above = above_lines(before, place, score, lines)
        if above and later is not None and np.isfinite(later.values[place]):
            beside[later.name] = at(after, place)
            facts["ahead"] = int(np.sum(_ahead(later, before, score)))
        claims.append(
            Claim(
                kind="before tuning",
                verdict="holds" if above else "inconclusive",
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
    singles = {k: (first,) for k, (first, last) in enumerate(places) if first == last}
    claims = extreme_claims(costs, "one block", singles, depth=spans.depth)
    return [*claims, *_longest_span(spans, places, costs)]


def _longest_span(spans: SpanMap, places: Sequence[tuple[int, int]], costs: Costs) -> list[Claim]:
    if not places:
        return []
    safe, small = ([k for k in range(len(places)) if ends[k] <= MARGIN] for ends in (costs.most, costs.value))
    if not small:
        verdict, score = verdict_of(float(costs.least.min()), np.inf), costs.score
        return [Claim(kind="span", verdict=verdict, score=score.name, points=score.points, depth=spans.depth)]
    place = max(safe or small, key=lambda k: (places[k][1] - places[k][0], -costs.value[k]))
    first, last = places[place]
    layers, verdict = tuple(range(first, last + 1)), "holds" if safe else "inconclusive"
    return [costs.claim("span", place, side="most", verdict=verdict, layers=layers, depth=spans.depth)]


def comparison_claims(
    kind: str, runs: GridRuns, first: RunPoints, second: RunPoints, points: Sequence[X], **fields: Any
) -> list[Claim]:
    """
    Claim at which points one arm is better than another on the same examples.

    Parameters
    ----------
    kind : str
    runs : GridRuns
    first, second : RunPoints
        Of the arms.
    points : sequence of int, float or str
        Those to compare; the ones where all runs of an arm diverged are left out.
    **fields
        Further fields of the claims.

    Returns
    -------
    list of Claim
        One per significant difference with Holm's correction over points, positive where the first arm is
        better; one that there is none.
    """
    score, level = find_score(runs.task.main), runs.context.level
    pairs = [(x, first.at(x), second.at(x)) for x in points]
    comparisons = [
        (x, compare_scores(score, answers, reference, labels=runs.task.labels, level=level))
        for x, answers, reference in pairs
        if answers is not None and reference is not None
    ]
    if not comparisons:
        return []
    gains = [comparison.difference * comparison.points for _, comparison in comparisons]
    facts = {"tests": len(comparisons), "ahead": sum(gain > 0 for gain in gains)}
    about = {"kind": kind, "score": score.name, "points": score.points, **fields}
    adjusted = holm([comparison.p for _, comparison in comparisons])
    claims = []
    for (x, comparison), gain, p in zip(comparisons, gains, adjusted, strict=True):
        if p < 1 - level:
            estimate = Quantity(value=gain, level=level, unit=tested_unit(comparison))
            numbers = {"verdict": "holds", "estimate": estimate, "n": comparison.n}
            claims.append(Claim(**about, **numbers, facts={**facts, "x": x, "p": p}))
    return claims or [Claim(verdict="inconclusive", facts=facts, **about)]


def tested_unit(comparison: Comparison) -> Unit:
    """The unit that the test of a comparison takes as independent."""
    if comparison.interval is not None:
        return Unit(comparison.interval.unit)
    return Unit("example", "seed" if max(comparison.seeds) > 1 else "")
