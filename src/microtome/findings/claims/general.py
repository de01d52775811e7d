"""Claims of any experiment: that nothing can be concluded."""

from __future__ import annotations

from collections.abc import Mapping

from .claim import Claim
from .writing import ClaimKind, no_evidence


def _baseline(claim: Claim) -> str:
    model, ahead = claim.facts["model"], claim.facts["ahead"]
    verb = "is not shown to beat" if ahead else "does not beat"
    return (
        f"Nothing is concluded about {claim.facts['experiment']}: {model} {verb} the majority baseline "
        f"({claim.score} {claim.facts['value']:.3f} against {claim.facts['baseline']:.3f})."
    )


def _undefined(claim: Claim) -> str:
    return f"Nothing is concluded about {claim.facts['experiment']}: {claim.facts['reason']}."


KINDS: Mapping[str, ClaimKind] = {
    "baseline": ClaimKind(headline=_baseline, evidence=no_evidence),
    "undefined": ClaimKind(headline=_undefined, evidence=no_evidence),
}
