"""Is what is said of a cut of use to a reader, also where numbers run away?"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from microtome.pruning.findings import confirmation_finding, pruning_findings

from microtome.inference.baselines import Standing
from microtome.pruning.certifying import Candidate, Step
from microtome.pruning.margin import Drop


def step(needed: int | None, *, upper: float = 3.5, p: float = 0.4) -> Step[tuple[int, ...]]:
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


@given(st.integers(1, 10**35))
def test_how_many_examples_it_would_take(needed: int) -> None:
    _, text = pruning_findings([step(needed)], 3, "points", cheapest=None, share=0.5, chose=390, higher=True)
    numbers = [int(one.replace(",", "")) for one in re.findall(r"[\d,]*\d", text.split("8 times in 10")[0])]
    if needed <= 400:
        # It failed, so they cannot have been enough, whatever a rule of thumb says.
        assert text.startswith("more examples that certify than the 400 that there were would be needed")
    elif needed <= 1_000_000:
        assert numbers == [needed]
        assert f"so {2 * needed:,} in all; there were 400 (790 in all)." in text
    else:
        # Nobody has so many, and their number is no more than how near the margin is.
        assert numbers == [1_000_000]
        assert "so near the margin that more than 1,000,000 examples" in text


def test_where_no_number_of_examples_would_do() -> None:
    _, text = pruning_findings([step(None)], 3, "points", cheapest=None, share=None, higher=True)
    assert text == "no number of examples would show it safe at this cost."


@pytest.mark.parametrize("higher,verb", [(True, "falls"), (False, "rises")])
def test_which_way_the_score_runs(higher: bool, verb: str) -> None:
    text, _ = pruning_findings([step(900)], 3, "points", cheapest=None, share=None, higher=higher)
    assert text.startswith(f"nothing can be cut safely: without block 3 accuracy {verb} by 2.00 points, and ")


def test_a_bound_is_never_rounded_below_itself() -> None:
    passed, failed = step(None, upper=1.381, p=0.01), step(None, upper=3.501)
    (text,) = pruning_findings([passed], 3, "points", cheapest=None, share=None, higher=True)
    assert "accuracy falls by at most 1.39 points (95 %" in text
    text, _ = pruning_findings([failed], 3, "points", cheapest=None, share=None, higher=True)
    assert "a change of up to 3.51 points cannot be excluded" in text
    assert "at most 1.39 (95 %" in confirmation_finding(passed.found, "test", "points", higher=True)


def test_the_majority_baseline_stands_beside() -> None:
    strong = Standing(score="accuracy", value=0.9, baseline=0.5125, beats=True, ahead=True)
    given: dict[str, Any] = {"cheapest": None, "share": None, "higher": True, "standing": strong}
    *_, text = pruning_findings([step(None, p=0.01)], 3, "points", **given)
    assert text == (
        "accuracy there is 0.900 of the whole model, 0.880 of the smaller one, and 0.512 of the "
        "majority baseline."
    )
    *_, text = pruning_findings([step(None)], 3, "points", **given)
    assert text == "accuracy there is 0.900 of the whole model, and 0.512 of the majority baseline."
    *_, text = pruning_findings([], 3, "points", **{**given, "cheapest": ((1, 2), step(None).found)})
    assert text == "accuracy there is 0.900 of the whole model, and 0.512 of the majority baseline."


def test_nothing_is_promised_of_a_model_that_does_not_beat_the_majority_baseline() -> None:
    passed = step(None, upper=0.9, p=0.01)
    options: dict[str, Any] = {"cheapest": None, "share": None, "higher": True}
    weak = Standing(score="accuracy", value=0.9, baseline=0.89, beats=False, ahead=True)
    assert "can be removed" in pruning_findings([passed], 3, "points", **options)[0]
    assert pruning_findings([passed], 3, "points", standing=weak, **options) == (
        "Nothing is concluded: the whole model is not shown to beat the majority baseline (accuracy 0.900 "
        "against 0.890).",
    )
