"""Claims of any experiment: that nothing can be concluded, or little with so few seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..intervals import wide_for_seeds
from ..words import counted
from .claim import Claim, Quantity
from .writing import ClaimKind, about, no_evidence

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


KINDS: Mapping[str, ClaimKind] = {
    "baseline": ClaimKind(headline=_baseline, evidence=no_evidence),
    "few seeds": ClaimKind(headline=_few_seeds, evidence=no_evidence),
    "undefined": ClaimKind(headline=_undefined, evidence=no_evidence),
}
