"""Findings of pruning, in words: how safe a cut is, or why nothing can be cut."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..findings.words import at_most, number
from ..inference.baselines import Standing
from ..interventions.choosing import named
from .certifying import Step, certified
from .margin import Drop

Cut = tuple[int, ...]
MANY = 1_000_000  # examples beyond which an exact number would be of no use


def pruning_findings(
    steps: Sequence[Step],
    depth: int,
    unit: str,
    *,
    cheapest: tuple[Cut, Drop] | None,
    share: float | None,
    chose: int = 0,
    higher: bool,
    standing: Standing | None = None,
) -> tuple[str, ...]:
    """
    Write what the tests show.

    Parameters
    ----------
    steps : sequence of Step
    depth : int
    unit : str
        Of drops.
    cheapest : (cut, Drop), optional
        The cheapest cut on the examples that choose, where none was tested.
    share : float, optional
        Of the examples that choose, where they and the others come from one split.
    chose : int
        How many independent units those that choose are.
    higher : bool
        Whether a higher score is better.
    standing : Standing, optional
        The whole model beside the majority baseline, on the examples that the drops are of.

    Returns
    -------
    tuple of str
    """
    verb = "falls" if higher else "rises"
    passed = certified(steps)
    failed = next((step for step in steps if not step.found.safe), None)
    tested = passed or failed
    about = cheapest[1] if tested is None and cheapest is not None else tested and tested.found
    if standing is not None and not standing.beats:  # it has nothing to lose
        return (standing.sentence("the whole model"),)
    findings: list[str] = []
    if passed is not None:
        drop = passed.found
        findings.append(
            f"{_blocks(passed.candidate.what, depth)} can be removed: {drop.score} {verb} by at most "
            f"{at_most(drop.upper)} {unit} ({_level(drop)} %, one-sided, {drop.n:,} examples never used "
            f"to choose); it was {number(drop.drop)} there."
        )
    if failed is not None:
        drop, start = failed.found, "more cannot be called safe" if findings else "nothing can be cut safely"
        findings.append(
            f"{start}: without {_blocks(failed.candidate.what, depth)} {drop.score} {verb} by "
            f"{number(drop.drop)} {unit}, and {_at_most(drop, unit)} on {drop.n:,} examples "
            f"(margin {drop.max_drop:g})."
        )
        findings.append(_needs(drop, share, chose))
    if not steps and cheapest is not None:
        cut, drop = cheapest
        findings.append(
            f"nothing can be cut safely: the cheapest cut, without {_blocks(cut, depth)}, costs "
            f"{number(drop.drop)} {unit} of {drop.score} on the {drop.n:,} examples that choose, and "
            f"{_at_most(drop, unit)} (margin {drop.max_drop:g})."
        )
    if about and standing is not None:
        smaller = f", {number(about.cut, 3)} of the smaller one" if passed is not None else ""
        findings.append(
            f"{about.score} there is {number(about.full, 3)} of the whole model{smaller}, and "
            f"{number(standing.baseline, 3)} of the majority baseline."
        )
    return tuple(findings)


def confirmation_finding(drop: Drop, split: str, unit: str, *, higher: bool) -> str:
    """Write what a third set of examples shows."""
    verb = "falls" if higher else "rises"
    if drop.safe:
        return (
            f"confirmed on {drop.n:,} examples of {split}, used for nothing else: {drop.score} {verb} by "
            f"{number(drop.drop)} {unit}, at most {at_most(drop.upper)} ({_level(drop)} %, one-sided)."
        )
    return (
        f"not confirmed on {drop.n:,} examples of {split}: {drop.score} {verb} by {number(drop.drop)} "
        f"{unit} there, and {_at_most(drop, unit)} (margin {drop.max_drop:g}); the choice stands as it was."
    )


def _at_most(drop: Drop, unit: str) -> str:
    if drop.reason is not None:
        return f"no limit can be given, since {drop.reason},"
    if math.isinf(drop.upper):
        return f"no limit can be given ({_level(drop)} %, one-sided)"
    return f"a change of up to {at_most(drop.upper)} {unit} cannot be excluded ({_level(drop)} %, one-sided)"


def _needs(drop: Drop, share: float | None, chose: int) -> str:
    if drop.needed is None:
        return "no number of examples would show it safe at this cost."
    unit = "examples" if drop.unit == "example" else "groups of examples"
    if drop.needed <= drop.units:
        # The number is by a rule of thumb. A test that fails at this very cost cannot pass 8 times in 10.
        return (
            f"more {unit} that certify than the {drop.units:,} that there were would be needed to show it 8 "
            "times in 10 at this cost and spread."
        )
    if drop.needed > MANY:
        return (
            f"the cost is so near the margin that more than {MANY:,} {unit} that certify would be needed to "
            f"show it 8 times in 10; there were {drop.units:,}."
        )
    sentence = f"about {drop.needed:,} {unit} that certify would be needed"
    sentence += " to show it 8 times in 10 at this cost"
    if share is None:
        return f"{sentence}; there were {drop.units:,}."
    sentence += f" and spread, so {math.ceil(drop.needed / (1 - share)):,} in all"
    return f"{sentence}; there were {drop.units:,} ({drop.units + chose:,} in all)."


def _level(drop: Drop) -> str:
    return f"{100 * drop.level:g}"


def _blocks(kept: Cut, depth: int) -> str:
    return named(tuple(block for block in range(1, depth + 1) if block not in kept))
