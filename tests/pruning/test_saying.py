"""Is what is said of a cut of use to a reader, also where numbers run away?"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microtome.pruning.certifying import Candidate, Step
from microtome.pruning.margin import Drop
from microtome.pruning.saying import said_of


def step(needed: int | None) -> Step[tuple[int, ...]]:
    found = Drop(
        score="accuracy",
        full=0.9,
        cut=0.88,
        drop=2.0,
        upper=3.5,
        se=0.9,
        p=0.4,
        max_drop=2.25,
        level=0.95,
        method="exact",
        unit="example",
        n=400,
        units=400,
        needed=needed,
    )
    return Step(candidate=Candidate(what=(1, 2), removed=1, cost=1.0), found=found)


@given(st.integers(1, 10**35))
def test_how_many_examples_it_would_take(needed: int) -> None:
    _, text = said_of([step(needed)], 3, "points", cheapest=None, share=0.5, higher=True)
    numbers = [int(one.replace(",", "")) for one in re.findall(r"[\d,]*\d", text.split("8 times in 10")[0])]
    if needed <= 400:
        assert text.startswith("another draw of the examples could pass")
    elif needed <= 1_000_000:
        assert numbers == [needed]
        assert f"so {2 * needed:,} in all; there were 400." in text
    else:
        # Nobody has so many, and their number is no more than how near the margin is.
        assert numbers == [1_000_000]
        assert "so near the margin that more than 1,000,000 examples" in text


def test_where_no_number_of_examples_would_do() -> None:
    _, text = said_of([step(None)], 3, "points", cheapest=None, share=None, higher=True)
    assert text == "no number of examples would show it safe at this cost."


@pytest.mark.parametrize("higher,verb", [(True, "falls"), (False, "rises")])
def test_which_way_the_score_runs(higher: bool, verb: str) -> None:
    text, _ = said_of([step(900)], 3, "points", cheapest=None, share=None, higher=higher)
    assert text.startswith(f"nothing can be cut safely: without block 3 accuracy {verb} by 2.00 points, and ")
