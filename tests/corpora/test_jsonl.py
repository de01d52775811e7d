from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microtome.corpora.examples import Example
from microtome.corpora.opening import corpus
from microtome.errors import InputError, UnknownNameError


def read(tmp_path: Path, *records: object, **options) -> list[Example]:
    path = tmp_path / "a.jsonl"
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return list(corpus(path, **options))


# What is read


def test_columns_go_by_their_names(tmp_path: Path) -> None:
    record = {
        "id": "q1",
        "text": "Is it?",
        "pair": "It is.",
        "words": ["Is", "it", "?"],
        "group": 7,
        "label": 1,
    }
    (example,) = read(tmp_path, record)
    assert (example.id, example.text, example.pair, example.group) == ("q1", "Is it?", "It is.", "7")
    assert example.words == ("Is", "it", "?")
    assert dict(example.marks) == {"label": "1"}


def test_columns_are_named(tmp_path: Path) -> None:
    columns = {"text": "question", "pair": "passage", "id": "idx"}
    record = {
        "idx": 0,
        "question": "is it",
        "passage": "It is.",
        "label": True,
        "id": "other",
        "text": "a mark",
    }
    (example,) = read(tmp_path, record, columns=columns)
    assert (example.id, example.text, example.pair, example.group) == ("0", "is it", "It is.", "0")
    assert dict(example.marks) == {"label": "true", "id": "other", "text": "a mark"}


def test_marks_of_all_kinds(tmp_path: Path) -> None:
    record = {
        "text": "a b",
        "int": 3,
        "float": 2.5,
        "no": False,
        "nothing": None,
        "tags": ["X", "Y"],
        "heads": [2, 0],
        "spans": [[0, 1], {"é": None}],
        "info": {"a": [1]},
    }
    (example,) = read(tmp_path, record)
    assert dict(example.marks) == {
        "int": "3",
        "float": "2.5",
        "no": "false",
        "tags": ("X", "Y"),
        "heads": ("2", "0"),
        "spans": ("[0, 1]", '{"é": null}'),
        "info": '{"a": [1]}',
    }


def test_numbers_are_ids_where_no_column_is(tmp_path: Path) -> None:
    examples = read(tmp_path, {"text": "a"}, "", {"text": "b", "more": 1}, "  ", {"text": "", "pair": None})
    assert [(e.id, e.text, e.pair) for e in examples] == [("1", "a", None), ("2", "b", None), ("3", "", None)]


def test_words_alone(tmp_path: Path) -> None:
    (example, empty) = read(
        tmp_path, {"tokens": ["New York", "!"]}, {"tokens": []}, columns={"words": "tokens"}
    )
    assert (example.words, example.text) == (("New York", "!"), None)
    assert empty.words == ()
    (example,) = read(tmp_path, {"text": "a  b ."}, columns={"words": "text"})
    assert example.words == ("a", "b", ".")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.text(min_size=1), st.text(), st.text(), VALUES), min_size=1, unique_by=lambda r: r[0]
    ),
    st.booleans(),
)
def test_any_unicode_comes_back(tmp_path_factory, records, ascii_only: bool) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    lines = [
        json.dumps({"id": i, "text": text, "mark": mark, "value": value}, ensure_ascii=ascii_only)
        for i, text, mark, value in records
    ]
    path.write_bytes("\n".join(lines).encode())
    examples = list(corpus(path))
    assert [(e.id, e.text, e.marks["mark"]) for e in examples] == [record[:3] for record in records]
    for example, (_, _, _, value) in zip(examples, records, strict=True):
        if isinstance(value, (bool, int, float, dict)):
            told = example.marks["value"]
            assert isinstance(told, str)
            assert json.loads(told) == value


# What is refused


@pytest.mark.parametrize(
    "records, words",
    [
        (
            ['{"text": "a"}', '{"text": '],
            "line 2 of .* must be a JSON object, but got: Expecting value at character 10",
        ),
        (["text"], "line 1 of .* must be a JSON object, but got: Expecting value at character 1"),
        (["[1]"], "line 1 of .* must be a JSON object, but it is of type list"),
        (['"a"'], "must be a JSON object, but it is of type str"),
        (['{"text": "a", "text": "b"}'], "must be a JSON object, but got: a name stands twice in one object"),
        (['{"text": "a", "n": ' + "9" * 5000 + "}"], "must be a JSON object, but got: Exceeds the limit"),
        (["[" * 100_000], "must be a JSON object, but got: maximum recursion depth"),
        (
            ['{"text": "\\uD800"}'],
            "line 1 of .* must hold text, but it has an escaped half of a surrogate pair",
        ),
        ([{"text": "a"}, {"texts": "b"}], "line 2 of .* must have a column for text or for words"),
        (
            [{"a": 1, "b": 2}],
            "must have a column for text or for words, but option columns names none of a, b",
        ),
        ([{"text": 5}], "line 1 of .* must have a text in the column 'text', but got 5"),
        ([{"text": None}], "line 1 of .* must have a text in the column 'text', but it is null"),
        ([{"text": "a", "pair": ["b"]}], r"must have a text in the column 'pair', but got \['b'\]"),
        ([{"words": ["a", ""]}], "must have a list of words in the column 'words', but got"),
        ([{"words": ["a", 1]}], "must have a list of words in the column 'words', but got"),
        ([{"words": None}], "must have a list of words in the column 'words', but got None"),
        (
            [{"text": "a", "id": "x"}, {"text": "b", "id": "x"}],
            "line 2 of .* must have an id of its own, but 'x' was",
        ),
        (
            [{"text": "a", "id": 1}, {"text": "b", "id": "1"}],
            "line 2 of .* must have an id of its own, but '1' was",
        ),
        ([{"text": "a", "id": ""}], "must have a name or a whole number in the column 'id', but got ''"),
        ([{"text": "a", "id": True}], "must have a name or a whole number in the column 'id', but got True"),
        ([{"text": "a", "id": None}], "must have a name or a whole number in the column 'id', but got None"),
        (
            [{"text": "a", "group": 1.5}],
            "must have a name or a whole number in the column 'group', but got 1.5",
        ),
    ],
)
def test_records_that_are_no_examples(tmp_path: Path, records: list[object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path, *records)


def test_an_escaped_backslash_is_text(tmp_path: Path) -> None:
    assert read(tmp_path, '{"text": "\\\\ud800 \\ud83d\\ude00"}')[0].text == "\\ud800 \U0001f600"


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="must have the column 'sentence' for text, but its columns are id, words"
    ):
        read(tmp_path, {"id": 1, "words": ["a"]}, columns={"text": "sentence"})
    with pytest.raises(
        InputError, match="must have a column for text or for words, but option columns names none"
    ):
        read(tmp_path, {"text": "a"}, columns={"pair": "text"})


@pytest.mark.parametrize("columns", ["text", {}, ["text"], 3])
def test_columns_that_are_no_mapping(tmp_path: Path, columns: object) -> None:
    with pytest.raises(
        InputError, match="option columns must be a mapping of text, pair, words, id or group to names"
    ):
        read(tmp_path, {"text": "a"}, columns=columns)


def test_roles_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownNameError, match="a key of columns must be one of group, id, pair, text, words, but got 'txt'"
    ):
        read(tmp_path, {"text": "a"}, columns={"txt": "text"})
    with pytest.raises(InputError, match=r"columns\['text'\] must be the name of a column, but got None"):
        read(tmp_path, {"text": "a"}, columns={"text": None})
