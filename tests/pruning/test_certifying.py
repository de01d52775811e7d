"""Are halves drawn whole, sequences fixed from the first half, and tests ended at the first failure?"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microtome.errors import InputError
from microtome.findings.claims.render import render
from microtome.inference.answers import Answers
from microtome.inference.seeds import Standing
from microtome.pruning.certifying import Candidate, PruningClaims, Step, certified, fix_sequence, run_sequence
from microtome.pruning.examples import halves
from microtome.pruning.margin import Drop, judge_drop
from microtome.tasks.task import Item, Split


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


def step(needed: int | None, *, upper: float = 3.5, p: float = 0.4) -> Step:
    found = Drop(
        score="accuracy",
        full=0.9,
        cut=0.88,
        drop=2.0,
        upper=upper,
        se=0.9,
        p=p,
        max_drop=2.25,
        level=0.95,
        method="exact",
        unit="example",
        n=400,
        units=400,
        needed=needed,
    )
    return Step(candidate=Candidate(what=(1, 2), removed=1, cost=1.0), found=found)


def texts(steps: list[Step], cheapest: Any = None, **options: Any) -> list[str]:
    return [render(claim) for claim in PruningClaims(depth=3, **options).of(steps, cheapest)]


@given(st.integers(1, 10**35))
def test_how_many_examples_it_would_take(needed: int) -> None:
    [text] = texts([step(needed)], share=0.5, chose=390)
    sentence = text[re.search(r"(About|More examples|The cost is)", text).start() :]  # pyright: ignore[reportOptionalMemberAccess]
    numbers = [
        int(one.replace(",", "")) for one in re.findall(r"[\d,]*\d", sentence.split("8 times in 10")[0])
    ]
    if needed <= 400:
        # It failed, so they cannot have been enough, whatever a rule of thumb says.
        assert sentence.startswith("More examples that certify than the 400 that there were would be needed")
    elif needed <= 1_000_000:
        assert numbers == [needed]
        assert f"so {2 * needed:,} in all; there were 400 (790 in all)." in sentence
    else:
        # Nobody has so many, and their number is no more than how near the margin is.
        assert numbers == [1_000_000]
        assert "so near the margin that more than 1,000,000 examples" in sentence


def test_where_no_number_of_examples_would_do() -> None:
    [text] = texts([step(None)])
    assert text.endswith("No number of examples would show it safe at this cost.")


def test_a_bound_is_never_rounded_below_itself() -> None:
    passed, failed = step(None, upper=1.381, p=0.01), step(None, upper=3.501)
    [text] = texts([passed])
    assert text.startswith(
        "Block 3 of 3 can be removed at a cost of at most 1.39 points of accuracy. Cost: 2.00"
    )
    [text] = texts([failed])
    assert text.startswith(
        "Nothing can be removed safely: without block 3 a cost of 2.25 points of accuracy is"
    )
    assert "at most 3.51 (95 %, one-sided, over examples)" in text
    about = PruningClaims(depth=3)
    confirmed = render(about.claim("confirmation", (1, 2), passed.found, split="test"))
    assert "at most 1.39 (95 %" in confirmed


def test_the_majority_baseline_stands_beside() -> None:
    strong = Standing(score="accuracy", value=0.9, baseline=0.5125, beats=True, ahead=True)
    scores = "accuracy 0.900 of the whole model, 0.880 of the smaller one, 0.512 of the majority baseline."
    for steps, cheapest in (
        ([step(None, p=0.01)], None),
        ([step(None)], None),
        ([], ((1, 2), step(None).found)),
    ):
        assert scores in texts(steps, cheapest, standing=strong)[0]


def test_nothing_is_promised_of_a_model_that_does_not_beat_the_majority_baseline() -> None:
    passed = step(None, upper=0.9, p=0.01)
    weak = Standing(score="accuracy", value=0.9, baseline=0.89, beats=False, ahead=True)
    assert "can be removed" in texts([passed])[0]
    assert texts([passed], standing=weak) == [
        "Nothing is concluded about pruning: the whole model is not shown to beat the majority baseline "
        "(accuracy 0.900 against 0.890)."
    ]
