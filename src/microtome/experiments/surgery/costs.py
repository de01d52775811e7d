"""Costs of an intervention at every point, as the claims of surgery experiments need them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...findings.claims.claim import Bound, Claim, Quantity
from ...findings.results import Curve, SpanMap
from ...inference.baselines import Standing
from ...scores.declare import Score


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
    score : Score
    level : float
    unit : str
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
    score: Score
    level: float
    unit: str
    n: int
    seeds: tuple[int, ...]
    by_seed: np.ndarray
    family: str

    def defined(self) -> list[int]:
        """Places of the points that have a cost."""
        return [int(place) for place in np.flatnonzero(np.isfinite(self.value))]

    def quantity(self, place: int) -> Quantity:
        """The cost at one point with its own interval."""
        return Quantity(
            value=float(self.value[place]),
            low=float(self.low[place]),
            high=float(self.high[place]),
            level=self.level,
            unit=self.unit,
            seeds=self.seeds[place],
            by_seed=tuple(float(cost) for cost in self.by_seed[:, place]),
        )

    def claim(self, kind: str, place: int, *, side: str = "", **fields: Any) -> Claim:
        """A claim on one point; with a side, "most" or "least", it rests on that end of the band."""
        end = float((self.least if side == "least" else self.most)[place])
        has_bound = bool(side) and math.isfinite(end)
        return Claim(
            kind=kind,
            score=self.score.name,
            points=self.score.points,
            estimate=self.quantity(place),
            bound=Bound(side=side, value=end, family=self.family) if has_bound else None,  # pyright: ignore[reportArgumentType]
            n=self.n,
            **fields,
        )

    def clear(self, place: int, others: Sequence[int], *, most: bool = False) -> bool:
        """Whether one point costs less (or more) than each of some others, by the band."""
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
    score : Score
    family : str
    by_seed : ndarray of shape (seeds, points), optional
        The same differences of each seed.
    gain : bool
        Whether gains are wanted instead.
    """
    sign = 1.0 if score.higher_is_better == gain else -1.0
    sides = [sign * score.points * side + 0.0 for side in (curve.low, curve.high)]
    ends = [sign * score.points * side + 0.0 for side in (curve.band_low, curve.band_high)]
    low, high = sides if sign > 0 else sides[::-1]
    least, most = ends if sign > 0 else ends[::-1]
    table = np.empty((0, len(curve.x))) if by_seed is None else by_seed
    return Costs(
        value=sign * score.points * curve.values + 0.0,
        low=low,
        high=high,
        least=least,
        most=most,
        score=score,
        level=curve.level,
        unit=curve.unit,
        n=curve.n,
        seeds=curve.seeds,
        by_seed=sign * score.points * table + 0.0,
        family=family,
    )


def costs_of_spans(
    spans: SpanMap, score: Score, by_seed: Sequence[SpanMap] = ()
) -> tuple[list[tuple[int, int]], Costs]:
    """The first and last block of every span that has a cost, and their costs."""
    places = [(int(first), int(last)) for first, last in np.argwhere(np.isfinite(spans.values))]
    index = tuple(np.array(places, dtype=int).reshape(-1, 2).T)
    tables = (spans.values, spans.low, spans.high, spans.band_low, spans.band_high)
    value, low, high, least, most = (score.points * table[index] for table in tables)
    seeds = [score.points * seed_map.values[index] for seed_map in by_seed]
    return [(first + 1, last + 1) for first, last in places], Costs(
        value=value,
        low=low,
        high=high,
        least=least,
        most=most,
        score=score,
        level=spans.level,
        unit=spans.unit,
        n=spans.n,
        seeds=(spans.seeds,) * len(places),
        by_seed=np.array(seeds).reshape(len(seeds), len(places)),
        family="all spans",
    )


def baseline_claim(standing: Standing, experiment: str, model: str, subject: str = "") -> Claim:
    """The claim that nothing is concluded from a model that does not beat the majority baseline."""
    facts = {"experiment": experiment, "model": model, **standing.plain()}
    return Claim(kind="baseline", verdict="inconclusive", score=standing.score, subject=subject, facts=facts)
