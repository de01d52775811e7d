"""Are halves drawn whole, sequences fixed from the first half, and tests ended at the first failure?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from microtome.errors import InputError
from microtome.inference.answers import Answers
from microtome.pruning.certifying import Candidate, certified, fix_sequence, halves, run_sequence
from microtome.pruning.margin import Drop, judge_drop
from microtome.tasks.items import Item, Split


def split_of(groups: list[int]) -> Split:
    return Split(
        name="validation",
        items=tuple(Item(id=str(i), texts=("x",), target=0, group=f"g{g}") for i, g in enumerate(groups)),
    )


def candidates(*costs: tuple[int, float]) -> list[Candidate]:
    return [Candidate(what=f"{removed}:{cost}", removed=removed, cost=cost) for removed, cost in costs]


def test_halves_have_no_example_and_no_group_in_common() -> None:
    whole = split_of([i // 3 for i in range(300)])
    first, second = halves(whole, 0.4, seed=1)
    assert {i.id for i in first} | {i.id for i in second} == {i.id for i in whole}
    assert not {i.group for i in first} & {i.group for i in second}
    assert abs(len(first) - 120) <= 3
    again = halves(whole, 0.4, seed=1)
    other = halves(whole, 0.4, seed=2)
    assert [i.id for i in again[0]] == [i.id for i in first] != [i.id for i in other[0]]
    assert "examples that choose, drawn with seed 1" in first.notes[-1]


def test_halves_with_one_large_group() -> None:
    first, second = halves(split_of([0] * 50 + [1, 2, 3, 4]), seed=0)
    assert min(len(first), len(second)) >= 1
    with pytest.raises(InputError, match="must have at least 4 independent examples to be split in two"):
        halves(split_of([0] * 9 + [1]))


def test_the_sequence_goes_from_few_blocks_to_many_within_the_margin() -> None:
    given = candidates((1, 0.4), (1, 0.1), (2, 0.3), (3, 1.4), (3, 0.9), (4, 2.0))
    assert [one.what for one in fix_sequence(given, 1.0)] == ["1:0.1", "2:0.3", "3:0.9"]
    assert fix_sequence(candidates((1, 1.1)), 1.0) == []


def test_what_is_worse_than_a_smaller_model_and_not_cheap_is_left_out() -> None:
    assert [one.removed for one in fix_sequence(candidates((1, 0.9), (2, 0.2)), 1.0)] == [2]
    # A cheap one stays as something to fall back on.
    assert [one.removed for one in fix_sequence(candidates((1, 0.3), (2, 0.2)), 1.0)] == [1, 2]


def judged(lost: int) -> Drop:
    full, cut = np.ones(400, int), np.r_[np.zeros(lost, int), np.ones(400 - lost, int)]
    ids = [str(i) for i in range(400)]
    first, second = (Answers(ids=ids, targets=full, predictions=[side]) for side in (full, cut))
    return judge_drop("accuracy", first, second, max_drop=2.0, limit=False)


def test_the_first_failure_ends_the_tests() -> None:
    seen: list[Any] = []

    def judge(what: str) -> Drop:
        seen.append(what)
        return judged({"1:0.0": 0, "2:0.1": 1, "3:0.2": 30, "4:0.3": 0}[what])

    steps = run_sequence(candidates((1, 0.0), (2, 0.1), (3, 0.2), (4, 0.3)), judge)
    assert seen == ["1:0.0", "2:0.1", "3:0.2"]
    passed = certified(steps)
    assert passed is not None
    assert passed.candidate.removed == 2
    assert certified(steps[2:]) is None
