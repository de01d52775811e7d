"""Does a user get a smaller model, its evidence and plain errors from `prune`?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import transformers

import tiny
from microtome.cli import main


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("cli") / "bert"
    label = {"id2label": {0: "down", 1: "up"}, "label2id": {"down": 0, "up": 1}}
    return str(tiny.save_checkpoint(folder, "bert", head="SequenceClassification", **label))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("mine")
    for name, size in (("train", 40), ("validation", 60), ("test", 40)):
        rows = "".join(f"the cat number {i} sleeps,{'up' if i % 3 else 'down'}\n" for i in range(size))
        (folder / f"{name}.csv").write_text(f"words,mood\n{rows}")
    return str(folder)


@pytest.fixture
def words(model: str, table: str, tmp_path: Path) -> list[str]:
    own = ["--task", table, "--column", "text=words", "--column", "label=mood", "--threads", "1"]
    return ["prune", model, *own, "--store", str(tmp_path / "shelf")]


def test_a_smaller_model_with_its_evidence(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "small"
    asked = [*words, "--max-drop", "99", "--confirm-on", "test", "--out", str(out)]
    assert main([*asked, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["format"] == "microtome/prune/1"
    assert told["certified"]
    assert told["confirmed"]["n"] == 40
    assert json.loads((out / "result.json").read_text()) == told
    net = transformers.AutoModelForSequenceClassification.from_pretrained(out)
    assert net.config.num_hidden_layers == len(told["kept"])
    assert pq.read_table(out / "table.parquet").num_rows == told["scored"] == 6
    assert told["provenance"]["command"].startswith("microtome prune")

    assert main(asked) == 0
    shown = capsys.readouterr()
    # Weights that were never trained have nothing to lose.
    assert re.search(
        "Nothing is concluded about pruning: the whole model .* the majority baseline", shown.out
    )
    assert "6 cuts were scored: every subset of the blocks." in shown.out
    assert "blocks, batch 30" in shown.out
    assert "Written to" in shown.err


def test_nothing_to_cut_is_a_result_too(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "none"
    assert main([*words, "--max-drop", "0.5", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "Nothing is concluded" in shown.out
    assert "6 cuts would be scored first (every subset of the blocks)" in shown.err
    assert "result.json, and no model: no cut is shown to be safe." in shown.err
    assert [path.name for path in out.iterdir()] == ["result.json"]
    assert not json.loads((out / "result.json").read_text())["certified"]


def test_what_it_would_do(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--dry-run", "--share", "0.25"]) == 0
    said = capsys.readouterr().out
    assert "6 cuts would be scored first (every subset of the blocks)" in said
    assert "Chosen on 15 examples of validation. Certified on 45 examples" in said


def test_a_lone_table_is_used_as_a_whole(
    words: list[str], table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lone = tmp_path / "mine.csv"
    lone.write_text((Path(table) / "validation.csv").read_text())
    asked = [str(lone) if word == table else word for word in words]
    assert main([*asked, "--dry-run"]) == 0
    assert "Chosen on 30 examples of the whole table mine. Certified on 30" in capsys.readouterr().out
    assert main([*asked, "--dry-run", "--recover", "1"]) == 0
    assert "Chosen on 6 examples of the table mine without train." in capsys.readouterr().out
    assert main([*asked, "--max-drop", "99"]) == 0
    assert "that bert was not trained on them is taken for granted." in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize("name", ["validation", "test"])
def test_a_folder_with_one_table(
    name: str, words: list[str], table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / f"{name}.csv").write_text((Path(table) / "validation.csv").read_text())
    asked = [str(tmp_path / "one") if word == table else word for word in words]
    assert main([*asked, "--dry-run"]) == 0
    assert f"Chosen on 30 examples of {name}." in capsys.readouterr().out
    assert main(["evaluate", *asked[1:-2]]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert main(["finetune", *asked[1:]]) == 2
    told = f"one must have a split 'train' to learn from, but it has {name} alone."
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "more,sentence",
    [
        (["--max-drop", "0"], "--max-drop must be a number above 0, but got 0.0."),
        (["--split", "nowhere"], "split of mine"),
        (["--share", "2"], "share must be between 0 and 1, but got 2.0."),
        (["--set", "rate=1"], "values of a recipe must come with recover, but got rate alone."),
        (["--certify-on", "validation"], "must be different ones, but got validation, validation."),
        (["--device", "tpu"], "device must be"),
    ],
)
def test_wrong_requests(
    more: list[str], sentence: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, *more]) == 2
    told = capsys.readouterr().err
    assert told.startswith("microtome: ")
    # A plan refuses what the run would.
    assert main([*words, *more, "--dry-run"]) == 2
    assert capsys.readouterr().err == told
    assert sentence.replace("mine", Path(words[3]).name) in told


def test_a_folder_with_other_things_is_left_alone(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert main([*words, "--out", str(tmp_path)]) == 2
    assert "which microtome did not write there; name another folder." in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine"
