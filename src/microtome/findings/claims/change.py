"""Claims about change, domains, tuning methods, single neurons and trainings as text."""

from __future__ import annotations

from collections.abc import Mapping

from ..blocks import form_blocks
from ..words import amount, between, capital, certainty, counted, layer_list, listed, number, small_number
from .claim import Claim, ClaimKind, Writer, measured, no_evidence, score_text

STEP = "step {:,}".format
# Names of quantities that are shares, which are written in percent.
SHARES = ("share of the upper third", "the same if every block added as much")


def _about(sentence: Writer) -> Writer:
    """Name the measure, and where there are several the tuning method, before a sentence."""

    def write(claim: Claim) -> str:
        method = claim.facts.get("method")
        return f"By {claim.subject}, {f'with {method} tuning, ' if method else ''}{sentence(claim)}"

    return write


def _value(claim: Claim, digits: int, scale: float = 1.0) -> str:
    return "undefined" if claim.estimate is None else number(claim.estimate.value * scale, digits)


def _beyond_seeds(claim: Claim) -> str:
    if claim.verdict == "inconclusive":
        return "no layer is shown to have changed more than two fine-tuning seeds differ."
    side, reason = ("less", "") if claim.facts["further"] else ("more", ": seeds changed them differently")
    where = layer_list(claim.layers)
    return f"tuned models are significantly {side} similar to the base than to each other in {where}{reason}."


def _center(claim: Claim) -> str:
    if claim.facts["reason"] is not None:
        return f"the center of the change is undefined: {claim.facts['reason']}."
    (first, last), against = claim.facts["span"], ""
    if "apart" in claim.facts:
        sides = {"above": "above", "below": "below", "neither": "not significantly apart from"}
        against = f", {sides[claim.facts['apart']]} that of {claim.facts['reference']} tuning"
    return (
        f"{_most_changed(claim)}; the center of the change is at layer {_value(claim, 1)} of {first} to "
        f"{last}{against}."
    )


def _most_changed(claim: Claim, measure: str = "") -> str:
    """Which layer changed most, where it is shown."""
    layer, near = claim.layers[0], claim.facts.get("overlapping")
    by = f"{small_number(claim.facts['largest'])}{measure}"
    if not near:
        return f"layer {layer} changed most{' in this sample' if near is None else ''} ({by})"
    return (
        f"which layer changed most is not shown (layer {layer} by {by}, and the intervals of "
        f"{layer_list(near)} reach as far)"
    )


def _domains(claim: Claim) -> str:
    where = (
        f"; layer by layer, it differs significantly in {layer_list(claim.layers)}" if claim.layers else ""
    )
    if claim.verdict == "holds":
        return f"sentences from outside stay closer to the base than those of the task{where}."
    if claim.verdict == "does not hold":
        return f"sentences of the task stay closer to the base than those from outside{where}."
    return f"the change of sentences of the task is not significantly different from that of others{where}."


def _matched(claim: Claim) -> str:
    if not claim.facts["learned"]:
        return (
            "No tuning method scores above the majority baseline: nothing was learned, and the changes show "
            "that."
        )
    if claim.estimate is None:
        name, score = next(iter(claim.beside.items()))
        return f"{capital(name)} has {claim.score} {score_text(claim, score.value)} on {claim.subject}."
    gap = amount(_value(claim, 1), claim.points, claim.score)
    matched = f"matched to within {gap}" if claim.verdict == "holds" else f"not matched, they lie {gap} apart"
    doubt = "" if claim.verdict == "holds" else ": other rates may bring them closer"
    if claim.facts["apart"]:
        doubt = f": what differs between {listed(claim.facts['apart'])} may be due to the score"
    return f"The scores of the tuning methods on {claim.subject} are {matched}{doubt}."


