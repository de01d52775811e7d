from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from microtome.checks import check_choice, check_distinct, several, whole_number
from microtome.errors import InputError


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_of_numpy_are_whole_numbers(value: Any) -> None:
    number = whole_number("size", value, 1, 3)
    assert type(number) is int
    assert number == 3


@pytest.mark.parametrize(
    "value, limits, words",
    [
        (True, (), "size must be a whole number, but got True."),
        (2.0, (), "size must be a whole number, but got 2.0."),
        ("2", (), "size must be a whole number, but got '2'."),
        (0, (1,), "size must be a whole number above 0, but got 0."),
        (-1, (0,), "size must be a whole number of at least 0, but got -1."),
        (2, (4,), "size must be a whole number of at least 4, but got 2."),
        (5000, (1, 2000), "size must be a whole number between 1 and 2,000, but got 5000."),
    ],
)
def test_what_is_no_such_number(value: Any, limits: tuple[int, ...], words: str) -> None:
    with pytest.raises(InputError) as caught:
        whole_number("size", value, *limits)
    assert str(caught.value) == words


def test_choices_and_repeated_values() -> None:
    check_choice("kind", "a", ("a", "b"))
    with pytest.raises(InputError, match=r"^kind must be one of a, b, but got 'c'\.$"):
        check_choice("kind", "c", ("a", "b"))
    check_distinct("names", ["a", "b"])
    with pytest.raises(InputError, match=r"^names must differ, but 'a' stands twice; rename one\.$"):
        check_distinct("names", ["a", "b", "a"], "; rename one")


def test_one_value_or_several() -> None:
    assert several("ab") == ("ab",)
    assert several(np.array([1, 2])) == (1, 2)
