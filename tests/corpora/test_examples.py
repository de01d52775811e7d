from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microtome.corpora.examples import Example, words_of
from microtome.errors import InputError, UnknownNameError

EXAMPLE = Example(
    id="a-1",
    text="So it goes.",
    words=("So", "it", "goes", "."),
    marks={"upos": ("ADV", "PRON", "VERB", "PUNCT")},
)


def test_an_example_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(EXAMPLE)) == EXAMPLE
    assert copy.deepcopy(EXAMPLE) == EXAMPLE
    assert {EXAMPLE, pickle.loads(pickle.dumps(EXAMPLE))} == {EXAMPLE}
    with pytest.raises(AttributeError):
        EXAMPLE.text = "other"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        EXAMPLE.marks["upos"] = ()  # pyright: ignore[reportIndexIssue]


def test_marks_are_kept_apart_from_what_they_were_made_of() -> None:
    marks: dict[str, tuple[str, ...] | str] = {"label": "1"}
    example = Example(id="1", text="a", marks=marks)
    marks["label"] = "2"
    assert example.marks["label"] == "1"


def test_an_example_without_a_group_is_its_own() -> None:
    assert EXAMPLE.group == "a-1"
    assert Example(id="1", text="a", group="book").group == "book"


def test_an_example_has_text_or_words() -> None:
    assert Example(id="1", words=()).text is None
    with pytest.raises(InputError, match="must have a text or words, but 'x' has neither"):
        Example(id="x", pair="b")


@given(st.text())
def test_words_between_white_space(text: str) -> None:
    assert list(words_of(Example(id="1", text=text))) == text.split()
    assert list(words_of(Example(id="1", text="", pair=text), side="pair")) == text.split()


def test_words_by_both_rules() -> None:
    assert words_of(EXAMPLE, "given") == ("So", "it", "goes", ".")
    assert words_of(EXAMPLE, "whitespace") == ("So", "it", "goes.")


def test_words_that_cannot_be_had() -> None:
    with pytest.raises(UnknownNameError, match="rule must be one of given, whitespace, but got 'white'"):
        words_of(EXAMPLE, "white")
    with pytest.raises(UnknownNameError, match="side must be one of pair, text, but got 'both'"):
        words_of(EXAMPLE, side="both")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="rule must be whitespace for example '1', but got 'given'"):
        words_of(Example(id="1", text="a"), "given")
    with pytest.raises(InputError, match="and its pair has no given words"):
        words_of(EXAMPLE, "given", side="pair")
    with pytest.raises(InputError, match="example '1' must have a text to be split, but it has none"):
        words_of(Example(id="1", words=("a",)))
    with pytest.raises(InputError, match="'a-1' must have a pair to be split, but it has none"):
        words_of(EXAMPLE, side="pair")
