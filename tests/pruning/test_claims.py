"""Claims of pruning are of use to a reader, also where numbers run away."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from microtome.findings.claims.render import render
from microtome.inference.baselines import Standing
from microtome.pruning.certifying import Candidate, Step
from microtome.pruning.claims import PruningClaims
from microtome.pruning.margin import Drop


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
    assert "at most 3.51 (95 %, one-sided, unit: example)" in text
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
