"""Findings on measures that are meant to predict costs, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from span_validity import FEWEST, RIDGE

from microtome.findings.words import between, number, p_value
from microtome.inference.pairing import holm
from microtome.version import VERSION

Table = Mapping[str, Mapping[str, Any]]


def findings(
    table: Table, ranking: Sequence[str], names: Mapping[str, Sequence[str]], level: float
) -> list[str]:
    """
    Say which measure tells most beyond length and depth, or that none does, then each measure's numbers.

    Parameters
    ----------
    table : mapping of str to mapping
        For each measure its effects.
    ranking : sequence of str
        The measures by partial effect.
    names : mapping of str to sequence of str
        The models and tasks.
    level : float

    Returns
    -------
    list of str
    """
    adjusted = adjusted_p(table, ranking)
    said = [_verdict(table, ranking, adjusted, level), _unseen(table, ranking, level)]
    for what in ("model", "task"):
        if len(names[what]) == 1:
            said.append(f"All cases are of one {what}, {names[what][0]}: nothing is said of others.")
    return [*(one for one in said if one), *(_measure(name, table[name], level) for name in ranking)]


def adjusted_p(table: Table, ranking: Sequence[str]) -> dict[str, float]:
    """
    Correct the p-values of partial effects for their number.

    Parameters
    ----------
    table, ranking
        As in `findings`.

    Returns
    -------
    dict of str to float
        By measure; those without a test are not there.
    """
    given = [table[measure]["partial"].get("p") for measure in ranking]
    found = holm([math.nan if p is None else p for p in given])
    return {measure: p for measure, p in zip(ranking, found, strict=True) if not math.isnan(p)}


def methods(measures: Sequence[str], names: Mapping[str, Sequence[str]], cases: int, level: float) -> str:
    """
    Say how it was computed, for the methods section of a paper.

    Parameters
    ----------
    measures : sequence of str
    names : mapping of str to sequence of str
        The models and tasks.
    cases : int
    level : float

    Returns
    -------
    str
    """
    return (
        f"For {cases} cases ({', '.join(names['model'])}; tasks {', '.join(names['task'])}) the similarity "
        "of layers i < j was set against the score lost by skipping blocks i+1..j, for each of "
        f"{', '.join(measures)}, using microtome {VERSION}. Values were ranked within each case, with ties "
        "at their mean rank; the two directions of a measure were averaged. The partial correlation is that "
        "of the residuals of both ranks after least squares on one constant for each span length and on m, "
        "m^2 and m l, with m and l the standardized ranks of the span's midpoint and length. For costs out "
        f"of task (out of model), a ridge regression (penalty {RIDGE:g} a span, cases weighted equally) of "
        "the standardized rank of cost on l, m, l^2, m^2 and l m, and another with s, s^2, s l and s m "
        "besides, s the standardized rank of similarity, were fitted to the cases of all other tasks "
        "(models); the gain is the difference of their Spearman correlations with the measured costs. Cases "
        f"with fewer than {FEWEST} spans were left out. Intervals ({level * 100:g} %) are t intervals over "
        "means of tasks or models, since spans of one model overlap; p-values of partial effects were "
        "corrected for the number of measures by Holm's method."
    )


def warnings(table: Table, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what was left out, and which intervals stand on little."""
    said = []
    for measure, found in table.items():
        if found["without_layer_0"]:
            count = found["without_layer_0"]
            said.append(
                f"{measure}: {count} spans from layer 0, whose similarity is undefined, were left out."
            )
        missing = sum(row["missing"] for row in rows if row["measure"] == measure)
        if missing:
            said.append(f"{measure}: {missing} spans without a cost or a similarity were left out.")
    said += [
        f"{row['measure']} of {row['model']} on {row['task']}, seed {row['seed']}, was left out: "
        f"{row['reason']}."
        for row in rows
        if row["reason"] is not None
    ]
    told = dict.fromkeys(f["partial"]["reason"] for f in table.values() if f["partial"]["reason"])
    return [*said, *(f"{reason[0].upper()}{reason[1:]}." for reason in told)]


def _verdict(table: Table, ranking: Sequence[str], adjusted: Mapping[str, float], level: float) -> str:
    if np.isnan(table[ranking[0]]["partial"]["mean"]):
        return "No measure can be set against length and depth: its effect is undefined in every case."
    tested = [measure for measure in ranking if measure in adjusted]
    best = (tested or ranking)[0]
    told = f"{best} has the partial rank correlation {_with(table[best]['partial'], level)}"
    if not tested:
        return (
            "Whether a measure tells more than span length and depth cannot be tested without three tasks or "
            f"three models that differ; {told}, the most negative."
        )
    clear = [measure for measure in tested if adjusted[measure] < 1 - level]
    better = [measure for measure in clear if table[measure]["partial"]["mean"] < 0]
    worse = [measure for measure in reversed(clear) if measure not in better]
    corrected = f" after Holm's correction for {len(adjusted)} measures" if len(adjusted) > 1 else ""
    wrong = "".join(
        f" {one} goes the wrong way: beyond length and depth, layers that it calls alike cost more to cut "
        f"between (partial rank correlation {_with(table[one]['partial'], level)}, "
        f"{p_value(adjusted[one])}{corrected})."
        for one in worse
    )
    if not better:
        most = (
            "."
            if best in worse
            else ": the most negative partial effect is not significantly different from 0 "
            f"({told}, {p_value(adjusted[best])}{corrected})."
        )
        some = "" if len(tested) == len(ranking) else " that can be tested"
        return f"No measure{some} is shown to beat span length and depth{most}{wrong}"
    others = (
        f" So do {', '.join(better[1:])}."
        if len(better) > 2
        else f" So does {better[1]}."
        if better[1:]
        else ""
    )
    first = better[0]
    return (
        f"{first} tells most about what can be cut beyond span length and depth: partial rank correlation "
        f"{_with(table[first]['partial'], level)}, {p_value(adjusted[first])}{corrected}.{others}{wrong}"
    )


def _unseen(table: Table, ranking: Sequence[str], level: float) -> str:
    """What the measure with the best partial effect adds for a task or model that was not seen."""
    found = table[ranking[0]]
    said = [
        f"in an unseen {what} from {number(found[f'out_of_{what}_without'])} by "
        f"{_with(found[f'gain_out_of_{what}'], level)}"
        for what in ("task", "model")
        if np.isfinite(found[f"gain_out_of_{what}"]["mean"])
    ]
    if not said:
        return ""
    return (
        f"Added to length and depth, {ranking[0]} moves the rank correlation of predicted and measured cost "
        f"{' and '.join(said)}."
    )


def _measure(name: str, found: Mapping[str, Any], level: float) -> str:
    if np.isnan(found["spearman"]["mean"]):
        return f"{name}: {found['spearman']['reason']}."
    said = [
        f"Spearman of similarity and cost {_with(found['spearman'], level)}",
        f"beyond length and depth {_with(found['partial'], level)}",
    ]
    for what in ("task", "model"):
        gain = found[f"gain_out_of_{what}"]
        told = _with(gain, level) if np.isfinite(gain["mean"]) else f"undefined ({gain['reason']})"
        said.append(f"gain out of {what} {told}")
    return f"{name}: {'; '.join(said)}. Span length alone: {number(found['length_alone'])}."


def _with(effect: Mapping[str, Any], level: float) -> str:
    text = number(effect["mean"])
    if effect["low"] is None:
        return text
    bounds = between(effect["low"], effect["high"])
    return f"{text} {bounds} ({level * 100:g}%, unit: {effect['unit']})"