def _neurons(claim: Claim) -> str:
    (most, least), direction = claim.facts["extremes"], claim.facts["direction"]
    doubts = [
        f" (not shown: the intervals of {counted(len(near), 'other layer')} reach as far)" if near else ""
        for near in claim.facts.get("overlapping", [[], []])
    ]
    where = f"most in layer {most}{doubts[0]} and least in layer {least}{doubts[1]}"
    return f"Beyond random rotations, single neurons ({direction}) count {where}."


def _course_change(claim: Claim) -> str:
    first, last = map(STEP, claim.facts["steps"])
    if claim.facts["reason"] is not None:
        return f"How far {last} is from {first} is undefined: {claim.facts['reason']}."
    if not claim.layers:
        return f"No layer changed from {first} to {last}."
    return f"From {first} to {last}, {_most_changed(claim, f' by {claim.subject}')}."


def _course_blocks(claim: Claim) -> str:
    certain, count = claim.facts["certain"], claim.facts["checkpoints"]
    if claim.facts["reason"] is not None:
        return f"Blocks of layers are undefined: {claim.facts['reason']}."
    if not certain:
        return f"At none of {count} checkpoints is a block of layers certain."
    step, blocks = certain[-1]
    where = f"at {STEP(step)} {form_blocks(blocks)}"
    return f"Blocks of layers are certain at {len(certain)} of {count} checkpoints; {where}."


def _course_score(claim: Claim) -> str:
    first, last = map(STEP, claim.facts["steps"])
    baseline = " (the majority baseline)" if claim.facts["baseline"] else ""
    start, end = number(claim.beside["start"].value / claim.points, 3), _value(claim, 3, 1 / claim.points)
    task, by = claim.facts["task"], claim.subject
    return f"{claim.score} on {task} ({by}) goes from {start} at {first}{baseline} to {end} at {last}."


_ORDERS = {
    "before": "Blocks appear before the score rises",
    "with": "Blocks appear when the score rises, as far as the checkpoints can tell",
    "after": "Blocks appear after the score rises",
    "inconclusive": "Whether blocks appear before or after the score rises is inconclusive",
}


def _onset(claim: Claim) -> str:
    reason = claim.facts["reason"]
    return f"{_ORDERS[claim.facts['order']]}{'' if reason is None else f': {reason}'}."


def _onset_evidence(claim: Claim) -> str:
    if claim.estimate is None:
        return ""
    steps = claim.facts["steps"]

    def place(value: float, word: str = "") -> str:
        below = int(value)
        if value == below:
            return f"{word}{STEP(steps[below])}"
        return f"between steps {steps[below]:,} and {steps[below + 1]:,}"

    block, score = place(claim.facts["block"]), place(claim.facts["score"], "at ")
    value, ends = claim.estimate.value, (claim.estimate.low, claim.estimate.high)
    difference = f"{number(value, 1)} {between(*ends, 1)} checkpoints"
    return (
        f"A block is certain from {block} on, and half of the score's gain is reached {score}; block minus "
        f"score: {difference} {certainty(claim.estimate.level, '', claim.estimate.unit)}."
    )


KINDS: Mapping[str, ClaimKind] = {
    "beyond seeds": ClaimKind(
        headline=_about(_beyond_seeds),
        evidence=measured("Base and tuned minus two seeds, in the layer where this is most extreme", 3),
    ),
    "change center": ClaimKind(headline=_about(_center), evidence=measured("Center", 3, shares=SHARES)),
    "domains": ClaimKind(
        headline=_about(_domains), evidence=measured("Out of domain minus in domain, averaged over layers", 3)
    ),
    "matched scores": ClaimKind(headline=_matched, evidence=measured("Largest difference", 1)),
    "single neurons": ClaimKind(headline=_neurons, evidence=measured("", 3)),
    "course change": ClaimKind(headline=_course_change, evidence=measured("Center of the change", 3)),
    "course blocks": ClaimKind(headline=_course_blocks, evidence=measured("", 3)),
    "course score": ClaimKind(headline=_course_score, evidence=no_evidence),
    "onset": ClaimKind(headline=_onset, evidence=_onset_evidence),
}
