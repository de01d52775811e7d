"""What may be said of a cut? That it is safe and how safe, or why nothing is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..findings.words import number
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
    higher: bool,
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
    higher : bool
        Whether a higher score is better.

    Returns
    -------
    tuple of str
    """
    verb = "falls" if higher else "rises"
    passed = certified(steps)
    failed = next((step for step in steps if not step.found.safe), None)
    said: list[str] = []
    if passed is not None:
        found = passed.found
        said.append(
            f"{_blocks(passed.candidate.what, depth)} can go: {found.score} {verb} by at most "
            f"{number(found.upper)} {unit} ({_level(found)} %, one-sided, {found.n:,} examples never used to "
            f"choose); it was {number(found.drop)} there."
        )
    if failed is not None:
        found, start = failed.found, "more cannot be called safe" if said else "nothing can be cut safely"
        said.append(
            f"{start}: without {_blocks(failed.candidate.what, depth)} {found.score} {verb} by "
            f"{number(found.drop)} {unit}, and {_at_most(found, unit)} on {found.n:,} examples "
            f"(margin {found.max_drop:g})."
        )
        said.append(_needs(found, share))
    if not steps and cheapest is not None:
        cut, found = cheapest
        said.append(
            f"nothing can be cut safely: the cheapest cut, without {_blocks(cut, depth)}, costs "
            f"{number(found.drop)} {unit} of {found.score} on the {found.n:,} examples that choose, and "
            f"{_at_most(found, unit)} (margin {found.max_drop:g})."
        )
    return tuple(sentence for sentence in said if sentence)


def said_of_confirmation(found: Drop, split: str, unit: str, *, higher: bool) -> str:
    """Say what a third set of examples showed."""
    verb = "falls" if higher else "rises"
    if found.safe:
        return (
            f"confirmed on {found.n:,} examples of {split}, used for nothing else: {found.score} {verb} by "
            f"{number(found.drop)} {unit}, at most {number(found.upper)} ({_level(found)} %, one-sided)."
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
        f"a change of up to {number(found.upper)} {unit} cannot be ruled out ({_level(found)} %, one-sided)"
    )


def _needs(found: Drop, share: float | None) -> str:
    if found.needed is None:
        return "no number of examples would show it safe at this cost."
    if found.needed <= found.units:
        return (
            "another draw of the examples could pass: at this cost and spread they are enough 8 times in 10."
        )
    unit = "examples" if found.unit == "example" else "groups of examples"
    if found.needed > MANY:
        return (
            f"the cost is so near the margin that more than {MANY:,} {unit} that certify would be needed to "
            f"show it 8 times in 10; there were {found.units:,}."
        )
    said = f"about {found.needed:,} {unit} that certify would be needed to show it 8 times in 10 at this cost"
    if share is not None:
        said += f" and spread, so {math.ceil(found.needed / (1 - share)):,} in all"
    return f"{said}; there were {found.units:,}."


def _level(found: Drop) -> str:
    return f"{100 * found.level:g}"


def _blocks(kept: Cut, depth: int) -> str:
    return named(tuple(block for block in range(1, depth + 1) if block not in kept))
