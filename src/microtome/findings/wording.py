"""Claims as text: a headline for readers of a paper, and the evidence behind it.

`KINDS` has one line per kind of claim. Bounds are rounded outward; see `microtome.rounding`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .claims import MARGIN, Claim, Quantity
from .intervals import bound_for_all, with_own_interval
from .words import amount, at_most, counted, number, numbered

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


def headline(claim: Claim) -> str:
    """The claim in one sentence that needs no manual."""
    return KINDS[claim.kind].headline(claim)


def evidence(claim: Claim) -> str:
    """Estimate, interval, unit, bound, examples and seeds of a claim; empty where it needs none."""
    return KINDS[claim.kind].evidence(claim)


def render(claim: Claim, style: str = "full") -> str:
    """
    Write a claim.

    Parameters
    ----------
    claim : Claim
    style : {"full", "headline", "evidence"}
        "full" is the headline followed by the evidence.
    """
    if style != "full":
        return {"headline": headline, "evidence": evidence}[style](claim)
    return " ".join(part for part in (headline(claim), evidence(claim)) if part)


def _digits(claim: Claim) -> int:
    """Decimals of a headline: tenths of a point, hundredths of other units."""
    return 1 if claim.points == 100 else 2


def _value(claim: Claim, quantity: Quantity | None = None) -> str:
    quantity = quantity or claim.estimate
    assert quantity is not None
    return amount(number(quantity.value, _digits(claim)), claim.points, claim.score)


def _bound(claim: Claim) -> str:
    """The upper end that a claim rests on; what gains something costs at most nothing."""
    assert claim.bound is not None
    return amount(at_most(max(0.0, claim.bound.value), _digits(claim)), claim.points, claim.score)


def _margin(claim: Claim) -> str:
    return amount(f"{MARGIN:g}", claim.points, claim.score)


def _no_evidence(_: Claim) -> str:
    return ""


def _measured(noun: str) -> Writer:
    """Write the estimate with its interval, the bound, further quantities, and the number of examples."""

    def write(claim: Claim) -> str:
        parts = []
        if claim.estimate is not None:
            bound = claim.bound
            end = "" if bound is None else bound_for_all(bound.side, bound.value, bound.family)
            parts.append(f"{noun}: {_with_interval(claim, claim.estimate, 'points')}{end}")
        parts += [f"{name}: {_with_interval(claim, quantity, '')}" for name, quantity in claim.beside.items()]
        if claim.n:
            parts.append(f"n = {claim.n:,}")
        return f"{'; '.join(parts)}." if parts else ""

    return write


def _with_interval(claim: Claim, quantity: Quantity, noun: str) -> str:
    text = with_own_interval(
        quantity.value,
        quantity.low,
        quantity.high,
        level=quantity.level,
        unit=quantity.unit,
        noun=noun if claim.points == 100 else "",
        seeds=quantity.seeds,
        by_seed=quantity.by_seed,
        points=claim.points,
    )
    has_interval = math.isfinite(quantity.low) and math.isfinite(quantity.high)
    return text if has_interval else f"{text}, without an interval"


def _baseline(claim: Claim) -> str:
    model, ahead = claim.facts["model"], claim.facts["ahead"]
    verb = "is not shown to beat" if ahead else "does not beat"
    return (
        f"Nothing is concluded about {claim.facts['experiment']}: {model} {verb} the majority baseline "
        f"({claim.score} {claim.facts['value']:.3f} against {claim.facts['baseline']:.3f})."
    )


def _undefined(claim: Claim) -> str:
    return f"Nothing is concluded about {claim.facts['experiment']}: {claim.facts['reason']}."


def _cut(claim: Claim) -> str:
    top = f"top {len(claim.layers)} of {claim.depth} layers"
    if claim.verdict == "holds":
        return f"The {top} can be removed at a cost of at most {_bound(claim)}, without training anything."
    return (
        f"No cut is shown to cost at most {_margin(claim)}; the cheapest, without the {top}, costs "
        f"{_value(claim)}."
    )


def _head_gain(claim: Claim) -> str:
    where = f"with {counted(claim.layers[0], 'layer')} kept"
    if claim.verdict == "holds":
        return (
            f"Training the head further helps at {claim.facts['helped']} of {claim.depth} layers, most "
            f"{where}: a gain of {_value(claim)}."
        )
    return (
        f"Training the head further is not shown to help at any layer; the largest gain, {where}, is "
        f"{_value(claim)}."
    )


def _before_tuning(claim: Claim) -> str:
    best, score = (
        claim.layers[0],
        f"{claim.score} {number(claim.beside[claim.subject].value, _digits(claim))}",
    )
    if claim.verdict != "holds":
        return (
            f"Before fine-tuning nothing is read out ({claim.subject}): no layer is shown to beat the "
            f"majority baseline; the best, layer {best}, has {score}."
        )
    return f"Before fine-tuning the best layer is {best} ({claim.subject}), with {score}."


def _before_evidence(claim: Claim) -> str:
    text = _measured("")(claim)
    if "ahead" not in claim.facts:
        return text
    return (
        f"{text} The bands before and after fine-tuning do not overlap at {claim.facts['ahead']} of "
        f"{claim.depth} layers."
    )


def _one_block(claim: Claim) -> str:
    block, size = claim.layers[0], claim.facts["extreme"]
    if claim.depth == 1:
        return f"Skipping block {block} costs {_value(claim)}."
    if claim.verdict == "holds":
        return f"Of single blocks, skipping block {block} costs {size}, {_value(claim)}."
    doubt = "another may cost less" if size == "least" else "another may cost more"
    return (
        f"Of single blocks, skipping block {block} costs {size} on these examples, {_value(claim)}; {doubt}."
    )


def _span(claim: Claim) -> str:
    blocks = f"{numbered(claim.layers, 'block')} of {claim.depth}"
    if claim.verdict == "holds":
        return f"The longest span that can be skipped at a cost of at most {_bound(claim)} is {blocks}."
    if not claim.layers:
        return f"No span costs at most {_margin(claim)}."
    return (
        f"For no span is a cost above {_margin(claim)} excluded; the longest that costs no more on these "
        f"examples is {blocks}."
    )


KINDS: dict[str, ClaimKind] = {
    "baseline": ClaimKind(headline=_baseline, evidence=_no_evidence),
    "undefined": ClaimKind(headline=_undefined, evidence=_no_evidence),
    "cut": ClaimKind(headline=_cut, evidence=_measured("Cost")),
    "head gain": ClaimKind(headline=_head_gain, evidence=_measured("Gain")),
    "before tuning": ClaimKind(headline=_before_tuning, evidence=_before_evidence),
    "one block": ClaimKind(headline=_one_block, evidence=_measured("Cost")),
    "span": ClaimKind(headline=_span, evidence=_measured("Cost")),
}
