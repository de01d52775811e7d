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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError, must
from ..randomness import generator
from ..tasks.items import Split
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


def halves(split: Split, share: float = 0.5, seed: int = 0) -> tuple[Split, Split]:
    """
    Split examples in two by chance, groups kept together.

    Labels are not balanced on purpose: halves with equal shares of labels would have part of their luck in
    common, and the second must not know that of the first.

    Parameters
    ----------
    split : Split
    share : float
        Of the examples in the first part, as nearly as groups allow.
    seed : int

    Returns
    -------
    choose, certify : Split
    """
    if not 0 < share < 1:
        raise must("share", "between 0 and 1", share)
    groups = split.groups
    count = int(groups.max()) + 1
    if count < 4:
        raise InputError(
            f"{split.name} must have at least 4 independent examples to be split in two, but it has {count}."
        )
    order = generator(seed, "prune", "halves").permutation(count)
    sizes = np.bincount(groups)[order]
    # A group belongs to the part that holds its middle.
    first = np.cumsum(sizes) - sizes / 2 < share * len(split)
    first[0], first[-1] = True, False
    first_groups = set(order[first].tolist())
    parts = []
    for is_first, role in ((True, "choose"), (False, "certify")):
        items = tuple(
            i for i, group in zip(split, groups.tolist(), strict=True) if (group in first_groups) is is_first
        )
        note = f"{len(items):,} of {len(split):,} examples that {role}, drawn with seed {seed}"
        parts.append(replace(split, items=items, notes=(*split.notes, note)))
    return parts[0], parts[1]


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
