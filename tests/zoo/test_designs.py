"""Designs differ in what they say they differ in."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from microtome.errors import InputError, MicrotomeError
from microtome.zoo.designs import DESIGNS, find_design


@pytest.mark.parametrize("name", DESIGNS)
def test_designs_differ_from_the_masked_one_as_they_say(name: str) -> None:
    masked, other = asdict(DESIGNS["masked"]), asdict(DESIGNS[name])
    told = {"name", "title", "differs"}
    differing = {key for key in masked if masked[key] != other[key]} - told
    assert differing <= {"objective", "shared", "rate"}
    if differing - {"objective"}:
        assert DESIGNS[name].differs


def test_values_can_be_changed_and_are_checked() -> None:
    assert find_design("masked", steps=7).steps == 7
    with pytest.raises(MicrotomeError, match="Did you mean masked"):
        find_design("maskd")
    with pytest.raises(MicrotomeError, match=r"value of a design must be one of .* Did you mean steps"):
        find_design("masked", step=7)
    with pytest.raises(InputError, match="width must be a multiple of the 4 heads, but got 130"):
        find_design("masked", width=130)


def test_shown_tokens_are_a_share_of_the_guessed() -> None:
    design = find_design("masked", length=102, hidden=0.4, kept=0.25)
    assert (design.guessed, design.shown) == (40, 10)
    with pytest.raises(InputError, match="kept must be a share of at least 0 and below 1, but got 1"):
        find_design("masked", kept=1.0)
    with pytest.raises(InputError, match="focus must be above 0, but got 0"):
        find_design("masked", focus=0.0)
