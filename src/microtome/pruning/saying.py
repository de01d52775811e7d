"""What may be said of a cut? That it is safe and how safe, or why nothing is."""

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


def said_of(
    steps: Sequence[Step[Cut]],
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
    Say what was found.

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
    known = passed or failed
    about = cheapest[1] if known is None and cheapest is not None else known and known.found
    if standing is not None and not standing.beats:  # it has nothing to lose
        return (standing.sentence("the whole model"),)
    said: list[str] = []
    if passed is not None:
        found = passed.found
        said.append(
            f"{_blocks(passed.candidate.what, depth)} can go: {found.score} {verb} by at most "
            f"{at_most(found.upper)} {unit} ({_level(found)} %, one-sided, {found.n:,} examples never used "
            f"to choose); it was {number(found.drop)} there."
        )
    if failed is not None:
        found, start = failed.found, "more cannot be called safe" if said else "nothing can be cut safely"
        said.append(
            f"{start}: without {_blocks(failed.candidate.what, depth)} {found.score} {verb} by "
            f"{number(found.drop)} {unit}, and {_at_most(found, unit)} on {found.n:,} examples "
            f"(margin {found.max_drop:g})."
        )
        said.append(_needs(found, share, chose))
    if not steps and cheapest is not None:
        cut, found = cheapest
        said.append(
            f"nothing can be cut safely: the cheapest cut, without {_blocks(cut, depth)}, costs "
            f"{number(found.drop)} {unit} of {found.score} on the {found.n:,} examples that choose, and "
            f"{_at_most(found, unit)} (margin {found.max_drop:g})."
        )
    if about and standing is not None:
        smaller = f", {number(about.cut, 3)} of the smaller one" if passed is not None else ""
        said.append(
            f"{about.score} there is {number(about.full, 3)} of the whole model{smaller}, and "
            f"{number(standing.baseline, 3)} of the most frequent answer."
        )
    return tuple(said)


def said_of_confirmation(found: Drop, split: str, unit: str, *, higher: bool) -> str:
    """Say what a third set of examples showed."""
    verb = "falls" if higher else "rises"
    if found.safe:
        return (
            f"confirmed on {found.n:,} examples of {split}, used for nothing else: {found.score} {verb} by "
            f"{number(found.drop)} {unit}, at most {at_most(found.upper)} ({_level(found)} %, one-sided)."
        )
    return (
        f"not confirmed on {found.n:,} examples of {split}: {found.score} {verb} by {number(found.drop)} "
        f"{unit} there, and {_at_most(found, unit)} (margin {found.max_drop:g}); the choice stands as it was."
    )


def _at_most(found: Drop, unit: str) -> str:
    if found.reason is not None:
        return f"no limit can be given, since {found.reason},"
    if math.isinf(found.upper):
        return f"no limit can be given ({_level(found)} %, one-sided)"
    return (
        f"a change of up to {at_most(found.upper)} {unit} cannot be ruled out ({_level(found)} %, one-sided)"
    )


def _needs(found: Drop, share: float | None, chose: int) -> str:
    if found.needed is None:
        return "no number of examples would show it safe at this cost."
    unit = "examples" if found.unit == "example" else "groups of examples"
    if found.needed <= found.units:
        # The number is by a rule of thumb. A test that fails at this very cost cannot pass 8 times in 10.
        return (
            f"more {unit} that certify than the {found.units:,} that there were would be needed to show it 8 "
            "times in 10 at this cost and spread."
        )
    if found.needed > MANY:
        return (
            f"the cost is so near the margin that more than {MANY:,} {unit} that certify would be needed to "
            f"show it 8 times in 10; there were {found.units:,}."
        )
    said = f"about {found.needed:,} {unit} that certify would be needed to show it 8 times in 10 at this cost"
    if share is None:
        return f"{said}; there were {found.units:,}."
    said += f" and spread, so {math.ceil(found.needed / (1 - share)):,} in all"
    return f"{said}; there were {found.units:,} ({found.units + chose:,} in all)."


def _level(found: Drop) -> str:
    return f"{100 * found.level:g}"


def _blocks(kept: Cut, depth: int) -> str:
    return named(tuple(block for block in range(1, depth + 1) if block not in kept))
