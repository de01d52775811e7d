from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from microtome.errors import InputError
from microtome.tasks.loading import task


def csv(path: Path, rows: int = 40) -> Path:
    lines = [f'"Review {i // 2}, with a ""quote""\nand a line",{i % 4}' for i in range(rows)]
    path.write_text("\n".join(["review,stars", *lines, ""]))
    return path


def test_a_table_in_two_lines(tmp_path: Path) -> None:
    mine = task(csv(tmp_path / "mine.csv"), text="review", label="stars")
    assert (mine.name, mine.kind, mine.labels) == ("mine", "classification", ("0", "1", "2", "3"))
    assert mine.splits == ("train", "validation", "test", "whole")
    assert [item.id for item in mine.split("whole")] == [f"whole-{i}" for i in range(40)]
    parts = [mine.split(name) for name in mine.splits[:3]]
    assert [len(part) for part in parts] == [32, 4, 4]
    assert parts[0].items[0].texts[0].endswith('with a "quote"\nand a line')
    # Rows with one text are never torn apart, and none is lost.
    groups = [{item.group for item in part} for part in parts]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 20
    assert "4 of the 40 examples of the file, cut with seed 0, groups kept whole" in parts[1].notes
    again = task(tmp_path / "mine.csv", text="review", label="stars")
    assert again.split("train").digest == parts[0].digest
    other = task(tmp_path / "mine.csv", text="review", label="stars", seed=1)
    assert other.split("train").digest != parts[0].digest


def test_a_folder_of_splits(tmp_path: Path) -> None:
    rows = [{"a": f"x{i}", "b": "y", "gold": ["no", "yes"][i % 2]} for i in range(4)]
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    (tmp_path / "dev.tsv").write_text("a\tb\tgold\nz\tw\tyes\n")
    (tmp_path / "test.jsonl").write_text('{"a": "q", "b": "r"}\n')
    mine = task(tmp_path, text="a", pair="b", label="gold")
    assert mine.labels == ("no", "yes")
    assert "f1" in mine.scores
    assert [item.target for item in mine.split("train")] == [0, 1, 0, 1]
    assert mine.split("validation").items[0].texts == ("z", "w")
    assert mine.split("test").items[0].target is None
    given = task(tmp_path, text="a", pair="b", label="gold", labels=["yes", "no"])
    assert given.split("validation").items[0].target == 0


@pytest.mark.parametrize(
    "name,split", [("validation", "validation"), ("dev", "validation"), ("test", "test")]
)
def test_a_folder_with_nothing_to_learn_from(name: str, split: str, tmp_path: Path) -> None:
    csv(tmp_path / f"{name}.csv")
    mine = task(tmp_path, text="review", label="stars")
    assert (mine.splits, mine.validation) == ((split,), split)
    assert mine.labels == ("0", "1", "2", "3")
    assert len(mine.split(mine.validation, labeled=True)) == 40
    with pytest.raises(
        InputError, match=rf"must have a split 'train' to learn from, but it has {split} alone\."
    ):
        mine.split(mine.train)
    numbers = task(tmp_path, text="review", label="stars", kind="regression")
    assert numbers.range == (0.0, 3.0)


def test_a_folder_with_two_tables(tmp_path: Path) -> None:
    csv(tmp_path / "train.csv")
    csv(tmp_path / "test.csv", 8)
    mine = task(tmp_path, text="review", label="stars")
    assert (mine.splits, mine.validation) == (("train", "test"), "test")
    csv(tmp_path / "dev.csv", 8)
    assert task(tmp_path, text="review", label="stars").validation == "validation"


def test_numbers(tmp_path: Path) -> None:
    mine = task(csv(tmp_path / "mine.csv"), text="review", label="stars", kind="regression")
    assert (mine.labels, mine.range, mine.main) == ((), (0.0, 3.0), ("pearson", "spearman"))
    assert isinstance(mine.split("train").items[0].target, float)


