"""Claims about similarity maps as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..stackblocks import StackBlocks, read_blocks
from ..words import at_least, at_most, between, certainty, listed, number, numbered, percent
from .claim import Claim, ClaimKind, no_evidence

POPULATION = "population value"


def _changed(claim: Claim) -> str:
    facts, layer = claim.facts, claim.layers[0]
    value = f"{claim.score} {number(_estimate(claim).value, _digits(claim))}"
    pair = f"between {facts['model']} and {facts['against']}"
    if facts["equal"]:
        return f"No layer differs more {pair} than another: {value} at all of them."
    if claim.verdict == "holds" or facts["others_least"] is None:
        sample = "" if claim.verdict == "holds" else " in this sample"
        if facts["tuned"]:
            return f"Fine-tuning changed layer {layer} of {facts['model']} most{sample}: {value}."
        return f"Layer {layer} differs most {pair}{sample}: {value}."
    question = f"of {facts['model']} fine-tuning changed most" if facts["tuned"] else f"differs most {pair}"
    near = numbered(facts["overlapping"], "layer")
    return (
        f"Which layer {question} is not shown: layer {layer} is lowest, {value}, and the intervals of {near} "
        "reach as low."
    )


def _changed_evidence(claim: Claim) -> str:
    facts, estimate, parts = claim.facts, _estimate(claim), []
    if math.isfinite(estimate.low) and math.isfinite(estimate.high):
        digits = _digits(claim)
        others = ""
        if claim.verdict == "holds":
            others = f", every other layer at least {at_least(facts['others_least'], digits)}"
        ends = between(estimate.low, estimate.high, digits)
        parts.append(f"Similarity: {number(estimate.value, digits)} {ends}{others} {_how(claim, 'layer')}.")
    elif not facts["equal"]:
        parts.append("The similarity has no interval.")
    if facts["center"] is not None and math.isfinite(facts["center"]):
        noun = "change" if facts["tuned"] else "difference"
        parts.append(
            f"The center of the {noun} is at layer {number(facts['center'], 1)} (layers {facts['first']} to "
            f"{facts['last']}), and the upper third holds {percent(facts['top_third'])} of it "
            f"({percent(facts['even'])} if every block added as much)."
        )
    if facts["left_out"]:
        parts.append(f"Left out as undefined: {numbered(facts['left_out'], 'layer')}.")
    return " ".join([*parts, *_unrelated(claim)])


def _digits(claim: Claim) -> int:
    """Enough decimals to tell a similarity from 1, and its interval from those of the other layers."""
    estimate, others = _estimate(claim), claim.facts["others_least"]
    far = 1 - estimate.value
    digits = 3 if far <= 0 else min(6, max(3, 1 + math.ceil(-math.log10(far))))
    if others is not None and others > estimate.high:
        while digits < 6 and float(at_most(estimate.high, digits)) >= float(at_least(others, digits)):
            digits += 1
    return digits


def _matching(claim: Claim) -> str:
    facts = claim.facts
    return (
        f"{percent(_estimate(claim).value)} of the layers of {facts['model']} are most similar to the layer "
        f"of {facts['against']} at their own depth (chance: {percent(facts['chance'])})."
    )


def _matching_evidence(claim: Claim) -> str:
    facts, share = claim.facts, _estimate(claim)
    low, high = at_least(100 * share.low, 0), at_most(100 * share.high, 0)
    ties = f" Ties: {numbered(facts['ties'], 'layer')}." if facts["ties"] else ""
    return (
        f"Share: {percent(share.value)} [{low} %, {high} %] {certainty(share.level, '', share.unit)}; "
        f"{percent(facts['within_one'])} are most similar to one within a layer of it, of {claim.depth} "
        f"layers, by {claim.score}.{ties}"
    )


def _alike(claim: Claim) -> str:
    sample = "" if claim.facts["intervals"] else " in this sample"
    return (
        f"{numbered(claim.layers, 'layer').capitalize()} of {claim.facts['model']} are alike{sample}: "
        f"{claim.score} is at least {_least(claim)} between any two."
    )


def _alike_evidence(claim: Claim) -> str:
    basis = f"Bound: {_least(claim)} {_how(claim, 'pair')}." if claim.facts["intervals"] else "No intervals."
    return " ".join([basis, f"n = {claim.n:,}.", *_unrelated(claim)])


def _none_alike(claim: Claim) -> str:
    verb = "is shown to be" if claim.facts["intervals"] else "is"
    return (
        f"No run of 3 layers of {claim.facts['model']} {verb} alike, at {claim.score} 0.90 or more between "
        "any two."
    )


def _none_alike_evidence(claim: Claim) -> str:
    how = _how(claim, "pair") if claim.facts["intervals"] else "in this sample"
    if claim.bound is None:
        return " ".join([f"n = {claim.n:,}.", *_unrelated(claim)])
    highest = f"Highest are {numbered(claim.layers, 'layer')}, at least {_least(claim)} {how}."
    return " ".join([highest, f"n = {claim.n:,}.", *_unrelated(claim)])


def _undefined(claim: Claim) -> str:
    reasons = "; ".join(claim.facts["reasons"]) or "no reason is known"
    return f"Undefined in {claim.score}: {listed(claim.facts['names'])} ({reasons})."


def _localization(claim: Claim) -> str:
    (highest, lowest), (most, least) = claim.facts["names"], claim.facts["scores"]
    return (
        f"Of the {claim.depth} layers compared, localization is highest in {highest} ({number(most)}) and "
        f"lowest in {lowest} ({number(least)})."
    )


def _localization_evidence(_: Claim) -> str:
    return "No interval; scores depend on the set of layers compared."


def _blocks(claim: Claim) -> str:
    blocks = _stack(claim)
    return f"{blocks.stack}: {blocks.finding.headline(blocks.numbers)}"


def _blocks_evidence(claim: Claim) -> str:
    blocks = _stack(claim)
    return blocks.finding.evidence(blocks.numbers)


def _stack(claim: Claim) -> StackBlocks:
    return read_blocks(claim.facts)


def _estimate(claim: Claim) -> Any:
    return claim.estimate


def _least(claim: Claim) -> str:
    return at_least(math.nan if claim.bound is None else claim.bound.value)


def _how(claim: Claim, noun: str) -> str:
    facts = claim.facts
    what = f"all {noun}s at once" if facts["together"] else f"each {noun} alone"
    target = facts["target"]
    return certainty(
        facts["level"], f"{what}; for the {target}" if target not in ("", POPULATION) else what, facts["unit"]
    )


def _unrelated(claim: Claim) -> list[str]:
    value = claim.facts["unrelated"]
    return [] if value is None else [f"Unrelated layers would give up to {at_most(value)}."]


KINDS: Mapping[str, ClaimKind] = {
    "changed layer": ClaimKind(headline=_changed, evidence=_changed_evidence),
    "matching layers": ClaimKind(headline=_matching, evidence=_matching_evidence),
    "alike layers": ClaimKind(headline=_alike, evidence=_alike_evidence),
    "no alike layers": ClaimKind(headline=_none_alike, evidence=_none_alike_evidence),
    "undefined layers": ClaimKind(headline=_undefined, evidence=no_evidence),
    "localization": ClaimKind(headline=_localization, evidence=_localization_evidence),
    "blocks": ClaimKind(headline=_blocks, evidence=_blocks_evidence),
}
