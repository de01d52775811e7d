"""None"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from microtome.errors import InputError
from microtome.tasks.formats import Records, find_files
from microtome.tasks.loading import task
from microtome.tasks.table import TASKS
from task_samples import SAMPLES


def read(path: Path, content: str, kind: str, **options: object) -> list:
    path.write_bytes(content.encode())
    return list(Records(path=path, format=kind, **options))  # pyright: ignore[reportArgumentType]


def test_a_quote_in_a_tsv_does_not_merge_rows(tmp_path: Path) -> None:
    content = 'text\tlabel\n"one\t1\ntwo "quotes" \'\t0\nthree"\t1\n'
    rows = read(tmp_path / "a.tsv", content, "tsv")
    assert [(r["text"], r["label"]) for r in rows] == [
        ('"one', "1"),
        ('two "quotes" \'', "0"),
        ('three"', "1"),
    ]


def test_quotes_and_newlines_of_a_csv(tmp_path: Path) -> None:
    content = 'text,label\r\n"a, ""b""\nc",1\r\nplain,"0"\r\n'
    rows = read(tmp_path / "a.csv", content, "csv")
    assert rows == [{"text": 'a, "b"\nc', "label": "1"}, {"text": "plain", "label": "0"}]


def test_a_mark_before_the_header_and_unix_or_windows_lines(tmp_path: Path) -> None:
    assert read(tmp_path / "a.tsv", "\ufeffa\tb\r\n1\t2\r\n", "tsv") == [{"a": "1", "b": "2"}]
    assert read(tmp_path / "b.tsv", "1\t2", "tsv", header=("a", "b")) == [{"a": "1", "b": "2"}]


def test_relations_without_their_quotes(tmp_path: Path) -> None:
    content = '1\t"A "<e1>b</e1>" c."\r\nOther\r\nComment: x\r\n\r\n2\t"d"\n'
    rows = read(tmp_path / "a.txt", content, "semeval")
    assert rows == [
        {"sentence": 'A "<e1>b</e1>" c.', "relation": "Other"},
        {"sentence": "d", "relation": None},
    ]
    with pytest.raises(
        InputError, match=r"line 3 of .* must be a numbered sentence, its relation or a comment"
    ):
        read(tmp_path / "a.txt", '1\t"a"\nOther\nAnother\n', "semeval")


@pytest.mark.parametrize(
    "kind, content, words",
    [
        ("jsonl", "[1]\n", "line 1 of .* must be a JSON object, but it is of type list"),
        ("jsonl", "{\n", "line 1 of .* must be a JSON object, but got: "),
        ("squad", "{", "must be JSON, but got: "),
        ("squad", json.dumps({"data": [{"paragraphs": [{"qas": [{}]}]}]}), "must have SQuAD's layout"),
        ("conll", "word\n", "line 1 of .* must have a word and its tag, but got 'word'"),
        ("conllu", "1\tGo\n", "line 1 of .* must have 10 columns"),
    ],
)
def test_what_is_refused(tmp_path: Path, kind: str, content: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path / "file", content, kind)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.tsv must be a readable file, but got: "):
        list(Records(path=tmp_path / "none.tsv", format="tsv"))


def test_a_packed_copy_beside_a_file_is_no_doubt(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("plain")
    (tmp_path / "train.tsv.xz").write_bytes(lzma.compress(b"packed"))
    folder, found = find_files(TASKS["rte"], tmp_path)
    assert folder == tmp_path
    assert {split: f.path.name for split, f in found.items()} == {"train": "train.tsv"}
    assert found["train"].official


def test_hidden_files_and_other_names_are_passed_over(tmp_path: Path) -> None:
    for name in (".train.tsv", "train.tsv.bak", "mytrain.tsv", "train_old.tsv"):
        (tmp_path / name).write_text("")
    with pytest.raises(InputError, match="has none of them"):
        find_files(TASKS["rte"], tmp_path)


def test_the_folders_of_the_official_archive(tmp_path: Path) -> None:
    files = SAMPLES["semeval2010-8"]().files
    for folder, name in (("training", "TRAIN_FILE.TXT"), ("testing_keys", "TEST_FILE_FULL.TXT")):
        place = tmp_path / "SemEval2010_task8_all_data" / f"SemEval2010_task8_{folder}"
        place.mkdir(parents=True)
        (place / name).write_bytes(files[name].encode())
    loaded = task("semeval2010-8", data=tmp_path)
    assert [len(loaded.split(split)) for split in ("train", "test")] == [2, 1]


def test_a_lone_text(tmp_path: Path) -> None:
    lines = [f"Line {i} .\n" + ("\n" if i % 4 == 3 else "") for i in range(400)]
    (tmp_path / "book.txt").write_text("".join(lines))
    loaded = task("lm", data=tmp_path / "book.txt")
    assert loaded.splits == ("train", "validation", "test")
    assert sum(len(loaded.split(split)) for split in loaded.splits) == 400
    assert len({item.group for item in loaded.split("train")}) == len(loaded.split("train")) / 4
    assert task("lm", data=tmp_path).split("train").digest == loaded.split("train").digest
    assert task("lm", data=tmp_path, seed=1).split("train").digest != loaded.split("train").digest
    with pytest.raises(InputError, match="data must be a folder that exists for rte, but got"):
        task("rte", data=tmp_path / "book.txt")
