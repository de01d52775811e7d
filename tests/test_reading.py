"""Are numbers read as they are typed, and refused before they fill the memory?"""

from __future__ import annotations

import pytest

from microtome.errors import InputError
from microtome.reading import MOST_NUMBERS, read_numbers


@pytest.mark.parametrize("given", ["1-1000000000", "1-99999999999999999999", f"0,1-{MOST_NUMBERS}"])
def test_more_numbers_than_anyone_trains_are_refused_before_they_are_listed(given: str) -> None:
    with pytest.raises(InputError, match="--seeds must be at most 10,000 numbers, but got"):
        read_numbers("--seeds", given)


def test_a_range_may_be_as_long_as_that() -> None:
    assert len(read_numbers("--seeds", f"1-{MOST_NUMBERS}")) == MOST_NUMBERS
