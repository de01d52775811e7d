"""No text claims more than its number: bounds and ends of intervals are rounded outward everywhere."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from figures.resulting import make_curve
from microtome.cli.tables import _at
from microtome.experiments.surgery.claims import cut_claim
from microtome.findings.claims.render import render
from microtome.findings.words import at_least, at_most, between
from microtome.inference.estimate import Estimate, Interval
from microtome.pruning.speed import Speed, Timing
from microtome.scores.table import SCORES

ENDS = st.floats(-1e6, 1e6)
INTERVAL = re.compile(r"\[([-+.\d]+), ([-+.\d]+)\]")


@given(ENDS, st.integers(0, 4))
def test_a_bound_is_never_passed_and_missed_by_less_than_one_digit(value: float, digits: int) -> None:
    low, high = at_least(value, digits), at_most(value, digits)
    assert float(low) <= value <= float(high)
    assert float(high) - float(low) < 1.001 * 10**-digits
    assert not any(re.fullmatch(r"-0\.?0*", text) for text in (low, high))


@given(ENDS, ENDS, st.booleans())
def test_an_interval_holds_both_of_its_ends(one: float, other: float, signed: bool) -> None:
    found = INTERVAL.fullmatch(between(min(one, other), max(one, other), signed=signed))
    assert found is not None
    low, high = min(one, other), max(one, other)
    assert float(found[1]) - 1e-10 <= low <= high <= float(found[2]) + 1e-10
    assert (found[2][0] == "+") == (signed and float(found[2]) >= 0)


def test_noise_of_multiplication_is_no_further_digit() -> None:
    assert between(100 * -0.035, 100 * 0.07) == "[-3.50, 7.00]"
    assert at_most(5e-324) == "0.01"


def ends(text: str) -> tuple[str, str]:
    found = INTERVAL.search(text)
    assert found is not None, text
    return found[1], found[2]


def test_every_place_rounds_the_same_interval_outward() -> None:
    """The bounds 0.12346 and 0.98764 would both be inside themselves if they were rounded to the nearest."""
    told = Interval(low=0.12346, high=0.98764, level=0.95, method="m", unit="example", target="t")
    estimate = Estimate(value=0.5, measure="accuracy", estimator="share", n=9, interval=told)
    assert ends(str(estimate)) == ("0.1234", "0.9877")
    half: dict[str, Any] = {"low": [told.low], "high": [told.high], "band_low": [0.0], "band_high": [1.0]}
    curve = make_curve("UNTUNED", [0.5], **half)
    assert ends(_at(curve, 1, 1.0, signed=False)) == ("0.1234", "0.9877")
    assert ends(_at(curve, 1, 100.0, signed=True)) == ("+12.34", "+98.77")


def test_times_of_a_smaller_model_are_rounded_outward() -> None:
    timing = Timing(what="cpu", batch=1, full=2.0, cut=1.0, ratio=0.5, low=0.456, high=0.544)
    sizes: dict[str, Any] = dict.fromkeys(("parameters", "bytes", "peak"), (2, 1))
    speed = Speed(device="cpu", threads=1, rounds=9, timings=(timing,), tokens=(8,), **sizes)
    assert ends(speed.table()[0][3]) == ("0.45", "0.55")


def test_a_cut_that_costs_at_most_0994_is_not_said_to_cost_at_most_099() -> None:
    ends: dict[str, Any] = {"low": [-0.0099, 0.0], "band_low": [-0.00994, 0.0]}
    costs = make_curve("cut - whole", [-0.005, 0.0], high=[0.0, 0.0], band_high=[0.0, 0.0], **ends)
    said = render(cut_claim(costs, SCORES["accuracy"]))
    assert "at most 1.0 points of accuracy" in said
    assert "at most 1.00 for all cuts" in said
    assert "0.99 points" not in said
