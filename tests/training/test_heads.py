"""What does a head read, and which cannot be?"""

from __future__ import annotations

import pytest

import tiny
from microtome.encoders.table import FAMILIES, family_of
from microtome.errors import InputError, UnknownNameError
from microtome.training.heads import HEADS, Head, describe, resolve


def test_jiant_gives_two_dense_stages_behind_a_pooler_and_one_without() -> None:
    assert resolve("jiant", FAMILIES["roberta"]) == Head(reads="pooler", dense=1, pooler="pretrained")
    assert resolve("jiant", FAMILIES["electra"]) == Head(reads="cls", dense=1)
    assert describe("jiant", FAMILIES["albert"]) == (
        "pretrained pooler (first token, dense, tanh) -> dropout -> dense -> tanh -> dropout -> linear"
    )


@pytest.mark.parametrize("name", HEADS)
def test_every_head_is_told_in_words_for_every_family(name: str) -> None:
    said = {describe(name, family_of(kind)) for kind in tiny.CONFIGS}
    assert all(said)
    assert "as the library has it" not in said


def test_the_token_that_stands_for_the_input_is_the_familys() -> None:
    assert describe(Head(reads="cls", dense=0), FAMILIES["bert"]).startswith("state of the first token")
    assert describe(Head(reads="cls", dense=0), FAMILIES["xlnet"]).startswith("state of the last token")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"reads": "max"}, "what a head reads must be one of cls, last, mean, pooler, but got 'max'"),
        ({"reads": "pooler"}, "must say pooler='pretrained' or 'fresh'"),
        ({"reads": "mean", "pooler": "fresh"}, "a head that reads mean must have pooler='none', not 'fresh'"),
        ({"dense": -1}, "dense must be a whole number of at least 0, but got -1"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, but got 1.0"),
        ({"activation": "swish"}, "activation must be one of gelu, relu, tanh"),
    ],
)
def test_heads_that_cannot_be_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=r".") as error:
        Head(**settings)  # pyright: ignore[reportArgumentType]
    assert said in str(error.value)


def test_a_pretrained_pooler_is_refused_where_the_family_has_none() -> None:
    with pytest.raises(InputError, match=r"but ELECTRA has none; pooler='fresh' makes one"):
        resolve(Head(reads="pooler", dense=1, pooler="pretrained"), FAMILIES["electra"])
    with pytest.raises(UnknownNameError, match="head must be one of jiant, own, stock, but got 'jant'"):
        resolve("jant", FAMILIES["bert"])
