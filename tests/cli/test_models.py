"""What verbs that run models share: names that tell models apart, options of readers, what a run costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tiny
from microtome.cli.models import cost, load_models, read_texts
from microtome.errors import InputError, UnknownNameError
from microtome.rows.options import row_options
from microtome.rows.planning import plan_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    tiny.save_checkpoint(place / "bert", "bert")
    for link in ("a/x/best", "b/x/best", "b/y/best"):
        (place / link).parent.mkdir(parents=True, exist_ok=True)
        (place / link).symlink_to(place / "bert")
    return place


@pytest.mark.parametrize("given, names", [
    (["bert"], ["bert"]),
    (["bert/"], ["bert"]),
    (["./bert", "a/x/best"], ["bert", "best"]),
    (["b/x/best", "b/y/best"], ["x-best", "y-best"]),
    (["a/x/best", "b/x/best"], ["a-x-best", "b-x-best"]),
    (["a/x/best", "b/x/best", "b/y/best", "bert"], ["a-x-best", "b-x-best", "y-best", "bert"]),
])  # fmt: skip
def test_models_are_called_by_as_little_as_tells_them_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], names: list[str]
) -> None:
    monkeypatch.chdir(folder)
    assert [encoder.name for encoder in load_models(given)] == names


def test_twins_are_called_after_the_first_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    found: list[Any] = load_models(["b/x/best", "b/y/best"], twins=[0, 5])
    assert [encoder.name for encoder in found] == ["x-best", "y-best", "x-best-random0", "x-best-random5"]
    assert found[0].digest == found[1].digest
    assert len({encoder.digest for encoder in found[1:]}) == 3


@pytest.mark.parametrize("again", ["bert", "bert/", "./bert", "b/../bert", "FOLDER/bert", "FOLDER/bert/"])
def test_one_model_twice_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, again: str) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match="names of models must differ, but 'bert' stands twice"):
        load_models(["bert", again.replace("FOLDER", str(folder))])


def test_the_root_is_no_folder_that_tells_models_apart(tmp_path: Path) -> None:
    place = tiny.save_checkpoint(tmp_path / "best", "bert")
    other = tmp_path.joinpath("x", *place.parts[1:])
    other.parent.mkdir(parents=True)
    other.symlink_to(place)
    found = [encoder.name for encoder in load_models([str(place), str(other)])]
    assert found[0] == "-".join(place.parts[1:])
    assert found[1].endswith(f"x-{found[0]}")


def read_texts_of(*texts: str) -> Any:
    from microtome.extraction.texts import make_texts

    return make_texts(list(texts)).examples


def test_options_are_handed_to_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("one\ttwo\tname\nThe cat.\tIt sleeps.\tx1\n")
    said = ["column.text=one", "column.pair=two", "column.id=name"]
    (example,) = read_texts(str(path), said).examples
    assert (example.id, example.text, example.pair) == ("x1", "The cat.", "It sleeps.")
    with pytest.raises(InputError, match="--read must be name=value, but got 'header'"):
        read_texts(str(path), ["header"])
    with pytest.raises(UnknownNameError, match=r"option of the reader .* but got 'heading'"):
        read_texts(str(path), ["heading=no"])


def test_a_value_may_hold_an_equals_sign(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("a=b\tlabel\nThe cat.\t1\n")
    (example,) = read_texts(str(path), ["column.text=a=b"]).examples
    assert example.text == "The cat."


def test_what_a_run_costs_is_said_before_it_starts(folder: Path) -> None:
    encoders = load_models([str(folder / "bert")], twins=[1])
    rows = plan_rows(read_texts_of("The cat \u200b sleeps.", "Stop."), encoders, row_options("word"))
    said, document = cost(encoders, rows)
    assert said.startswith("2 models, 8 layers, 4 rows (one row a word: its last sub-word); dropped in all")
    assert document == {
        "models": ["bert", "bert-random1"],
        "layers": 8,
        "rows": 4,
        "bytes": 4 * 4 * 8 * 32,
        "lost": {"bert": 1, "bert-random1": 1},
        "truncated": {"bert": 0, "bert-random1": 0},
    }
    assert cost(encoders[:1], rows)[0].startswith("1 model, 4 layers, ")
