"""Claims of probing: which layer is read best, what it adds to layer 0, and how models differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...findings.claims.claim import Claim, overlapping
from ...findings.results import Curve
from ...probes.structural.probe import DEPTH_SPEARMAN, DISTANCE_SPEARMAN, LONGEST, SHORTEST
from ...scores.declare import Score
from ..result import above_lines, best_place, quantity_at
from .curves import BOTTOM, SELECTIVITY
from .inputs import LAYERS

# Quantities beside the score of the best layer, by the role of their curve and what it is compared with.
_BESIDE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "from layer 0": ("difference", BOTTOM),
        "control task": ("control", ""),
        "selectivity": ("difference", SELECTIVITY),
    }
)


def reading_claims(
    curves: Sequence[Curve], names: Sequence[str], score: Score, target: str, lines: Mapping[str, float]
) -> list[Claim]:
    """
    Claim which layer is read best, what it adds to layer 0, and how curves differ.

    Parameters
    ----------
    curves : sequence of Curve
        Scores, scores on control tasks, and differences.
    names : sequence of str
        Curves of scores to claim the best layer of.
    score : Score
    target : str
    lines : mapping of str to float
        Baselines that read no layer.

    Returns
    -------
    list of Claim
    """
    scores = {curve.name: curve for curve in curves if curve.role == "score"}
    related = {(curve.model, curve.role, curve.against): curve for curve in curves}
    claims = []
    for name in names:
        beside = {fact: related.get((name, *key)) for fact, key in _BESIDE.items()}
        claims.append(_best_layer(scores[name], score, target, lines, beside))
    differences = [curve for curve in curves if curve.role == "difference" and curve.against in scores]
    return claims + [_model_difference(curve, score) for curve in differences]


def mix_claims(mixes: Mapping[str, Mapping[str, Any]], names: Sequence[str], score: Score) -> list[Claim]:
    """
    Claim which layers a mix of all of them reads, and the expected layer of a target.

    Parameters
    ----------
    mixes : mapping of str to mapping
        From `mix_facts`, by curve.
    names : sequence of str
        Of curves, without the random baseline.
    score : Score

    Returns
    -------
    list of Claim
    """
    claims = []
    for name in names:
        if name not in mixes:
            continue
        shares, expected = mixes[name]["shares"], mixes[name].get("expected_layer")
        most = int(np.argmax(shares))
        # Where layers lower the score, the mean can lie outside of all of them and means nothing.
        if expected is not None and not 0 <= expected < len(shares):
            expected = None
        facts = {"center": mixes[name]["center"], "share": shares[most], "expected": expected}
        claims.append(_described("layer mix", name, score, facts=facts, layers=(most,), depth=len(shares)))
    return claims


def length_claims(facts: Mapping[str, Any], names: Sequence[str]) -> list[Claim]:
    """
    Claim at which layer trees are read best by the correlation that is averaged over lengths of sentences.

    Parameters
    ----------
    facts : mapping
        Results of probes beside the score, by their name and then by curve.
    names : sequence of str
        Of curves, without the random baseline.

    Returns
    -------
    list of Claim
        None where no sentence has such a length.
    """
    claims = []
    for score, noun in ((DISTANCE_SPEARMAN, "distances"), (DEPTH_SPEARMAN, "depths")):
        for name, values in facts.get(score.name, {}).items():
            means = np.array(values["mean"], dtype=float)
            if name not in names or not np.isfinite(means).any():
                continue
            best = int(np.nanargmax(means))
            about = {"noun": noun, "lengths": [SHORTEST, LONGEST], "value": float(means[best])}
            claims.append(_described("length correlation", name, score, facts=about, layers=(best,)))
    return claims


def baseline_claims(lines: Mapping[str, float], score: Score) -> list[Claim]:
    """Claim what is reached without any layer."""
    known = _finite(lines, score)
    return [_described("baselines", "", score, facts={"baselines": known})] if known else []


def _finite(lines: Mapping[str, float], score: Score) -> dict[str, float]:
    """Defined baselines, in points of the score."""
    return {name: score.points * value for name, value in lines.items() if math.isfinite(value)}


def _described(kind: str, subject: str, score: Score, *, facts: Mapping[str, Any], **fields: Any) -> Claim:
    """A claim that describes probes and tests nothing."""
    about = {"score": score.name, "points": score.points, "subject": subject, "verdict": "holds"}
    return Claim(kind=kind, facts=MappingProxyType(dict(facts)), **about, **fields)


def _best_layer(
    curve: Curve,
    score: Score,
    target: str,
    lines: Mapping[str, float],
    related: Mapping[str, Curve | None],
) -> Claim:
    """Claim the best layer of a curve, with what is known beside its score there."""
    shared: dict[str, Any] = {"score": score.name, "points": score.points, "subject": curve.name}
    place = best_place(curve, score)
    if place is None:
        facts = {"target": target, "reasons": _reasons(curve, range(len(curve.x)))}
        return Claim(kind="no layer", verdict="inconclusive", facts=MappingProxyType(facts), **shared)
    facts: dict[str, Any] = {
        "target": target,
        "reads": curve.arm if curve.arm in LAYERS else "single",
        "baselines": _finite(lines, score),
        "above": [int(x) for at, x in enumerate(curve.x) if above_lines(curve, at, score, lines)],
        "reasons": [],
    }
    significant = above_lines(curve, place, score, lines)
    alike = np.flatnonzero(curve.values == curve.values[place]) if significant else [place]
    near = overlapping(curve.values, curve.band_low, curve.band_high, place)
    facts["overlapping"] = None if near is None else [int(curve.x[at]) for at in near if at not in alike]
    beside = {}
    for name, curve_beside in related.items():
        if not significant or curve_beside is None or (curve_beside.against == BOTTOM and place == 0):
            continue
        beside[name] = quantity_at(curve_beside, place, score)
        facts["reasons"] += _reasons(curve_beside, [place])
        facts[name] = _verdict(curve_beside, place)
    return Claim(
        kind="best layer",
        verdict="holds" if significant and facts["overlapping"] == [] else "inconclusive",
        layers=tuple(int(curve.x[at]) for at in alike),
        depth=len(curve.x),
        estimate=quantity_at(curve, place, score),
        n=curve.n,
        beside=MappingProxyType(beside),
        facts=MappingProxyType(facts),
        **shared,
    )


def _model_difference(curve: Curve, score: Score) -> Claim:
    """Claim at which layers more is read or less by the band, and the largest of these differences."""
    places = range(len(curve.x))
    verdicts = {place: _verdict(curve, place) for place in places}
    higher = (curve.band_low > 0) if score.higher_is_better else (curve.band_high < 0)
    significant = [place for place in places if verdicts[place] == "holds"]
    without = [place for place in places if verdicts[place] == "undefined"]
    tested = [place for place in places if place not in without]
    # What is undefined comes last.
    largest = max(
        significant or tested or places, key=lambda place: np.nan_to_num(abs(curve.values[place]), nan=-1.0)
    )
    # Differences of both signs are compared by their size.
    signs = np.where(curve.values < 0, -1, 1)
    low, high = np.sort(signs * np.stack([curve.band_low, curve.band_high]), axis=0)
    near = overlapping(signs * curve.values, low, high, largest)
    facts = {
        "against": curve.against,
        "overlapping": None if near is None else [int(curve.x[place]) for place in near],
        "more": [int(curve.x[place]) for place in significant if higher[place]],
        "less": [int(curve.x[place]) for place in significant if not higher[place]],
        "without": [int(curve.x[place]) for place in without],
        "reasons": _reasons(curve, without),
    }
    return Claim(
        kind="model difference",
        verdict="holds" if significant else "inconclusive",
        score=score.name,
        points=score.points,
        subject=curve.model,
        layers=(int(curve.x[largest]),),
        depth=len(curve.x),
        estimate=quantity_at(curve, largest, score),
        n=curve.n,
        facts=MappingProxyType(facts),
    )


def _verdict(curve: Curve, place: int) -> str:
    """Whether a difference is significant by the band of all layers; "undefined" without an interval."""
    low, high = curve.band_low[place], curve.band_high[place]
    if np.isnan(low) or np.isnan(high):
        return "undefined"
    return "holds" if low > 0 or high < 0 else "inconclusive"


def _reasons(curve: Curve, places: Sequence[int]) -> list[str]:
    """Why a curve has no value or interval at some places, each reason once."""
    missing = [place for place in places if np.isnan(curve.band_low[place])]
    return list(dict.fromkeys(reason for place in missing if (reason := curve.reasons[place])))
