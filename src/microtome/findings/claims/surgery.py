"""Claims of experiments that remove, freeze, re-initialize or reorder blocks, as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..words import Unit, amount, counted, coverage, number, numbered, over, p_value, percent, seeds_of
from .claim import (
    Claim,
    ClaimKind,
    Writer,
    about,
    bound_text,
    capital,
    digits,
    margin_text,
    measured,
    no_evidence,
    value_text,
)

Noun = Callable[[Claim], str]


def _top(noun: str) -> Noun:
    return lambda claim: f"the top {len(claim.layers)} of {claim.depth} {noun}"


def _part(claim: Claim) -> str:
    return f"the {claim.subject} {len(claim.layers)} of {claim.depth} blocks"


def _dropped(claim: Claim) -> str:
    # A point of random choices is no single choice of blocks.
    if not claim.layers:
        return f"{counted(claim.facts['x'], 'random block')} of {claim.depth}"
    return f"{numbered(claim.layers, 'block')} of {claim.depth}"


def _extent(change: Noun, done: str, doing: str, none: str, tail: str = "") -> Writer:
    """How much can be changed at a small cost, or from how much on the cost is larger."""

    def write(claim: Claim) -> str:
        what, arm = change(claim), "" if change is _part else about(claim)
        if claim.bound is not None and claim.bound.side == "least":
            onward = ", or more," if claim.facts["onward"] else ""
            return f"{doing} {what}{onward} costs more than {margin_text(claim)}{arm}."
        if claim.verdict == "holds":
            return f"{capital(what)} can be {done} at a cost of at most {bound_text(claim)}{tail}{arm}."
        cheapest = f"{doing.lower()} {what}, costs {value_text(claim)}"
        return f"{none} is shown to cost at most {margin_text(claim)}; the cheapest, {cheapest}{arm}."

    return write


def _extreme(doing: str) -> Writer:
    """Which of several changes costs least or most."""

    def write(claim: Claim) -> str:
        change = doing.format(blocks=numbered(claim.layers, "block"))
        extreme, cost = claim.facts["extreme"], value_text(claim)
        if claim.facts["among"] == 1:
            return f"{capital(change)} costs {cost}{about(claim)}."
        among = "single blocks" if len(claim.layers) == 1 else f"{claim.facts['among']} choices"
        if claim.verdict == "holds":
            return f"Of {among}, {change} costs {extreme}, {cost}{about(claim)}."
        doubt = "another may cost less" if extreme == "least" else "another may cost more"
        return f"Of {among}, {change} costs {extreme} on these examples, {cost}; {doubt}{about(claim)}."

    return write


def _compared(better: Callable[[Claim, bool], str], none: Writer) -> Writer:
    """Where one arm is significantly better than another, or that it is nowhere."""

    def write(claim: Claim) -> str:
        if claim.estimate is None:
            return none(claim)
        return f"{better(claim, claim.estimate.value > 0)}{about(claim)}."

    return write


def _gap(claim: Claim) -> str:
    """The size of a difference, whichever side is better."""
    assert claim.estimate is not None
    return amount(number(abs(claim.estimate.value), digits(claim)), claim.points, claim.score)


def _tested(claim: Claim) -> str:
    if claim.estimate is None:
        return ""
    p, tests = capital(p_value(claim.facts["p"])), counted(claim.facts["tests"], "test")
    return f"{p}, {over(claim.estimate.unit, seeds_of(claim.estimate))}, adjusted for {tests}."


def _sides(claim: Claim, bottom: bool) -> str:
    better, worse = ("bottom", "top") if bottom else ("top", "bottom")
    blocks = counted(claim.facts["x"], "block")
    return f"With {blocks}, freezing the {better} is better than freezing the {worse} by {_gap(claim)}"


def _no_side(claim: Claim) -> str:
    ahead, tests = claim.facts["ahead"], claim.facts["tests"]
    return (
        "Freezing the bottom is not significantly better or worse than freezing as many blocks at the top; "
        f"it scores higher at {ahead} of {counted(tests, 'number')} of blocks."
    )


def _replaced(claim: Claim, better: bool) -> str:
    blocks = counted(claim.facts["x"], "block")
    sign = "better" if better else "worse"
    return f"With {blocks} kept, re-initializing the others is {sign} than removing them by {_gap(claim)}"


def _no_replacement(claim: Claim) -> str:
    return (
        f"At none of {counted(claim.facts['tests'], 'depth')} are re-initialized blocks significantly better "
        f"or worse than none in their place{about(claim)}."
    )


def _against_random(claim: Claim) -> str:
    assert claim.estimate is not None
    facts, side = claim.facts, "below" if claim.estimate.value < 0 else "above"
    return (
        f"Dropping {counted(facts['x'], 'block')}{about(claim)} scores {_gap(claim)} {side} the mean of "
        f"random choices of as many, and above {facts['better']} of {facts['draws']} of them."
    )


def _by_rank(claim: Claim) -> str:
    return f"{capital(p_value(claim.facts['p']))}, one-sided, by rank over draws."


def _orders(claim: Claim) -> str:
    count, worse = claim.facts["orders"], claim.facts["worse"]
    names = {
        "random": "Random orders of the blocks",
        "swap": "Swaps of neighboring blocks",
        "reverse": "The reversed order of the blocks",
        "move": "Moves of one block to the top",
        "given": "Orders of your own",
    }
    verb = "costs" if claim.subject == "reverse" else "cost"
    start = f"{names[claim.subject]} {verb} {value_text(claim)}"
    if count == 1:
        return f"{start}; it is {'' if worse else 'not '}significantly worse than the original order."
    return f"{start} on average; {worse} of {count} are significantly worse than the original order."


def _orders_evidence(claim: Claim) -> str:
    assert claim.estimate is not None
    parts = []
    if math.isfinite(claim.estimate.low):
        parts.append(measured("Cost")(claim))
        if not Unit(claim.estimate.unit).runs:
            parts.append("Other seeds of the original order are not covered.")
    level = coverage(claim.estimate.level)
    parts.append(f"Single orders by the {level} band of all of them, {over(claim.facts['unit'])}.")
    return " ".join(parts)


def _correlation(claim: Claim) -> str:
    first, second = claim.facts["tasks"]
    statistic = f"{claim.score.title()}'s correlation"
    over = f"of {first} and {second} over {claim.facts['orders']} {claim.facts['over']}"
    if claim.estimate is None:
        return f"{statistic} {over} is undefined: {claim.facts['reason']}."
    return f"{statistic} {over} is {number(claim.estimate.value)}."


def _saving(claim: Claim) -> str:
    backward, memory = percent(claim.facts["backward"]), percent(claim.facts["memory"])
    return (
        f"Freezing {_part(claim)} takes {backward} of the time of the backward pass and {memory} of the "
        "memory for activations."
    )


def _halving(claim: Claim) -> str:
    onward = ", or more," if claim.facts["onward"] else ""
    return f"With {_part(claim)}{onward} frozen, the backward pass takes half of its time or less."


HEADS = {
    "tuned": "Training the head further",
    "converged": "A linear probe trained to convergence in place of the head",
}


def _head_gain(claim: Claim) -> str:
    what, facts = HEADS[claim.facts.get("head", "tuned")], claim.facts
    where = f"with {counted(claim.layers[0], 'layer')} kept"
    if claim.verdict == "inconclusive":
        largest = f"the largest gain, {where}, is {value_text(claim)}"
        return f"{what} is not shown to help at any layer; {largest}{about(claim)}."
    if claim.verdict == "does not hold":
        return (
            f"{what} is not shown to help at any layer and hurts at {facts['hurt']} of {claim.depth}, most "
            f"{where}: a loss of {_gap(claim)}{about(claim)}."
        )
    hurts = f"; it hurts at {facts['hurt']}" if facts.get("hurt") else ""
    return (
        f"{what} helps at {facts['helped']} of {claim.depth} layers, most {where}: a gain of "
        f"{value_text(claim)}{about(claim)}{hurts}."
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


_COST = measured("Cost")
KINDS: Mapping[str, ClaimKind] = {
    "cut": ClaimKind(
        headline=_extent(_top("layers"), "removed", "Removing", "No cut", ", without training anything"),
        evidence=_COST,
    ),
    "frozen": ClaimKind(
        headline=_extent(_part, "frozen", "Freezing", "No number of frozen blocks"), evidence=_COST
    ),
    "re-initialized": ClaimKind(
        headline=_extent(
            _top("blocks"), "re-initialized", "Re-initializing", "No number of re-initialized blocks"
        ),
        evidence=_COST,
    ),
    "dropped": ClaimKind(
        headline=_extent(_dropped, "dropped", "Dropping", "No number of dropped blocks"), evidence=_COST
    ),
    "one block": ClaimKind(headline=_extreme("skipping {blocks}"), evidence=_COST),
    "window": ClaimKind(headline=_extreme("re-initializing {blocks}"), evidence=_COST),
    "window kept": ClaimKind(headline=_extreme("re-initializing all but {blocks}"), evidence=_COST),
    "swap": ClaimKind(headline=_extreme("swapping {blocks}"), evidence=_COST),
    "move": ClaimKind(headline=_extreme("moving {blocks} to the top"), evidence=_COST),
    "orders": ClaimKind(headline=_orders, evidence=_orders_evidence),
    "order correlation": ClaimKind(headline=_correlation, evidence=measured("Correlation")),
    "frozen sides": ClaimKind(headline=_compared(_sides, _no_side), evidence=_tested),
    "re-initialized or removed": ClaimKind(headline=_compared(_replaced, _no_replacement), evidence=_tested),
    "against random": ClaimKind(headline=_against_random, evidence=_by_rank),
    "saving": ClaimKind(headline=_saving, evidence=no_evidence),
    "halving": ClaimKind(headline=_halving, evidence=no_evidence),
    "head gain": ClaimKind(headline=_head_gain, evidence=measured("Gain")),
    "before tuning": ClaimKind(headline=_before_tuning, evidence=_before_evidence),
    "span": ClaimKind(headline=_span, evidence=_COST),
}
