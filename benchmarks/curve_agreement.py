"""Do two curves over layers run alike? Spearman's correlation of their means, with an interval over seeds.

Percentiles of a bootstrap would be too narrow: a few seeds can be drawn in few ways, and draws are noisier
than the curves themselves, which pulls their correlations towards 0. So the bootstrap tells only how far the
correlation spreads, on the scale of Fisher's z, and Student's distribution how far that is to be trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from microtome.errors import InputError, must
from microtome.inference.estimate import Estimate, Interval
from microtome.randomness import generator

DRAWS = 10_000
MEASURE = "agreement of curves"


def curve_agreement(
    one: Any, other: Any, *, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """
    Correlate the ranks of two curves, such as what is read at each layer and what is left when it is redrawn.

    Parameters
    ----------
    one, other : array_like of shape (seeds, layers) or (layers,)
        A score for each seed at the same layers. Their seeds are not pairs, and need not be as many.
    level : float
    draws : int
        Of the bootstrap.
    seed : int
        Of the bootstrap.

    Returns
    -------
    Estimate
        `n` is the number of layers. The interval is for the agreement of curves that are means of as many
        other seeds; a side with one seed stays as it is, and there is no interval where both have one.
        `details` has the numbers of seeds, and the share of draws in which it is undefined.

    References
    ----------
    Tamkin et al. 2020 compare such curves by eye.

    Examples
    --------
    >>> found = curve_agreement([[0.5, 0.6, 0.9], [0.5, 0.7, 0.8]], [[0.1, 0.3, 0.4], [0.2, 0.3, 0.5]])
    >>> found.value, found.low <= found.value <= found.high
    (1.0, True)
    """
    sides = [_table(name, given) for name, given in (("one", one), ("other", other))]
    layers = [side.shape[1] for side in sides]
    if layers[0] != layers[1]:
        raise InputError(f"curves must be over the same layers, but got {layers[0]} and {layers[1]} layers.")
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise must("draws", "a whole number above 0", draws)
    counts = [len(side) for side in sides]
    details: dict[str, Any] = {"seeds": tuple(counts)}
    said = [
        f"the {name} curve has one seed: how it would run with others is not covered."
        for name, count in zip(("first", "second"), counts, strict=True)
        if count == 1
    ]
    told = {
        "measure": MEASURE,
        "estimator": "Spearman's rank correlation of mean curves",
        "n": layers[0],
    }
    value = float(_spearman(*(side.mean(0, keepdims=True) for side in sides))[0])
    if not np.isfinite(value):
        flat = " and ".join(
            name
            for name, side in zip(("first", "second"), sides, strict=True)
            if np.ptp(_rounded(side.mean(0))) == 0
        )
        return Estimate(
            value=value,
            **told,
            reason=f"the {flat} curve is the same at all layers",
            warnings=tuple(said),
            details=MappingProxyType(details),
        )
    interval = None
    if max(counts) > 1:
        low, high, details["undefined"] = _reach(sides, value, level, draws, seed)
        interval = Interval(
            low=low,
            high=high,
            level=level,
            method=f"Student's on Fisher's z, spread by {draws:,} bootstrap draws",
            unit="seed",
            target="agreement of curves with as many other seeds",
        )
    return Estimate(
        value=value,
        **told,
        interval=interval,
        warnings=tuple(said),
        details=MappingProxyType(details),
    )


def agreement_difference(
    reads: Any, few: Any, many: Any, *, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """
    How much more does one curve run like a third than another curve does?

    Parameters
    ----------
    reads : array_like of shape (seeds, layers) or (layers,)
        What both are held against.
    few, many : array_like of shape (seeds, layers) or (layers,)
    level, draws, seed
        As in `curve_agreement`.

    Returns
    -------
    Estimate
        Agreement of `few` minus that of `many`; its interval is made of theirs, as if they erred
        independently, which is too wide rather than too narrow, since they share `reads`. Noise of seeds
        makes curves run less alike: `details` has the reliability of each curve, the share of its variance
        over layers that is not noise, and `corrected`, the difference without that noise.

    References
    ----------
    Donner and Zou 2012, Closed-form confidence intervals for functions of two numbers.
    Spearman 1904, on correlations that noise has made smaller.

    Examples
    --------
    >>> agreement_difference([0.1, 0.2, 0.3], [0.5, 0.6, 0.7], [0.7, 0.6, 0.5]).value
    2.0
    """
    options = {"level": level, "draws": draws, "seed": seed}
    sides = [curve_agreement(reads, each, **options) for each in (few, many)]
    value = sides[0].value - sides[1].value
    steady = [_reliability(_table("curve", each)) for each in (few, many)]
    with np.errstate(divide="ignore", invalid="ignore"):
        free = [one.value / np.sqrt(share) for one, share in zip(sides, steady, strict=True)]
    details = {"reliability": tuple(steady), "corrected": float(np.clip(free, -1, 1) @ [1, -1])}
    told = {
        "measure": MEASURE,
        "estimator": "difference of two of Spearman's rank correlations of mean curves",
        "n": sides[0].n,
        "warnings": tuple(dict.fromkeys(said for one in sides for said in one.warnings)),
        "details": MappingProxyType(details),
    }
    ends = [(one.low, one.high) for one in sides]
    if not np.isfinite(value) or any(low is None or high is None for low, high in ends):
        return Estimate(value=value, **told, reason=sides[0].reason or sides[1].reason)
    (low, high), (other_low, other_high) = np.array(ends, dtype=float)
    interval = Interval(
        low=float(value - np.hypot(sides[0].value - low, other_high - sides[1].value)),
        high=float(value + np.hypot(high - sides[0].value, sides[1].value - other_low)),
        level=level,
        method="from the intervals of both agreements",
        unit="seed",
        target="difference of agreements of curves with as many other seeds",
    )
    return Estimate(value=value, **told, interval=interval)


def seed_curves(
    rows: Iterable[Mapping[str, Any]], axis: str, points: Sequence[Any], **where: Any
) -> np.ndarray:
    """
    Gather one curve a seed from the rows of a result.

    Parameters
    ----------
    rows : iterable of mapping
        Of a `Result`.
    axis : str
        The column of the points: "layer" of probing, "x" of other experiments.
    points : sequence
        Which of them, in order.
    **where
        Columns and the values that they must have, such as model="bert", solver="published".

    Returns
    -------
    ndarray of shape (seeds, points)
        Seeds with a score at every point; the mean where a seed has several.
    """
    found: dict[Any, dict[Any, list[float]]] = {}
    for row in rows:
        if all(row.get(name) == value for name, value in where.items()) and row.get("score") is not None:
            found.setdefault(row.get("seed"), {}).setdefault(row.get(axis), []).append(float(row["score"]))
    kept = [
        [float(np.mean(each[point])) for point in points]
        for each in found.values()
        if all(point in each for point in points)
    ]
    if not kept:
        chosen = ", ".join(f"{name}={value!r}" for name, value in where.items()) or "all of them"
        raise InputError(
            f"rows must hold a seed with a score at every {axis} asked for, but {chosen} have none."
        )
    return np.array(kept)


def _table(name: str, given: Any) -> np.ndarray:
    found = np.atleast_2d(np.asarray(given, dtype=np.float64))
    if found.ndim != 2 or not len(found) or found.shape[1] < 3:
        raise must(f"the curves of {name!r}", "of shape (seeds, layers) with 3 layers or more", found.shape)
    if not np.isfinite(found).all():
        raise InputError(f"the curves of {name!r} must be finite everywhere, but some scores are not.")
    return found


def _reach(
    sides: Sequence[np.ndarray], value: float, level: float, draws: int, seed: int
) -> tuple[float, float, float]:
    """Ends of an interval around an agreement, and the share of draws that have none."""
    from scipy.stats import t

    draw = generator(seed, "agreement")
    drawn = [side[draw.integers(len(side), size=(draws, len(side)))].mean(1) for side in sides]
    found = _spearman(*drawn)
    known = found[np.isfinite(found)]
    if not len(known):
        return -1.0, 1.0, 1.0
    # Nearest to 1 that ranks of so many layers come to is twice this: beyond it z would be infinite.
    layers = sides[0].shape[1]
    most = 1 - 6 / (layers * (layers**2 - 1))
    center, spread = (np.arctanh(np.clip(each, -most, most)) for each in (value, known))
    fewest = min(len(side) for side in sides if len(side) > 1)
    # The variance of drawn seeds is (seeds - 1) / seeds of what it should be.
    variance = np.mean((spread - center) ** 2) * fewest / (fewest - 1)
    arm = t.ppf((1 + level) / 2, fewest - 1) * np.sqrt(variance)
    low, high = np.tanh([center - arm, center + arm])
    return float(min(low, value)), float(max(high, value)), 1 - len(known) / draws


def _reliability(side: np.ndarray) -> float:
    """Share of the variance over layers of a mean curve that is not noise of seeds; NaN with one seed."""
    if len(side) < 2:
        return float("nan")
    over_layers = side.mean(0).var(ddof=1)
    noise = side.var(axis=0, ddof=1).mean() / len(side)
    return float(np.clip(1 - noise / over_layers, 0, 1)) if over_layers > 0 else 0.0


def _rounded(means: np.ndarray) -> np.ndarray:
    """Means of the same numbers in another order differ in their last bits, which must not break ties."""
    return np.round(means, 12)


def _spearman(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Row by row, shapes (draws, layers); ties share their mean rank, and flat rows give NaN."""
    from scipy.stats import rankdata

    ranks = [rankdata(_rounded(each), axis=1) for each in (one, other)]
    centered = [each - each.mean(1, keepdims=True) for each in ranks]
    spreads = np.sqrt(np.prod([(each**2).sum(1) for each in centered], axis=0))
    shared = (centered[0] * centered[1]).sum(1)
    return np.divide(shared, spreads, out=np.full(len(shared), np.nan), where=spreads > 0)
