from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microtome.corpora.examples import Example
from microtome.corpora.lines import Lines
from microtome.corpora.opening import corpus
from microtome.corpora.separated import split_quoted
from microtome.errors import InputError


def read(tmp_path: Path, content: str, suffix: str = "tsv", **options) -> list[Example]:
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(content.encode())
    return list(corpus(path, **options))


def rows_of(content: str, delimiter: str = ",") -> list[list[str]]:
    lines = Lines(io.BytesIO(content.encode()), "a.csv")
    return list(split_quoted(lines, {"delimiter": delimiter}))


# What is read


def test_quotes_in_tsv_are_characters(tmp_path: Path) -> None:
    content = 'id\ttext\tlabel\n7\t"Odd, he said.\t1\n8\tNo "end\t0\r\n\n9\t\t\n'
    examples = read(tmp_path, content)
    assert [(e.id, e.text, e.marks["label"]) for e in examples] == [
        ("7", '"Odd, he said.', "1"),
        ("8", 'No "end', "0"),
        ("9", "", ""),
    ]


def test_quotes_in_csv(tmp_path: Path) -> None:
    content = 'text,label\n"One, two",1\n"She said ""no"".\nThen left.",0\n5" wide,1\n\n"",\n'
    examples = read(tmp_path, content, "csv")
    assert [e.text for e in examples] == ["One, two", 'She said "no".\nThen left.', '5" wide', ""]
    assert [e.marks["label"] for e in examples] == ["1", "0", "1", ""]


@pytest.mark.parametrize("header", ["no", False])
def test_without_a_header_columns_are_numbered(tmp_path: Path, header: object) -> None:
    content = "gj04\t1\t\tThe boat sank.\ngj04\t0\t*\tSank the boat the.\n"
    examples = read(tmp_path, content, header=header, columns={"text": 4})
    assert [e.text for e in examples] == ["The boat sank.", "Sank the boat the."]
    assert [e.id for e in examples] == ["1", "2"]
    assert dict(examples[1].marks) == {"1": "gj04", "2": "0", "3": "*"}
    assert read(tmp_path, content, header=header, columns={"text": "4"}) == examples


def test_a_header_can_be_given(tmp_path: Path) -> None:
    (example,) = read(tmp_path, "2\tGood soup.\n", header=["label", "text"])
    assert (example.text, dict(example.marks)) == ("Good soup.", {"label": "2"})
    (example,) = read(tmp_path, "2\tGood soup.\n", header=("label", "text"))
    assert example.text == "Good soup."


def test_a_header_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufefftext\tlabel\na\t1\n")[0].text == "a"
    assert read(tmp_path, '\ufeff"text",label\r\na,1\r\n', "csv")[0].text == "a"


def test_words_in_a_column(tmp_path: Path) -> None:
    (example,) = read(tmp_path, "words\ttags\na b  c\tX Y Z\n")
    assert (example.words, example.text, example.marks["tags"]) == (("a", "b", "c"), None, "X Y Z")


@pytest.mark.parametrize("delimiter", [";", "|", "\t"])
def test_other_delimiters(tmp_path: Path, delimiter: str) -> None:
    content = f'text{delimiter}label\n"a{delimiter}b"{delimiter}1\n'
    assert read(tmp_path, content, "csv", delimiter=delimiter)[0].text == f"a{delimiter}b"


def test_a_value_of_any_length(tmp_path: Path) -> None:
    long = "word " * 50_000
    assert read(tmp_path, f'text,label\n"{long}",1\n', "csv")[0].text == long


@settings(deadline=None)
@given(
    st.lists(st.lists(st.text(), min_size=2, max_size=3), min_size=1, max_size=4),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_python_writes_is_read(rows: list[list[str]], delimiter: str, end: str, quoting) -> None:
    # Python does not quote these, and they would end or begin the file's text.
    rows = [[value.replace("\r", "").replace("\ufeff", "") for value in row] for row in rows]
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    assert rows_of(file.getvalue(), delimiter) == rows


@settings(max_examples=500, deadline=None)
@given(st.text(st.sampled_from('",ab\n'), max_size=14))
def test_any_csv_is_read_or_refused_as_python_does(content: str) -> None:
    try:
        expected = [row for row in csv.reader(io.StringIO(content, newline=""), strict=True) if row]
    except csv.Error:
        with pytest.raises(InputError, match="quote"):
            rows_of(content)
    else:
        assert rows_of(content) == expected


# What is refused


@pytest.mark.parametrize(
    "content, suffix, words",
    [
        ("text\tlabel\na\t1\nb\n", "tsv", "line 3 of .* must have 2 columns, but it has 1"),
        ("text\tlabel\na\t1\t2\n", "tsv", "line 2 of .* must have 2 columns, but it has 3"),
        ('text,label\n"a\nb",1\nc\n', "csv", "line 4 of .* must have 2 columns, but it has 1"),
        ("text\ttext\na\tb\n", "tsv", "line 1 of .* must name every column once, but got text, text"),
        (
            'text,label\na,1\n"b,2\nc,3\n',
            "csv",
            "line 3 of .* must close the quote it opens, but the file ends before",
        ),
        ('text,label\n"a"b,1\n', "csv", "line 2 of .* must have ',' after a closed quote, but got 'b'"),
        (
            "a\tb\n1\t2\n",
            "tsv",
            "line 2 of .* must have a column for text or for words, but option columns names none of a, b",
        ),
        ("text\tlabel\n", "tsv", "must hold at least one example, but it holds none"),
    ],
)
def test_tables_that_are_broken(tmp_path: Path, content: str, suffix: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path, content, suffix)


def test_a_missing_column_is_told_when_the_corpus_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("index\tquestion\tsentence\n0\ta\tb\n")
    with pytest.raises(
        InputError, match="the column 'sentence1' for text, but its columns are index, question, sentence"
    ):
        corpus(tmp_path / "a.tsv", columns={"text": "sentence1"})


def test_ids_that_repeat(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"line 3 of .* must have an id of its own, but 'x' was there before"
    ):
        read(tmp_path, "id\ttext\nx\ta\nx\tb\n")


@pytest.mark.parametrize("header", ["maybe", [], ["a", "a"], [1], 3, None])
def test_headers_that_are_none(tmp_path: Path, header: object) -> None:
    with pytest.raises(
        InputError, match="option header must be yes, no or a list of different names, but got"
    ):
        read(tmp_path, "a\tb\n", header=header)


def test_delimiters_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"option delimiter must be one of ',', ';', '\|', .*, but got '.'"):
        read(tmp_path, "a,b\n", "csv", delimiter='"')
