"""Certification of cuts: a sequence of tests, fixed before the examples that certify are used.

Some examples choose, the others certify. What was chosen becomes a sequence, fixed before the second half is
looked at: one cut a number of removed blocks, from few to many. Each is tested at the full level in that
order, and the first that fails ends it. Whichever cut is the first in the sequence to lose the margin in
truth must pass its own test for anything false to be said, so "safe" is false in at most alpha of cases,
however many candidates were looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..findings.claims.claim import Bound, Claim, Quantity
from ..inference.seeds import Standing
from .margin import Drop


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """
    Something that could be chosen.

    Parameters
    ----------
    what : object
        Such as the blocks that are kept.
    removed : int
        How many blocks it saves.
    cost : float
        What it loses on the examples that choose, in points.
    """

    what: Any
    removed: int
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One test of a sequence: a candidate, and what was found on the examples that certify."""

    candidate: Candidate
    found: Drop


def fix_sequence(candidates: Iterable[Candidate], max_drop: float) -> list[Candidate]:
    """
    Fix the order of tests from what the examples that choose say.

    Parameters
    ----------
    candidates : iterable of Candidate
    max_drop : float

    Returns
    -------
    list of Candidate
        For each number of removed blocks the cheapest within the margin, from few to many. One that costs
        more than half the margin while a smaller model costs less is left out: it would most likely end the
        sequence early.
    """
    best: dict[int, Candidate] = {}
    for candidate in candidates:
        cheaper = best.get(candidate.removed)
        if candidate.cost <= max_drop and (cheaper is None or candidate.cost < cheaper.cost):
            best[candidate.removed] = candidate
    sequence: list[Candidate] = []
    cheapest = math.inf
    for removed in sorted(best, reverse=True):
        if best[removed].cost < cheapest or best[removed].cost <= max_drop / 2:
            sequence.append(best[removed])
        cheapest = min(cheapest, best[removed].cost)
    return sequence[::-1]


def run_sequence(sequence: Sequence[Candidate], judge: Callable[[Any], Drop]) -> list[Step]:
    """
    Test candidates in their order until one fails.

    Parameters
    ----------
    sequence : sequence of Candidate
    judge : callable
        Tests one on the examples that certify.

    Returns
    -------
    list of Step
        All that were tested. The last one that is safe is what may be claimed.
    """
    steps: list[Step] = []
    for candidate in sequence:
        steps.append(Step(candidate=candidate, found=judge(candidate.what)))
        if not steps[-1].found.safe:
            break
    return steps


def certified(steps: Sequence[Step]) -> Step | None:
    """The last step that passed."""
    passed = [step for step in steps if step.found.safe]
    return passed[-1] if passed else None


Cut = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningClaims:
    """
    What the claims of one pruning share.

    Parameters
    ----------
    depth : int
    points : float
        Of the score: 100 where costs are in points.
    share : float, optional
        Of the examples that choose, where they and the others come from one split.
    chose : int
        Number of independent units that choose.
    standing : Standing, optional
        The whole model beside the majority baseline, on the examples that the costs are of.
    """

    depth: int
    points: float = 100.0
    share: float | None = None
    chose: int = 0
    standing: Standing | None = None

    def of(self, steps: Sequence[Step], cheapest: tuple[Cut, Drop] | None) -> tuple[Claim, ...]:
        """
        Claim what the tests show.

        Parameters
        ----------
        steps : sequence of Step
        cheapest : (cut, Drop), optional
            The cheapest cut on the examples that choose, where none was tested.

        Returns
        -------
        tuple of Claim
        """
        standing = self.standing
        if standing is not None and not standing.beats:  # it has nothing to lose
            facts = {"experiment": "pruning", "model": "the whole model", **standing.plain()}
            return (Claim(kind="baseline", verdict="inconclusive", score=standing.score, facts=facts),)
        passed = certified(steps)
        failed = next((step for step in steps if not step.found.safe), None)
        claims = []
        if passed is not None:
            claims.append(self.claim("removable blocks", passed.candidate.what, passed.found))
        if failed is not None:
            claims.append(self._not_safe(failed.candidate.what, failed.found, removed=passed is not None))
        elif not steps and cheapest is not None:
            claims.append(self._not_safe(*cheapest, tested=False))
        return tuple(claims)

    def _not_safe(self, kept: Cut, drop: Drop, *, tested: bool = True, removed: bool = False) -> Claim:
        facts = {"needed": drop.needed, "units": drop.units, "unit": drop.unit}
        planned = {"share": self.share, "chose": self.chose, "tested": tested, "removed": removed}
        return self.claim("cut not safe", kept, drop, **facts, **planned)

    def claim(self, kind: str, kept: Cut, drop: Drop, **facts: Any) -> Claim:
        """Claim something about one cut by its cost on some examples."""
        return Claim(
            kind=kind,
            verdict="holds" if drop.safe else "inconclusive",
            score=drop.score,
            points=self.points,
            layers=tuple(block for block in range(1, self.depth + 1) if block not in kept),
            depth=self.depth,
            estimate=Quantity(value=drop.drop, level=drop.level, unit=drop.unit),
            bound=Bound(side="most", value=drop.upper if math.isfinite(drop.upper) else math.nan, family=""),
            n=drop.n,
            facts={
                "margin": drop.max_drop,
                "p": drop.p,
                "full": drop.full,
                "cut": drop.cut,
                "baseline": None if self.standing is None else self.standing.baseline,
                "reason": drop.reason,
                **facts,
            },
        )
