"""Claims of probing as text."""

from __future__ import annotations

from collections.abc import Mapping

from ..words import layer_list, number, percent
from .claim import Claim, ClaimKind, digits, measured, no_evidence, score_text, value_text


def _best_layer(claim: Claim) -> str:
    target, first = claim.facts["target"], claim.layers[0]
    score = f"{claim.score} {score_text(claim, _estimate(claim))}"
    if first not in claim.facts["above"]:
        return (
            f"{claim.subject}: {target} is not shown to be read at any layer, since none beats what needs no "
            f"layer ({_baselines(claim)}); the best, layer {first}, has {score}."
        )
    reads, near = claim.facts["reads"], claim.facts.get("overlapping")
    sample = " in this sample" if near is None else ""
    where = {
        "single": f"best{sample} at {layer_list(claim.layers)}{' alike' if len(claim.layers) > 1 else ''}",
        "upto": f"best{sample} from {f'layers 0 to {first}' if first else 'layer 0 alone'}",
        "mix": "from all layers at once",
    }[reads]
    text = f"{claim.subject}: {target} is read {where}, {score}"
    if near:
        layers, verb = layer_list(claim.layers), "has" if len(claim.layers) == 1 else "have"
        question = f"{'up to' if reads == 'upto' else 'from'} which layer {target} is read best"
        text = f"{claim.subject}: {question} is not shown: {layers} {verb} the best score, {score}"
    unit = " points" if claim.points == 100 else ""
    if "from layer 0" in claim.beside:
        gain = number(claim.beside["from layer 0"].value, digits(claim))
        doubt = " (not significant)" if claim.facts["from layer 0"] == "inconclusive" else ""
        text += f", {gain}{unit} from layer 0{doubt}"
    if "control task" in claim.beside:
        text += f"; control task {score_text(claim, claim.beside['control task'].value)}"
    if "selectivity" in claim.beside:
        text += f", selectivity {number(claim.beside['selectivity'].value, digits(claim))}{unit}"
    return f"{text}; the intervals of {layer_list(near)} reach as far." if near else f"{text}."


def _best_evidence(claim: Claim) -> str:
    parts = [measured("Score", is_score=True, points=("from layer 0", "selectivity"))(claim)]
    if claim.layers[0] in claim.facts["above"] and claim.facts["baselines"]:
        parts.append(
            f"Without any layer: {_baselines(claim)}; the band is better at "
            f"{layer_list(claim.facts['above'])}."
        )
    parts += [f"No interval: {reason}." for reason in claim.facts["reasons"]]
    return " ".join(parts)


def _model_difference(claim: Claim) -> str:
    facts, size = claim.facts, value_text(claim)
    models = f"{claim.subject} against {facts['against']}"
    if claim.depth == 1:
        doubt = "" if claim.verdict == "holds" or facts["without"] else " (not significant)"
        return f"{models}: {size}{doubt}."
    shown = [f"{word} is read at {layer_list(facts[word])}" for word in ("less", "more") if facts[word]]
    if not shown:
        where = "any layer"
        if facts["without"]:
            where += (
                ", and none has an interval" if len(facts["without"]) == claim.depth else " with an interval"
            )
        shown = [f"no difference is shown at {where}"]
    near = facts.get("overlapping")
    others = f", and the intervals of {layer_list(near)} reach as far" if near else ""
    return f"{models}: {', '.join(shown)}; the largest is {size} at layer {claim.layers[0]}{others}."


def _difference_evidence(claim: Claim) -> str:
    text, without = measured("Difference")(claim), claim.facts["without"]
    if not without:
        return text
    why = f" ({'; '.join(claim.facts['reasons'])})" if claim.facts["reasons"] else ""
    return f"{text} There is no interval at {layer_list(without)}{why}."


def _layer_mix(claim: Claim) -> str:
    facts = claim.facts
    largest, even = percent(facts["share"]), percent(1 / claim.depth)
    text = (
        f"{claim.subject}: the center of gravity of the mix of all layers is layer "
        f"{number(facts['center'], 1)}; layer {claim.layers[0]} has the largest weight, {largest} (an "
        f"even mix has {even})"
    )
    if facts["expected"] is not None:
        text += f"; the expected layer, by what each further layer adds, is {number(facts['expected'], 1)}"
    return f"{text}."


def _length_correlation(claim: Claim) -> str:
    shortest, longest = claim.facts["lengths"]
    value = number(claim.facts["value"], 3)
    return (
        f"{claim.subject}: correlation of {claim.facts['noun']} by length (Spearman, mean over lengths "
        f"{shortest} to {longest} that occur) is highest in this sample at layer {claim.layers[0]}, {value}."
    )


def _without_layers(claim: Claim) -> str:
    return f"Without any layer: {_baselines(claim)}."


def _baselines(claim: Claim) -> str:
    return ", ".join(f"{name} {score_text(claim, value)}" for name, value in claim.facts["baselines"].items())


def _estimate(claim: Claim) -> float:
    assert claim.estimate is not None
    return claim.estimate.value


def _no_layer(claim: Claim) -> str:
    reason = "; ".join(claim.facts["reasons"]) or f"{claim.score} is undefined at every layer"
    return f"{claim.subject}: nothing is concluded about {claim.facts['target']}: {reason}."


KINDS: Mapping[str, ClaimKind] = {
    "no layer": ClaimKind(headline=_no_layer, evidence=no_evidence),
    "best layer": ClaimKind(headline=_best_layer, evidence=_best_evidence),
    "model difference": ClaimKind(headline=_model_difference, evidence=_difference_evidence),
    "layer mix": ClaimKind(headline=_layer_mix, evidence=no_evidence),
    "length correlation": ClaimKind(headline=_length_correlation, evidence=no_evidence),
    "baselines": ClaimKind(headline=_without_layers, evidence=no_evidence),
}
