"""Claims as text: a headline for readers of a paper, and the evidence behind it.

Modules of this package have a table `KINDS` with one line per kind of claim; here they are one, with the
kinds of any experiment: that nothing can be concluded, or little with so few seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..words import counted, wide_for_seeds
from . import change, comparison, probing, surgery, tuning
from .claim import Claim, ClaimKind, Quantity, about, no_evidence

REASONS: Mapping[str, str] = {
    "one layer": "a model of one layer has no top layers",
    "no cut": "no score of a cut is defined",
    "diverged": "all runs of the model that it is compared with diverged",
    "no point": "no score is defined",
}


def few_seeds(claims: Iterable[Claim]) -> list[Claim]:
    """The claim that intervals of others are wide for want of seeds; none where they are not."""
    few: list[int] = []
    for claim in claims:
        quantities = [*([claim.estimate] if claim.estimate else []), *claim.beside.values()]
        few += [seeds_of(q) for q in quantities if is_wide(q, claim.points)]
    if not few:
        return []
    return [Claim(kind="few seeds", verdict="inconclusive", score="", facts={"seeds": min(few)})]


def seeds_of(quantity: Quantity) -> int:
    """Number of seeds behind a quantity."""
    return len(quantity.by_seed) or quantity.seeds


def is_wide(quantity: Quantity, points: float) -> bool:
    """Whether an interval is wide and based on few seeds."""
    return wide_for_seeds(quantity.low, quantity.high, seeds_of(quantity), quantity.unit, points)


def _few_seeds(claim: Claim) -> str:
    seeds = counted(claim.facts["seeds"], "seed")
    return (
        f"Intervals that are to hold for models trained with other seeds are wide, since there are {seeds}."
    )


def _baseline(claim: Claim) -> str:
    model, ahead = claim.facts["model"], claim.facts["ahead"]
    verb = "is not shown to beat" if ahead else "does not beat"
    return (
        f"Nothing is concluded about {claim.facts['experiment']}: {model} {verb} the majority baseline "
        f"({claim.score} {claim.facts['value']:.3f} against {claim.facts['baseline']:.3f}){about(claim)}."
    )


def _undefined(claim: Claim) -> str:
    reason = REASONS[claim.facts["reason"]]
    return f"Nothing is concluded about {claim.facts['experiment']}{about(claim)}: {reason}."


KINDS: dict[str, ClaimKind] = {
    "baseline": ClaimKind(headline=_baseline, evidence=no_evidence),
    "few seeds": ClaimKind(headline=_few_seeds, evidence=no_evidence),
    "undefined": ClaimKind(headline=_undefined, evidence=no_evidence),
    **surgery.KINDS,
    **change.KINDS,
    **probing.KINDS,
    **comparison.KINDS,
    **tuning.KINDS,
}


def headline(claim: Claim) -> str:
    """The claim in one sentence that needs no manual."""
    text = KINDS[claim.kind].headline(claim)
    return f"{claim.task}: {text}" if claim.task else text


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
