"""Statistics of costs of spans, and of quantities that results have with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...findings.results import WEAK, Result, SpanMap
from .curves import REDUCE, rank_correlation, result_of, value_of
from .values import BASELINE, NotMeasuredError, Value

if TYPE_CHECKING:
    from ..results import StudyResult


def span_cost(
    result: StudyResult,
    *,
    spans: Mapping[str, Any],
    minus: Mapping[str, Any] | None = None,
    reduce: str = "mean",
) -> Value:
    """
    The cost of leaving out spans of blocks, in points: mean, least or most.

    Parameters
    ----------
    result : StudyResult
    spans, minus : mapping
        `first`, `last`: a block; `within`: two shares of the depth between which spans lie; `shortest`,
        `longest`: their lengths; `but`: a block that they do not hold.
    reduce : {"mean", "min", "max"}
    """
    content = result_of(result)
    costs = _costs(content)
    whole = _span_ends(costs, spans, reduce)
    if minus is not None:
        other = _span_ends(costs, minus, reduce)
        whole = [whole[0] - other[0], whole[1] - other[2], whole[2] - other[1]]
    by_seed = {}
    for entry in content.spans[1:]:
        seed = entry.arm.removeprefix("seed ")
        if seed.isdecimal():
            less = 0.0 if minus is None else _span_ends(entry, minus, reduce)[0]
            by_seed[int(seed)] = content.points * (_span_ends(entry, spans, reduce)[0] - less)
    return value_of(result, [content.points * end for end in whole], costs, None, by_seed)


def span_growth(result: StudyResult) -> Value:
    """The rank correlation of the length of a span with what it costs to leave it out."""
    content = result_of(result)

    def grown(costs: SpanMap) -> float:
        first, last = np.nonzero(np.isfinite(costs.values))
        return rank_correlation(last - first, costs.values[first, last])

    runs = {
        int(entry.arm.removeprefix("seed ")): grown(entry)
        for entry in content.spans[1:]
        if entry.arm[5:].isdecimal()
    }
    costs = _costs(content)
    return value_of(result, [grown(costs), math.nan, math.nan], costs, None, runs)


def stored(result: StudyResult, *, path: Sequence[str], minus: Sequence[str] = ()) -> Value:
    """A quantity that the result has under `more` with its interval, minus a number beside it."""
    content = result_of(result)
    quantity, less = _inside(content.more, path), _inside(content.more, minus) if minus else 0.0
    if not isinstance(quantity, Mapping):
        quantity = {"value": quantity}
    value, low, high = (quantity.get(name) for name in ("value", "low", "high"))
    if value is None or less is None:
        raise NotMeasuredError(f"{'/'.join(map(str, path))} is undefined")
    level = content.curves[0].level if content.curves else math.nan
    ends = [math.nan if end is None else float(end) - float(less) for end in (value, low, high)]
    n = content.curves[0].n if content.curves else 0
    seeds = len(content.provenance.get("seeds", ())) or 1
    unit = content.curves[0].unit if content.curves else ""
    return Value(
        value=ends[0],
        low=ends[1],
        high=ends[2],
        level=level,
        unit=str(unit),
        task=result.task,
        n=n,
        seeds=seeds,
    )


def claimed(result: StudyResult, *, kind: str, subject: str = "") -> list[Value]:
    """The estimates of claims that the result makes itself, one per task."""
    content = result_of(result)
    values = [
        Value(
            value=claim.estimate.value,
            low=claim.estimate.low,
            high=claim.estimate.high,
            level=claim.estimate.level,
            unit=str(claim.estimate.unit),
            task=claim.task or result.task,
            n=claim.n,
            seeds=claim.estimate.seeds,
        )
        for claim in content.claims
        if claim.kind == kind and subject in ("", claim.subject) and claim.estimate is not None
    ]
    if not values:
        weak = content.more.get(WEAK)
        raise NotMeasuredError(BASELINE if weak else f"the result makes no claim on {kind}")
    return values


def saved(result: StudyResult, *, part: str, k: int, what: str = "backward") -> Value:
    """The share of the time of the backward pass, or of another part of an update, that freezing saves."""
    for record in result_of(result).more.get("cost", ()):
        if (record["part"], record["blocks"]) == (part, k):
            # The range over repeats is no interval: machines differ by more.
            return Value(value=1 - float(record[f"{what}_ratio"]), task=result.task)
    raise NotMeasuredError(f"time with the {part} {k} blocks frozen was not measured")


def _costs(content: Result) -> SpanMap:
    if not content.spans or WEAK in content.more:
        raise NotMeasuredError(BASELINE if content.spans else "the result has no spans")
    return content.spans[0]


def _span_ends(costs: SpanMap, which: Mapping[str, Any], reduce: str) -> list[float]:
    """Cost of some spans, with the ends of its interval."""
    depth = costs.depth
    first, last = np.indices((depth, depth)) + 1
    length = last - first + 1
    low, high = (share * depth for share in which.get("within", (0.0, 1.0)))
    some = np.isfinite(costs.values) & (first > math.floor(low + 1e-9)) & (last <= math.ceil(high - 1e-9))
    some &= (length >= which.get("shortest", 1)) & (length <= which.get("longest", depth))
    for end, numbers in (("first", first), ("last", last)):
        if end in which:
            some &= numbers == which[end]
    if "but" in which:
        some &= (first > which["but"]) | (last < which["but"])
    if not some.any():
        raise NotMeasuredError("the model has no such span of blocks")
    combine, least, most = REDUCE[reduce]
    return [float(combine(getattr(costs, name)[some])) for name in ("values", least, most)]


def _inside(document: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(document, Mapping) or name not in document:
            raise NotMeasuredError(f"the result has no {'/'.join(map(str, path))}")
        document = document[name]
    return document
