"""Claims of surgery experiments: costs of changes, gains of heads, and comparisons of arms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from ...context import Context
from ...findings.claims.claim import MARGIN, Bound, Claim, Quantity, Verdict, verdict_of
from ...findings.results import Curve, X
from ...findings.words import Unit
from ...inference.answers import Answers
from ...inference.pairing import Comparison, compare_scores, holm
from ...inference.seeds import Standing, against_baseline
from ...scores.declare import Score
from ...scores.table import find_score
from ...tasks.task import Task
from ..grid import GridRuns
from ..result import above_lines, best_place, quantity_at
from ..run_curves import RunPoints
from ..truncation_curves import GAINS

NO_SEEDS: Mapping[str, np.ndarray] = MappingProxyType({})
Blocks = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costs:
    """
    Costs, in points of 100 or in units of a score without points; positive where something is lost.

    Parameters
    ----------
    value, low, high : ndarray of shape (points,)
        With the interval of each point.
    least, most : ndarray of shape (points,)
        Ends of the simultaneous band, by which claims are decided.
    x : tuple
        Of each point; empty for spans.
    score : Score
    level : float
    unit : Unit
    n : int
    seeds : tuple of int
        Number of runs of each point.
    by_seed : ndarray of shape (seeds, points)
        Without rows where it is not known.
    family : str
        What the band covers, such as "all cuts".
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    least: np.ndarray
    most: np.ndarray
    x: tuple[X, ...] = ()
    score: Score
    level: float
    unit: Unit
    n: int
    seeds: tuple[int, ...]
    by_seed: np.ndarray
    family: str

    def claim(
        self, kind: str, place: int, *, side: Literal["", "most", "least"] = "", **fields: Any
    ) -> Claim:
        """A claim on one point; with a side it rests on that end of the band."""
        bound = None
        if side:
            end = float((self.least if side == "least" else self.most)[place])
            bound = Bound(side=side, value=end, family=self.family) if math.isfinite(end) else None
        estimate = Quantity(
            value=float(self.value[place]),
            low=float(self.low[place]),
            high=float(self.high[place]),
            level=self.level,
            unit=self.unit,
            seeds=self.seeds[place],
            by_seed=tuple(float(cost) for cost in self.by_seed[:, place]),
        )
        about: dict[str, Any] = {"score": self.score.name, "points": self.score.points, "n": self.n}
        about["facts"] = {**({"x": self.x[place]} if self.x else {}), **fields.pop("facts", {})}
        return Claim(kind=kind, estimate=estimate, bound=bound, **about, **fields)

    def defined(self, places: Mapping[int, Any] | None = None) -> list[int]:
        """Places, among some or all, of the points that have a cost."""
        among = range(len(self.value)) if places is None else places
        return [place for place in among if math.isfinite(self.value[place])]

    def clear(self, place: int, others: Sequence[int], *, most: bool) -> bool:
        """Whether one point costs most, or least, of some by the band."""
        if most:
            return all(self.least[place] > self.most[k] for k in others)
        return all(self.most[place] < self.least[k] for k in others)


def costs_of_curve(
    curve: Curve, score: Score, family: str, by_seed: np.ndarray | None = None, *, gain: bool = False
) -> Costs:
    """
    Turn a curve of differences into costs.

    Parameters
    ----------
    curve : Curve
        Score of each point minus that of the reference.
    score : Score
    family : str
        The points that the band covers, in words.
    by_seed : ndarray of shape (seeds, points), optional
        The same differences of each seed.
    gain : bool
        Whether positive values are gains instead.
    """
    sign = score.points if score.higher_is_better == gain else -score.points
    sides = (("low", "band_low"), ("high", "band_high"))
    (low, least), (high, most) = sides if sign > 0 else sides[::-1]
    ends = {"value": "values", "low": low, "high": high, "least": least, "most": most}
    table = np.empty((0, len(curve.x))) if by_seed is None else by_seed
    return Costs(
        **{name: sign * getattr(curve, end) + 0.0 for name, end in ends.items()},
        x=curve.x,
        score=score,
        level=curve.level,
        unit=curve.unit,
        n=curve.n,
        seeds=curve.seeds,
        by_seed=sign * table + 0.0,
        family=family,
    )


