"""Claims: what follows from a result, as plain typed data, and what kinds of claims share in writing it.

`render` writes claims. Bounds are rounded outward; see `microtome.rounding`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

from ..words import (
    amount,
    at_most,
    bound_for_all,
    capital,
    layer_list,
    number,
    p_value,
    with_interval,
)

Verdict = Literal["holds", "does not hold", "inconclusive"]
# A cost up to here, in points of 100 or in units of a score without points, counts as small.
MARGIN = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """
    A score, cost or gain with its own interval, in points of 100 or in units of a score without points.

    Parameters
    ----------
    value : float
    low, high : float
        NaN without an interval.
    level : float
    unit : str
        What was treated as independent.
    seeds : int
    by_seed : tuple of float
        Value of each seed, where available.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    level: float = 0.95
    unit: str = "example"
    seeds: int = 1
    by_seed: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """
    The end of a simultaneous band that a claim is decided by.

    Parameters
    ----------
    side : {"most", "least"}
    value : float
    family : str
        What the band covers, such as "all cuts".
    """

    side: Literal["most", "least"]
    value: float
    family: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    One claim of a result.

    Parameters
    ----------
    kind : str
        A key of `microtome.findings.claims.render.KINDS`.
    verdict : {"holds", "does not hold", "inconclusive"}
    score : str
    points : float
        Points per unit of the score.
    subject : str
        The arm or curve that it is about; empty where a result has only one.
    layers : tuple of int
        Layers or blocks that it is about, from 1.
    depth : int
        Number of layers or blocks of the model.
    estimate : Quantity, optional
    bound : Bound, optional
    n : int
        Number of examples; 0 where there is no one number.
    task : str
        Where a result has several.
    beside : mapping of str to Quantity
        Further quantities, by their names.
    facts : mapping of str to object
        Plain data of this kind of claim.
    """

    kind: str
    verdict: Verdict
    score: str
    points: float = 100.0
    subject: str = ""
    layers: tuple[int, ...] = ()
    depth: int = 0
    estimate: Quantity | None = None
    bound: Bound | None = None
    n: int = 0
    task: str = ""
    beside: Mapping[str, Quantity] = field(default_factory=lambda: MappingProxyType({}))
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def document(self) -> dict[str, Any]:
        """Convert the claim to data for JSON, in which NaN and infinities become null by `plain`."""
        entries = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name in ("estimate", "bound"):
            entries[name] = None if entries[name] is None else asdict(entries[name])
        beside = {name: asdict(quantity) for name, quantity in self.beside.items()}
        return {**entries, "layers": list(self.layers), "beside": beside, "facts": dict(self.facts)}


def read_claim(document: Mapping[str, Any]) -> Claim:
    """Build a claim from the output of `Claim.document`, also after a way through JSON."""
    bound = document["bound"]
    return Claim(
        **{
            **document,
            "layers": tuple(document["layers"]),
            "estimate": _quantity(document["estimate"]),
            "bound": None if bound is None else Bound(**{**bound, "value": read_number(bound["value"])}),
            "beside": MappingProxyType({name: _quantity(q) for name, q in document["beside"].items()}),
            "facts": MappingProxyType(dict(document["facts"])),
        }
    )


def verdict_of(least: float, most: float, margin: float = MARGIN) -> Verdict:
    """
    Decide whether a cost is at most a margin, by the ends of its band.

    Examples
    --------
    >>> verdict_of(0.1, 0.9), verdict_of(0.1, 1.2), verdict_of(1.1, 4.0), verdict_of(math.nan, math.nan)
    ('holds', 'inconclusive', 'does not hold', 'inconclusive')
    """
    return "holds" if most <= margin else "does not hold" if least > margin else "inconclusive"


def overlapping(values: Any, low: Any, high: Any, place: int) -> list[int] | None:
    """
    Find the layers that are not significantly different from the most extreme one.

    Where there are any, it is not shown which layer is the most extreme.

    Parameters
    ----------
    values, low, high : array of shape (layers,)
        A number for each layer with its interval; layers without a number are left out.
    place : int
        Of the most extreme number.

    Returns
    -------
    list of int or None
        Places of the other layers whose intervals overlap that of the extreme one; None where one of them
        has no interval.

    Examples
    --------
    >>> overlapping([0.9, 0.2, 0.3], [0.8, 0.1, 0.2], [1.0, 0.3, 0.4], 1)
    [2]
    """
    others = [k for k, value in enumerate(values) if k != place and math.isfinite(value)]
    if not all(math.isfinite(low[k]) and math.isfinite(high[k]) for k in (place, *others)):
        return None
    return [k for k in others if low[k] <= high[place] and low[place] <= high[k]]


def _quantity(document: Mapping[str, Any] | None) -> Any:
    if document is None:
        return None
    numbers = {name: read_number(document[name]) for name in ("value", "low", "high")}
    return Quantity(**{**document, **numbers, "by_seed": tuple(map(read_number, document["by_seed"]))})


def read_number(value: Any) -> float:
    """A number from JSON, where null stands for NaN."""
    return math.nan if value is None else float(value)


Writer = Callable[[Claim], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimKind:
    """
    How a kind of claim is written.

    Parameters
    ----------
    headline, evidence : callable
        From a claim to sentences; evidence may be empty.
    """

    headline: Writer
    evidence: Writer


def digits(claim: Claim) -> int:
    """Decimals of a headline: tenths of a point, hundredths of other units."""
    return 1 if claim.points == 100 else 2


def value_text(claim: Claim, quantity: Quantity | None = None) -> str:
    """The estimate of a claim, or another quantity, in its unit."""
    quantity = quantity or claim.estimate
    assert quantity is not None
    return amount(number(quantity.value, digits(claim)), claim.points, claim.score)


def bound_text(claim: Claim) -> str:
    """The upper end that a claim rests on; what gains something costs at most nothing."""
    assert claim.bound is not None
    return amount(at_most(max(0.0, claim.bound.value), digits(claim)), claim.points, claim.score)


def margin_text(claim: Claim) -> str:
    """The margin in the unit of the claim."""
    return amount(f"{MARGIN:g}", claim.points, claim.score)


def about(claim: Claim) -> str:
    """The arm that a claim is about, in parentheses; empty where a result has only one."""
    return f" ({claim.subject})" if claim.subject else ""


def no_evidence(_: Claim) -> str:
    """For claims that say all in their headline."""
    return ""


def score_text(claim: Claim, value: float) -> str:
    """A score in its own unit, as tables have it; claims hold scores and differences times their points."""
    return number(value / 100, 3) if claim.points == 100 else number(value)


def measured(
    noun: str,
    digits: int = 2,
    *,
    is_score: bool = False,
    points: Container[str] = (),
    shares: Container[str] = (),
) -> Writer:
    """
    Write the estimate with its interval, bound and p, further quantities, examples, and layers left out.

    Parameters
    ----------
    noun : str
        What the estimate is.
    digits : int
    is_score : bool
        Whether the estimate is a score, which stands in its own unit, and not a difference in points.
    points, shares : container of str
        Further quantities that are differences in points, or shares in percent; others are scores.
    """

    def quantity_text(claim: Claim, quantity: Quantity, *, difference: bool) -> str:
        if claim.points != 100:
            return with_interval(quantity, digits)
        if difference:
            return with_interval(quantity, digits, noun=" points")
        return with_interval(quantity, 3, scale=0.01)

    def write(claim: Claim) -> str:
        parts = []
        if (estimate := claim.estimate) is not None:
            text = quantity_text(claim, estimate, difference=not is_score)
            without = "" if math.isfinite(estimate.low + estimate.high) else ", without an interval"
            bound = claim.bound
            end = "" if bound is None else bound_for_all(bound.side, bound.value, bound.family)
            p = f", {p_value(claim.facts['p'])}" if "p" in claim.facts else ""
            parts.append(f"{noun}: {text}{without}{end}{p}")
        for name, quantity in claim.beside.items():
            if name in shares:
                text = with_interval(quantity, 1, scale=100, noun=" %")
            else:
                text = quantity_text(claim, quantity, difference=name in points)
            parts.append(f"{name}: {text}")
        parts[:1] = [capital(part) for part in parts[:1]]
        if claim.n:
            parts.append(f"n = {claim.n:,}")
        if left_out := claim.facts.get("left_out"):
            parts.append(f"left out as undefined: {layer_list(left_out)}")
        return f"{'; '.join(parts)}." if parts else ""

    return write
