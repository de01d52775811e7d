"""Claims of probing as text."""

from __future__ import annotations

from collections.abc import Mapping

from ..words import layer_list, number
from .claim import Claim
from .writing import ClaimKind, digits, measured, no_evidence, value_text


def _best_layer(claim: Claim) -> str:
    target, first = claim.facts["target"], claim.layers[0]
    score = f"{claim.score} {_score(claim, _estimate(claim))}"
    if claim.verdict != "holds":
        return (
            f"{claim.subject}: {target} is not shown to be read at any layer, since none beats what needs no "
            f"layer ({_baselines(claim)}); the best, layer {first}, has {score}."
        )
    where = {
        "single": f"best at {layer_list(claim.layers)}{' alike' if len(claim.layers) > 1 else ''}",
        "upto": f"best from layers 0 to {first}" if first else "best from layer 0 alone",
        "mix": "from all layers at once",
    }[claim.facts["reads"]]
    text = f"{claim.subject}: {target} is read {where}, {score}"
    unit = " points" if claim.points == 100 else ""
    if "from layer 0" in claim.beside:
        gain = _score(claim, claim.beside["from layer 0"].value)
        doubt = " (not significant)" if claim.facts["from layer 0"] == "inconclusive" else ""
        text += f", {gain}{unit} from layer 0{doubt}"
    if "control task" in claim.beside:
        text += f"; control task {_score(claim, claim.beside['control task'].value)}"
    if "selectivity" in claim.beside:
        text += f", selectivity {_score(claim, claim.beside['selectivity'].value)}{unit}"
    return f"{text}."


def _best_evidence(claim: Claim) -> str:
    parts = [measured("Score")(claim)]
    if claim.verdict == "holds" and claim.facts["baselines"]:
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
    return f"{models}: {', '.join(shown)}; the largest is {size} at layer {claim.layers[0]}."


def _difference_evidence(claim: Claim) -> str:
    text, without = measured("Difference")(claim), claim.facts["without"]
    if not without:
        return text
    why = f" ({'; '.join(claim.facts['reasons'])})" if claim.facts["reasons"] else ""
    return f"{text} There is no interval at {layer_list(without)}{why}."


def _layer_mix(claim: Claim) -> str:
    facts = claim.facts
    largest, even = (f"{number(100 * share, 0)}%" for share in (facts["share"], 1 / claim.depth))
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
        f"{shortest} to {longest} that occur) is highest at layer {claim.layers[0]}, {value}."
    )


def _without_layers(claim: Claim) -> str:
    return f"Without any layer: {_baselines(claim)}."


def _baselines(claim: Claim) -> str:
    return ", ".join(f"{name} {_score(claim, value)}" for name, value in claim.facts["baselines"].items())


def _score(claim: Claim, value: float) -> str:
    """A score in points of 100, or in its own unit."""
    return number(value, digits(claim))


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