def extent_claims(costs: Costs, kind: str, changes: Mapping[int, Blocks], **fields: Any) -> list[Claim]:
    """
    Claim how much can be changed at a small cost, and from how much on the cost is larger.

    Parameters
    ----------
    costs : Costs
    kind : str
        Of the claims; the second has a lower bound.
    changes : mapping of int to tuple of int
        Layers or blocks that are changed, by place in the costs, from the smallest change to the largest one.
    **fields
        Further fields of the claims.
    """
    places = costs.defined(changes)
    if not places:
        return []
    safe = [place for place in places if costs.most[place] <= MARGIN]
    place = safe[-1] if safe else min(places, key=lambda k: costs.value[k])
    # That the cost is small does not hold only if it is small at no place.
    verdict: Verdict = (
        "holds" if safe else verdict_of(min(float(costs.least[k]) for k in places), float(costs.most[place]))
    )
    claims = [costs.claim(kind, place, side="most", verdict=verdict, layers=changes[place], **fields)]
    costly = [place for place in changes if costs.least[place] > MARGIN]
    if costly:
        larger = list(changes)[list(changes).index(costly[0]) :]
        # "Or more" is a claim about every larger change.
        facts = {**fields.pop("facts", {}), "onward": len(larger) > 1 and larger == costly}
        more = {"layers": changes[costly[0]], "facts": facts, **fields}
        claims.append(costs.claim(kind, costly[0], side="least", verdict="holds", **more))
    return claims


def extreme_claims(costs: Costs, kind: str, changes: Mapping[int, Blocks], **fields: Any) -> list[Claim]:
    """
    Claim which of several changes cost least and most.

    Parameters
    ----------
    costs : Costs
    kind : str
    changes : mapping of int to tuple of int
        Blocks that are changed, by place in the costs.
    **fields
        Further fields of the claims.
    """
    places, claims = costs.defined(changes), []
    facts = fields.pop("facts", {})
    for extreme, pick in (("least", min), ("most", max)):
        if not places or (extreme == "most" and len(places) == 1):
            continue
        place = pick(places, key=lambda k: costs.value[k])
        others = [k for k in places if k != place]
        verdict = "holds" if costs.clear(place, others, most=extreme == "most") else "inconclusive"
        more = {"facts": {**facts, "extreme": extreme, "among": len(places)}, **fields}
        claims.append(costs.claim(kind, place, verdict=verdict, layers=changes[place], **more))
    return claims


def undefined_claim(experiment: str, score: Score, reason: str, subject: str = "") -> Claim:
    """The claim that nothing is concluded, for a reason of `microtome.findings.claims.render`."""
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
        Of `cut_costs`, the whole model last; its arm is what is cut.
    score : Score
    by_seed : ndarray of shape (seeds, layers), optional
        The scores of each seed, UNTUNED.
    """
    depth = len(curve.x)
    differences = None if by_seed is None else by_seed - by_seed[:, -1:]
    costs = costs_of_curve(curve, score, "all cuts", differences)
    cuts = {place: tuple(range(place + 2, depth + 1)) for place in reversed(range(depth - 1))}
    claims = extent_claims(costs, "cut", cuts, subject=curve.arm, depth=depth)
    reason = "one layer" if depth == 1 else "no cut"
    return claims[0] if claims else undefined_claim("truncation", score, reason)


def head_claims(
    curves: Mapping[str, Curve],
    score: Score,
    by_seed: Mapping[str, np.ndarray] = NO_SEEDS,
    lines: Mapping[str, float] = MappingProxyType({}),
) -> list[Claim]:
    """
    Claim what heads gain over the tuned head or lose, and where the encoder was best before fine-tuning.

    Parameters
    ----------
    curves : mapping of str to Curve
        By the name of the arm; the differences of `gain_of` by those of `GAINS`.
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

    for arm, name in GAINS.items():
        gain = curves.get(name)
        if gain is not None and np.isfinite(gain.values).any():
            gains = costs_of_curve(gain, score, "all layers", by_seed.get(name), gain=True)
            helped = [place for place in gains.defined() if gains.least[place] > 0]
            hurt = [place for place in gains.defined() if gains.most[place] < 0]
            best = max(helped or gains.defined(), key=lambda k: gains.value[k])
            place = min(hurt, key=lambda k: gains.value[k]) if hurt and not helped else best
            claim = gains.claim(
                "head gain",
                place,
                side="least" if helped else "most" if hurt else "",
                verdict="holds" if helped else "does not hold" if hurt else "inconclusive",
                subject=curves[arm].name,
                layers=(place + 1,),
                depth=len(gain.x),
                beside={curves[name].name: at(name, place) for name in (arm, "untuned")},
                facts={"head": arm, "helped": len(helped), "hurt": len(hurt)},
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
