"""Claims of pruning: how safe a cut is, or why nothing can be removed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..findings.claims.claim import Bound, Claim, Quantity
from ..inference.baselines import Standing
from .certifying import Step, certified
from .margin import Drop

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
