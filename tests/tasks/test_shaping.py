"""None"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microtome.errors import InputError
from microtome.tasks.loading import task
from microtome.tasks.shaping import begun, documents, joined, plain_context, without_marks
from microtome.tasks.task import Item
from task_samples import jsonl, write_files


def test_entities_begin_with_b() -> None:
    assert begun(["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-ORG"]) == [
        "B-PER", "I-PER", "O", "B-LOC", "B-LOC", "B-ORG"
    ]  # fmt: skip
    assert begun(["B-PER", "I-PER", "B-PER"]) == ["B-PER", "I-PER", "B-PER"]


def test_layouts_of_multiple_choice(tmp_path: Path) -> None:
    cosmos = task("cosmosqa", data=write_files("cosmosqa", tmp_path)).split("train").items[0]
    assert cosmos.id == "a##1"
    assert cosmos.choices[1] == ('We left, "late".\nIt rained . Why ?', "y, z")
    swag = task("hellaswag", data=write_files("hellaswag", tmp_path)).split("train").items[0]
    assert swag.choices[1] == ("A man 0 sits. [title] Up", "he sings [step] a song.")
    boolq = task("boolq", data=write_files("boolq", tmp_path)).split("train")
    assert boolq.items[0].texts == ("is it", "It -- it is.")
    assert boolq.items[0].group == boolq.items[1].group


def test_a_preprocessed_file_brings_all_splits_to_its_form(tmp_path: Path) -> None:
    write_files("hellaswag", tmp_path)
    row = {"ind": 1, "ctx": "A man sits. Up he", "label": 0, "endings": ["a", "b", "c", "d"]}
    (tmp_path / "HellaSwag/hellaswag_train.jsonl").unlink()
    (tmp_path / "HellaSwag/hellaswag_train.preprocessed.jsonl").write_text(jsonl(row))
    loaded = task("hellaswag", data=tmp_path)
    assert loaded.split("train").items[0].choices[0] == ("A man sits. Up he", "a")
    assert loaded.split("validation").items[0].choices[1] == ("A man 2 sits. Up He", "sings a song.")
    assert any("preprocessed" in note for note in loaded.split("validation").notes)


def test_answers_must_be_where_they_are_said_to_be(tmp_path: Path) -> None:
    write_files("squad", tmp_path)
    path = tmp_path / "SQuAD/train-v1.1.json"
    path.write_text(path.read_text().replace('"answer_start": 29', '"answer_start": 28'))
    with pytest.raises(
        InputError, match="must have the answer 'Alps' at character 28 of the passage of q0, but"
    ):
        task("squad", data=tmp_path).split("train")


def test_an_answer_that_begins_nowhere_is_refused(tmp_path: Path) -> None:
    write_files("squad", tmp_path)
    path = tmp_path / "SQuAD/train-v1.1.json"
    path.write_text(path.read_text().replace('"answer_start": 29', '"answer_start": Infinity'))
    with pytest.raises(InputError, match="must have answers with text and answer_start"):
        task("squad", data=tmp_path).split("train")


@pytest.mark.parametrize(
    "name, file, old, new, words",
    [
        ("stsb", "train.tsv", "5.000", "five", "must have a number in the column 'score', but got 'five'"),
        ("ner", "train.txt", "I-ORG", "I-FOO", "must have one of the labels O, B-PER, .*, but got 'B-FOO'"),
        ("cosmosqa", "train.csv", ",w,2", ",w,7", "must have one of the labels 0, 1, 2, 3, but got '7'"),
        ("boolq", "train.jsonl", '"is it"', "3", "must have a text in the column 'question', but got 3"),
        ("ewt-upos", "en_ewt-ud-train.conllu", "\tINTJ\t", "\tDO\t", "labels ADJ, .*, but got 'DO'"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, file: str, old: str, new: str, words: str) -> None:
    from microtome.tasks.table import TASKS

    write_files(name, tmp_path)
    path = tmp_path / TASKS[name].local.folders[0] / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=words):
        task(name, data=tmp_path).split("train")


def test_marks_of_wikihow() -> None:
    assert without_marks(" How to sing [title] Begin [step] now . ") == "How to sing. Begin now ."
    assert plain_context("A man sits.", "he") == "A man sits. He"
    # A sentence that has ended is not ended again.
    assert plain_context("[header] Sing. [title] Begin.", "") == "Sing. Begin."


ROWS = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), min_size=1, max_size=12)


@given(ROWS)
def test_groups_are_what_texts_tie_together(rows: list[tuple[str, str]]) -> None:
    names = joined(list(rows))
    # Spread a mark from each row to all that share a text, until nothing changes.
    for start in range(len(rows)):
        reached, texts = {start}, set(rows[start])
        for _ in rows:
            reached |= {i for i, row in enumerate(rows) if texts & set(row)}
            texts |= {text for i in reached for text in rows[i]}
        assert {i for i, name in enumerate(names) if name == names[start]} == reached


def named(*ids: str) -> list[str]:
    return [item.group for item in documents([Item(id=name, words=("a",)) for name in ids])]


def test_documents_by_the_ids_of_sentences() -> None:
    assert named("x-1", "x-2", "y-1", "other") == ["x", "x", "y", "other"]
    # Numbers behind one name for all say nothing.
    assert named("train-1", "train-2") == ["train-1", "train-2"]
    assert named("s1", "s2") == ["s1", "s2"]
