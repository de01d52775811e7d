from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microtome.corpora.opening import corpus
from microtome.errors import InputError

TEXT = "\nOne.\nTwo.\n\n \nThree.\n\nFour.\n"


def read(tmp_path: Path, text: str, **options) -> list[tuple[str, str | None, str]]:
    path = tmp_path / "a.txt"
    path.write_text(text)
    return [(e.id, e.text, e.group) for e in corpus(path, **options)]


def test_blank_lines(tmp_path: Path) -> None:
    skipped = [("1", "One.", "1"), ("2", "Two.", "2"), ("3", "Three.", "3"), ("4", "Four.", "4")]
    assert read(tmp_path, TEXT) == read(tmp_path, TEXT, blank_lines="skip") == skipped
    kept = ["", "One.", "Two.", "", " ", "Three.", "", "Four."]
    assert [text for _, text, _ in read(tmp_path, TEXT, blank_lines="keep")] == kept
    documents = [("1", "One.", "1"), ("2", "Two.", "1"), ("3", "Three.", "2"), ("4", "Four.", "3")]
    assert read(tmp_path, TEXT, blank_lines="documents") == documents


def test_a_text_has_no_words_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Two words\n")
    opened = corpus(tmp_path / "a.txt")
    assert opened.rule == "whitespace"
    assert [(e.words, e.pair, dict(e.marks)) for e in opened] == [(None, None, {})]


def test_an_unknown_way_with_blank_lines(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="option blank_lines must be one of 'skip', 'keep', 'documents', but got 'no'"
    ):
        read(tmp_path, TEXT, blank_lines="no")


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), min_size=1))
def test_any_lines(tmp_path_factory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    # A byte order mark is no part of the text.
    lines[0] = lines[0].removeprefix("\ufeff")
    assert [e.text for e in corpus(path, blank_lines="keep")] == lines
