"""Claims of truncation and skipping as text."""

from __future__ import annotations

from collections.abc import Mapping

from ..words import counted, number, numbered
from .claim import Claim
from .writing import ClaimKind, bound_text, digits, margin_text, measured, value_text


def _cut(claim: Claim) -> str:
    top = f"top {len(claim.layers)} of {claim.depth} layers"
    if claim.verdict == "holds":
        return (
            f"The {top} can be removed at a cost of at most {bound_text(claim)}, without training anything."
        )
    return (
        f"No cut is shown to cost at most {margin_text(claim)}; the cheapest, without the {top}, costs "
        f"{value_text(claim)}."
    )


def _head_gain(claim: Claim) -> str:
    where = f"with {counted(claim.layers[0], 'layer')} kept"
    if claim.verdict == "holds":
        return (
            f"Training the head further helps at {claim.facts['helped']} of {claim.depth} layers, most "
            f"{where}: a gain of {value_text(claim)}."
        )
    return (
        f"Training the head further is not shown to help at any layer; the largest gain, {where}, is "
        f"{value_text(claim)}."
    )


def _before_tuning(claim: Claim) -> str:
    best, score = (
        claim.layers[0],
        f"{claim.score} {number(claim.beside[claim.subject].value, digits(claim))}",
    )
    if claim.verdict != "holds":
        return (
            f"Before fine-tuning nothing is read out ({claim.subject}): no layer is shown to beat the "
            f"majority baseline; the best, layer {best}, has {score}."
        )
    return f"Before fine-tuning the best layer is {best} ({claim.subject}), with {score}."


def _before_evidence(claim: Claim) -> str:
    text = measured("")(claim)
    if "ahead" not in claim.facts:
        return text
    return (
        f"{text} The bands before and after fine-tuning do not overlap at {claim.facts['ahead']} of "
        f"{claim.depth} layers."
    )


def _one_block(claim: Claim) -> str:
    block, size = claim.layers[0], claim.facts["extreme"]
    if claim.depth == 1:
        return f"Skipping block {block} costs {value_text(claim)}."
    if claim.verdict == "holds":
        return f"Of single blocks, skipping block {block} costs {size}, {value_text(claim)}."
    doubt = "another may cost less" if size == "least" else "another may cost more"
    cost = value_text(claim)
    return f"Of single blocks, skipping block {block} costs {size} on these examples, {cost}; {doubt}."


def _span(claim: Claim) -> str:
    blocks = f"{numbered(claim.layers, 'block')} of {claim.depth}"
    if claim.verdict == "holds":
        return f"The longest span that can be skipped at a cost of at most {bound_text(claim)} is {blocks}."
    if not claim.layers:
        return f"No span costs at most {margin_text(claim)}."
    return (
        f"For no span is a cost above {margin_text(claim)} excluded; the longest that costs no more on these "
        f"examples is {blocks}."
    )


KINDS: Mapping[str, ClaimKind] = {
    "cut": ClaimKind(headline=_cut, evidence=measured("Cost")),
    "head gain": ClaimKind(headline=_head_gain, evidence=measured("Gain")),
    "before tuning": ClaimKind(headline=_before_tuning, evidence=_before_evidence),
    "one block": ClaimKind(headline=_one_block, evidence=measured("Cost")),
    "span": ClaimKind(headline=_span, evidence=measured("Cost")),
}
