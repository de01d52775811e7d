"""Claims as text: a headline for readers of a paper, and the evidence behind it.

Each module of this package has a table `KINDS` with one line per kind of claim; here they are one.
"""

from __future__ import annotations

from . import change, comparison, general, probing, surgery, tuning
from .claim import Claim
from .writing import ClaimKind

_MODULES = (general, surgery, change, probing, comparison, tuning)
KINDS: dict[str, ClaimKind] = {kind: entry for module in _MODULES for kind, entry in module.KINDS.items()}


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
