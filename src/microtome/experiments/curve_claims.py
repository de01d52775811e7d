"""Places of curves over layers that claims are about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..findings.claims.claim import Quantity
from ..findings.results import Curve
from ..scores.declare import Score


def best_place(curve: Curve, score: Score) -> int | None:
    """Where a curve is best, whichever way the score runs; None where it has no value."""
    if np.isnan(curve.values).all():
        return None
    return int(np.nanargmax(curve.values if score.higher_is_better else -curve.values))


def above_lines(curve: Curve, place: int, score: Score, lines: Mapping[str, float]) -> bool:
    """Whether the band at a place is better than all that can be had without any layer."""
    defined = [value for value in lines.values() if math.isfinite(value)]
    if score.higher_is_better:
        return all(curve.band_low[place] > value for value in defined)
    return all(curve.band_high[place] < value for value in defined)


def quantity_at(curve: Curve, place: int, score: Score, by_seed: Sequence[float] = ()) -> Quantity:
    """The value of a curve at a place with its interval, in points of the score."""
    value, low, high = (score.points * float(line[place]) for line in (curve.values, curve.low, curve.high))
    return Quantity(
        value=value,
        low=low,
        high=high,
        level=curve.level,
        unit=curve.unit,
        seeds=curve.seeds[place],
        by_seed=tuple(score.points * float(value) for value in by_seed),
    )