def test_numbers_that_are_not_whole_are_learned_as_numbers(tmp_path: Path) -> None:
    rows = "".join(f"one {i}\tother {i}\t{i / 2}\n" for i in range(12))
    (tmp_path / "pairs.tsv").write_text(f"a\tb\tscore\n{rows}")
    columns: dict[str, Any] = {"text": "a", "pair": "b", "label": "score"}
    mine = task(tmp_path / "pairs.tsv", **columns)
    assert (mine.kind, mine.labels, mine.range) == ("regression", (), (0.0, 5.5))
    assert mine.split("whole").items[1].texts == ("one 1", "other 1")
    note = (
        "'score' holds numbers that are not whole, so they are learned as numbers (regression); "
        "kind='classification' (on the command line --column kind=classification) makes each of them a class"
    )
    assert mine.card["note"] == note
    assert note in mine.split("train").notes
    classes = task(tmp_path / "pairs.tsv", **columns, kind="classification")
    assert (classes.kind, len(classes.labels), classes.card["note"]) == ("classification", 12, None)


@pytest.mark.parametrize("labels", [("1", "2"), ("1.0", "2.0"), ("no", "0.5"), ("nan", "0.5"), ("-1", "1e3")])
def test_whole_numbers_and_names_stay_classes(labels: tuple[str, str], tmp_path: Path) -> None:
    rows = "".join(f"text {i},{labels[i % 2]}\n" for i in range(20))
    (tmp_path / "mine.csv").write_text(f"t,l\n{rows}")
    mine = task(tmp_path / "mine.csv", text="t", label="l")
    assert (mine.kind, set(mine.labels)) == ("classification", set(labels))


def test_too_many_labels_say_what_to_add(tmp_path: Path) -> None:
    rows = "".join(f"text {i},{i}\n" for i in range(1001))
    (tmp_path / "mine.csv").write_text(f"t,l\n{rows}")
    with pytest.raises(InputError, match=r"has 1,001: numbers are .* --column kind=regression\)\."):
        task(tmp_path / "mine.csv", text="t", label="l")


def test_labels_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("t\tl\n" + "".join(f"x{i}\t{i % 12}\n" for i in range(24)))
    assert task(tmp_path / "a.tsv", text="t", label="l").labels == tuple(map(str, range(12)))


@pytest.mark.parametrize(
    "options, words",
    [
        (
            {"label": None},
            r"label must be the name of a column of .*mine.csv \(review, stars\), on the command line as "
            "--column label=review, but none is given",
        ),
        ({"label": "star"}, "line 3 of .* must have the column 'star', but its columns are review, stars"),
        ({"text": "revue"}, "must have the column 'revue', but its columns are review, stars"),
        ({"kind": "span"}, "kind must be one of classification, regression for a table"),
        ({"labels": ["1"]}, "labels must be a list of at least two different names"),
        ({"labels": ["0", "1"]}, "must have one of the labels 0, 1, but got '2'"),
        ({"data": "x"}, "data must be left out for a table of one's own"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict, words: str) -> None:
    csv(tmp_path / "mine.csv")
    with pytest.raises(InputError, match=words):
        task(tmp_path / "mine.csv", **{"text": "review", "label": "stars", **options}).split("train")


def test_files_that_do_not_do(tmp_path: Path) -> None:
    (tmp_path / "a.xls").write_text("")
    with pytest.raises(
        InputError, match=r"a table of one's own must be a file that ends in .csv, .tsv, .jsonl"
    ):
        task(tmp_path / "a.xls", text="a", label="b")
    with pytest.raises(
        InputError, match=r"must have a table called train, validation or test \(.csv, .*\), but it has none"
    ):
        task(tmp_path, text="a", label="b")
    (tmp_path / "b.csv").write_text("a,b\n")
    with pytest.raises(InputError, match=r"b.csv must hold examples, but it has none"):
        task(tmp_path / "b.csv", text="a", label="b")
    (tmp_path / "b.csv").write_text("a,b\nx,1\ny,1\n")
    with pytest.raises(InputError, match=r"must have two labels or more in 'b', but it has {'1'}"):
        task(tmp_path / "b.csv", text="a", label="b")
