"""How claims are written: what several kinds share. Bounds are rounded outward; see `microtome.rounding`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..intervals import bound_for_all
from ..words import amount, at_most, between, number
from .claim import MARGIN, Claim, Quantity

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


def certainty(level: float, what: str, unit: str) -> str:
    """
    State the level of an interval, what it holds for, and what was treated as independent.

    Examples
    --------
    >>> certainty(0.95, "all cuts at once", "example")
    '(95 %, all cuts at once, unit: example)'
    """
    parts = (f"{round(level * 100, 6):g} %", what, f"unit: {unit}" if unit else "")
    return f"({', '.join(part for part in parts if part)})"


def capital(text: str) -> str:
    """A text as the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def about(claim: Claim) -> str:
    """The arm that a claim is about, in parentheses; empty where a result has only one."""
    return f" ({claim.subject})" if claim.subject else ""


def no_evidence(_: Claim) -> str:
    """For claims that say all in their headline."""
    return ""


def measured(noun: str) -> Writer:
    """Write the estimate with its interval, the bound, further quantities, and the number of examples."""

    def write(claim: Claim) -> str:
        parts = []
        if claim.estimate is not None:
            bound = claim.bound
            end = "" if bound is None else bound_for_all(bound.side, bound.value, bound.family)
            parts.append(f"{noun}: {with_interval(claim, claim.estimate, 'points')}{end}")
        parts += [f"{name}: {with_interval(claim, quantity, '')}" for name, quantity in claim.beside.items()]
        if claim.n:
            parts.append(f"n = {claim.n:,}")
        return f"{'; '.join(parts)}." if parts else ""

    return write


def with_interval(claim: Claim, quantity: Quantity, noun: str) -> str:
    """A quantity with its own interval, or with a remark that it has none."""
    text = f"{number(quantity.value)}{f' {noun}' if noun and claim.points == 100 else ''}"
    if not (math.isfinite(quantity.low) and math.isfinite(quantity.high)):
        return f"{text}, without an interval"
    ends = between(quantity.low, quantity.high)
    return f"{text} {ends} ({quantity.level * 100:g} %, unit: {quantity.unit})"
