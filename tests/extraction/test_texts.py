"""Is whatever a user hands over as texts taken for what it is, and known by its content?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import microtome as mt
from microtome.corpora.examples import Example
from microtome.errors import InputError, UnknownNameError
from microtome.extraction.texts import make_texts


def test_texts_words_and_examples_in_memory() -> None:
    mine = Example(id="mine", text="A cat.", pair="It sleeps.")
    found = make_texts(["The cat sleeps.", ["The", "cat"], mine])
    assert list(found.examples) == [
        Example(id="0", text="The cat sleeps."),
        Example(id="1", words=("The", "cat")),
        mine,
    ]
    assert found.facts == {"name": "texts", "source": "memory", "digest": found.digest, "count": 3}


def test_a_path_and_an_open_corpus_are_the_same_texts(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("The cat sleeps.\nStop.\n")
    by_path, by_text, opened = make_texts(path), make_texts(str(path)), make_texts(mt.corpus(path))
    assert by_path.digest == by_text.digest == opened.digest
    assert [e.text for e in by_path.examples] == ["The cat sleeps.", "Stop."]
    # Read again and again.
    assert list(by_path.examples) == list(by_path.examples)
    assert by_path.facts["source"] == str(path)
    assert by_path.name == "lines"
    assert make_texts(by_path) is by_path


def test_options_of_a_reader_go_with_a_path(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("body\tlabel\nThe cat sleeps.\t1\n")
    (example,) = make_texts(path, columns={"text": "body"}).examples
    assert example.text == "The cat sleeps."
    with pytest.raises(InputError, match="options such as columns must come with the path of a corpus"):
        make_texts(["The cat."], columns={"text": "body"})
    with pytest.raises(UnknownNameError, match=r"but got 'colums'\. Did you mean columns\?"):
        make_texts(path, colums="text")


@pytest.mark.parametrize("one, other", [
    (["a b"], ["a c"]), (["a b"], [["a", "b"]]), ([["a", "b"]], [["ab"]]), (["a", "b"], ["b", "a"]),
    ([Example(id="0", text="a")], [Example(id="1", text="a")]),
    ([Example(id="0", text="a")], [Example(id="0", text="a", pair="a")]),
])  # fmt: skip
def test_other_content_has_another_digest(one: Any, other: Any) -> None:
    assert make_texts(one).digest != make_texts(other).digest


@given(st.lists(st.one_of(st.text(), st.lists(st.text(), max_size=4)), min_size=1, max_size=5))
def test_the_same_content_has_the_same_digest(given: list[Any]) -> None:
    again = [item if isinstance(item, str) else tuple(np.array(item, dtype=object)) for item in given]
    assert make_texts(given).digest == make_texts(again).digest


def test_words_of_an_array_are_words() -> None:
    words = np.array(["The", "cat"])
    assert make_texts([list(words)]).digest == make_texts([["The", "cat"]]).digest


@pytest.mark.parametrize(
    "given, said",
    [
        ([], "texts must be at least one, but the list is empty."),
        (3, "texts must be a corpus, a path, or a list of texts, but got 'int'."),
        (None, "texts must be a corpus, a path, or a list of texts, but got 'NoneType'."),
        (["a", 3], "text 1 must be a string, a list of words or an example, but got 'int'."),
        ([["a", 3]], "text 0 must be a string, a list of words or an example, but got 'list'."),
        ("nowhere.txt", "source must be a file or a folder that exists, or hub:NAME, but got 'nowhere.txt'."),
    ],
)
def test_anything_else_is_one_sentence(given: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        make_texts(given)
    assert str(caught.value) == said
