"""Costs of an intervention at every point of a curve, and the claims that follow from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...findings.claims.claim import MARGIN, Bound, Claim, Quantity, Verdict, verdict_of
from ...findings.intervals import Unit
from ...findings.results import Curve, SpanMap, X
from ...scores.declare import Score

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


def costs_of_spans(
    spans: SpanMap, score: Score, by_seed: Sequence[SpanMap] = ()
) -> tuple[list[tuple[int, int]], Costs]:
    """The first and last block of every span that has a cost, and their costs."""
    places = np.argwhere(np.isfinite(spans.values))
    index = tuple(places.T)
    ends = {"value": "values", "low": "low", "high": "high", "least": "band_low", "most": "band_high"}
    costs = Costs(
        **{name: score.points * getattr(spans, end)[index] for name, end in ends.items()},
        score=score,
        level=spans.level,
        unit=spans.unit,
        n=spans.n,
        seeds=(spans.seeds,) * len(places),
        by_seed=np.array([score.points * seed_map.values[index] for seed_map in by_seed]).reshape(
            len(by_seed), len(places)
        ),
        family="all spans",
    )
    return [(int(first) + 1, int(last) + 1) for first, last in places], costs


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
