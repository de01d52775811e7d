from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from microtome.errors import InputError, UnknownNameError
from microtome.measures.cca import CCA, SVCCA
from microtome.measures.cka import LINEAR_CKA
from microtome.measures.declare import MeasureOption, choose, invariant, parse
from microtome.measures.regression import LINEAR_REGRESSION

SHARE = MeasureOption(default=0.99, low=0.01, high=1.0, meaning="a share")
COUNT = MeasureOption(default=5, low=2, meaning="a number of things")
WORD = MeasureOption(default="center", choices=("center", "standardize"), meaning="a word")
FLAG = MeasureOption(default=True, choices=(True, False), meaning="a flag")
FREE = MeasureOption(default="anything", meaning="free text")


@pytest.mark.parametrize(
    "option, given, expected",
    [
        (SHARE, 0.5, 0.5),
        (SHARE, "0.5", 0.5),
        (SHARE, 1, 1.0),
        (COUNT, 7, 7),
        (COUNT, "7", 7),
        (COUNT, 7.0, 7),
        (WORD, "standardize", "standardize"),
        (FLAG, False, False),
        (FLAG, "no", False),
        (FLAG, "True", True),
        (FREE, "as it is", "as it is"),
    ],
)
def test_values_and_their_text_are_read_alike(option: MeasureOption, given: Any, expected: Any) -> None:
    found = option.read("it", given)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "option, given, sentence",
    [
        (SHARE, 1.5, "option it must be at least 0.01 and at most 1, but got 1.5."),
        (SHARE, "nan", "option it must be at least 0.01 and at most 1, but got 'nan'."),
        (SHARE, "half", "option it must be a number, but got 'half'."),
        (SHARE, True, "option it must be a number, but got True."),
        (SHARE, None, "option it must be a number, but got None."),
        (COUNT, 1, "option it must be at least 2, but got 1."),
        (COUNT, 2.5, "option it must be a whole number, but got 2.5."),
        (COUNT, "2.5", "option it must be a whole number, but got '2.5'."),
        (WORD, "centre", "option it must be one of center, standardize, but got 'centre'."),
        (FLAG, "maybe", "option it must be one of True, False, but got 'maybe'."),
        (FLAG, 1, "option it must be one of True, False, but got 1."),
    ],
)
def test_what_is_not_allowed_is_refused_in_one_sentence(
    option: MeasureOption, given: Any, sentence: str
) -> None:
    with pytest.raises(InputError) as caught:
        option.read("it", given)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("given", [float("inf"), "inf", "nan"])
def test_what_is_no_number_is_no_whole_number(given: Any) -> None:
    with pytest.raises(InputError, match="option it must be"):
        COUNT.read("it", given)


def test_a_label_names_what_differs_from_the_defaults() -> None:
    assert choose(SVCCA).label == "svcca"
    assert (
        choose(SVCCA, {"threshold": "0.9", "inclusive": "no"}).label == "svcca:threshold=0.9:inclusive=False"
    )
    name, given = parse(choose(SVCCA, {"threshold": 0.9, "scaling": "standardize"}).label)
    assert choose(SVCCA, given).options == choose(SVCCA, {"threshold": 0.9, "scaling": "standardize"}).options
    assert name == "svcca"


def test_unknown_options() -> None:
    with pytest.raises(
        UnknownNameError, match=r"^option of svcca must be one of .*Did you mean threshold\?$"
    ):
        choose(SVCCA, {"treshold": 0.9})
    with pytest.raises(InputError, match=r"^linear_cka has no options, but got 'threshold'\.$"):
        choose(LINEAR_CKA, {"threshold": 0.9})


def test_declarations_may_depend_on_the_options() -> None:
    assert choose(CCA).declared("null") == "wachter"
    assert choose(CCA, {"statistic": "mean_rho2"}).declared("null") == "mean_square"
    assert "orthogonal" in choose(SVCCA).declared("invariances").left
    assert "orthogonal" not in choose(SVCCA, {"scaling": "standardize"}).declared("invariances").left
    assert choose(LINEAR_REGRESSION).declared("needs") == "moments"
    assert choose(LINEAR_REGRESSION, {"estimator": "cross_validated"}).declared("needs") == "rows"
    assert choose(LINEAR_REGRESSION).declared("symmetric") is False


def test_a_choice_cannot_be_changed() -> None:
    choice = choose(SVCCA)
    assert isinstance(choice.options, MappingProxyType)
    with pytest.raises(AttributeError):
        choice.options = {}  # type: ignore[misc]


def test_invariances_of_one_side() -> None:
    found = invariant("translation", left=("neuron_scale",), right=("orthogonal",))
    assert found.left == {"translation", "neuron_scale"}
    assert found.right == {"translation", "orthogonal"}
    with pytest.raises(UnknownNameError, match=r"transformation must be one of .*, but got 'ortogonal'"):
        invariant("ortogonal")


@pytest.mark.parametrize("text", ["svcca:threshold", "svcca:threshold=", "svcca:=1", "svcca:a=b=c", "svcca:"])
def test_a_measure_that_is_written_wrongly(text: str) -> None:
    with pytest.raises(InputError, match="a measure must be written name:option=value"):
        parse(text)
