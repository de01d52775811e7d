from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microtome.errors import InputError
from microtome.findings.words import check_names, layer_list, number, p_value, percent


@given(st.sets(st.integers(0, 40), min_size=1))
def test_a_layer_list_can_be_read_back(layers: set[int]) -> None:
    text = layer_list(layers)
    assert text.startswith("layers " if len(layers) > 1 else "layer ")
    read: set[int] = set()
    for part in re.split(r", | and ", text.split(" ", 1)[1]):
        first, _, last = part.partition(" to ")
        read |= set(range(int(first), int(last or first) + 1))
    assert read == layers


def test_layers_are_called_by_their_names() -> None:
    names = [f"bert/{i}" for i in range(13)]
    assert layer_list(range(7, 13), names) == "layers bert/7 to bert/12"
    assert layer_list([6, 7], names) == "layers bert/6 and bert/7"
    assert layer_list([]) == "no layer"


def test_numbers_that_are_not_finite() -> None:
    assert number(float("nan")) == "undefined"
    assert number(float("inf")) == "infinite"


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0 %"), (0.004, "less than 1 %"), (0.5, "50 %"), (0.996, "more than 99 %"), (1.0, "100 %")],
)
def test_percent_never_rounds_to_nothing_or_everything(share: float, said: str) -> None:
    assert percent(share) == said


def test_small_probabilities() -> None:
    assert p_value(0.001) == "p = 0.001"
    assert p_value(0.0009) == "p < 0.001"


def test_one_name_a_layer() -> None:
    check_names(["a", "b"], 2)
    with pytest.raises(InputError, match="one name for each of the 3 layers"):
        check_names(["a", "b"], 3)
