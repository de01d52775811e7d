"""`microtome extract` records what it says, where it says, and what `similarity` can read."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import microtome as mt
import tiny
from microtome.cli import main
from microtome.store.shelf import Shelf

SOURCE = Path(mt.__file__).parents[1]
LINES = ["The cat doesn't sleep.", "Every reader likes long books.", "Stop.", "The mat sleeps on the cat."]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.save_checkpoint(folder / "bert", "bert")
    return folder


@pytest.fixture
def here(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "bert").symlink_to(models / "bert")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MICROTOME_STORE", "store")
    # The variable is read when the library is imported, which other tests have done.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["extract", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_was_recorded_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", "bert", "--on", "lines.txt"]) == 0
    said = capsys.readouterr()
    (address,) = Shelf("store").addresses()
    entry = Shelf("store").get(address)
    assert entry is not None
    rows = sum(len(line.split()) for line in LINES)
    assert said.out == f"4 layers of {rows} rows in {entry.folder}\n"
    assert said.err.startswith(
        f"1 model, 4 layers, {rows} rows (one row per word: its last sub-word): about 1 MB"
    )
    assert entry.provenance["command"] == "microtome extract bert --on lines.txt"


def test_the_document_says_where_everything_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bert", "--on", "lines.txt", "--rows", "mean", "--storage", "float16"]
    read = as_json(capsys, *words)
    assert read["format"] == "microtome/extract/1"
    assert read["layers"] == ["bert/0", "bert/1", "bert/2", "bert/3"]
    assert (read["widths"], read["rows"]) == ([32] * 4, len(LINES))
    assert read["facts"]["texts"]["source"] == "lines.txt"
    expected = mt.extract("bert", "lines.txt", rows="mean", storage="float16", store="store")
    assert (read["address"], read["digest"]) == (expected.address, expected.rows.digest)
    entry = Shelf("store").get(read["address"])
    assert entry is not None
    assert shlex.split(entry.provenance["command"]) == ["microtome", "extract", *words, "--json"]
    made = read["provenance"]
    assert {"microtome", "python", "torch", "transformers", "numpy", "threads", "seconds"} <= set(made)
    assert made["models"][0]["digest"] == mt.load("bert").digest
    assert made["rows"]["digest"] == expected.rows.digest
    assert (made["activations"], made["device"], made["seed"]) == ([expected.address], "cpu", 0)
    assert made["command"] == entry.provenance["command"]


def test_the_folder_can_be_compared(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read = as_json(capsys, "bert", "--on", "lines.txt", "--out", "layers/bert")
    assert read["folder"] == "layers/bert"
    assert (here / "layers/bert/rows.parquet").exists()
    assert main(["similarity", "layers/bert", "-m", "linear_cka", "--precision", "exact", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["maps"]
    layers = list(mt.extract("bert", "lines.txt", store="store").layers)
    expected = mt.similarity_matrix(layers, measures="linear_cka", precision="exact")["linear_cka"]
    np.testing.assert_allclose(one["values"], expected.values, atol=1e-12)


def conllu(documents: int, sentences: int = 3) -> str:
    """A treebank of some documents, their sentences drawn from the lines."""
    found = []
    for number in range(documents * sentences):
        words = LINES[number % len(LINES)].split()
        head = [f"# newdoc id = d{number // sentences}"] if number % sentences == 0 else []
        rows = ["\t".join([str(k), w, *["_"] * 4, "0", *["_"] * 3]) for k, w in enumerate(words, 1)]
        found.append("\n".join([*head, f"# sent_id = s{number}", *rows]))
    return "\n\n".join(found) + "\n\n"


@pytest.mark.parametrize(
    ("documents", "rows", "unit"),
    [(12, "word", "document"), (12, "cls", "document"), (3, "word", "sentence"), (3, "cls", "example")],
)
def test_a_recorded_folder_is_compared_as_its_models_would_be(
    here: Path, capsys: pytest.CaptureFixture[str], documents: int, rows: str, unit: str
) -> None:
    """Rows of one document or sentence err together, whether or not they were recorded before."""
    Path("bank.conllu").write_text(conllu(documents))
    as_json(capsys, "bert", "--on", "bank.conllu", "--rows", rows, "--out", "layers")
    assert main(["similarity", "layers", "-m", "debiased_cka", "--certainty", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["maps"]
    expected = mt.compare(
        ["bert"], on="bank.conllu", rows=rows, measures=["debiased_cka"], certainty=True, store="store"
    )["debiased_cka"]
    assert one["unit"] == expected.unit == unit
    assert one["left"] == list(expected.left) == [f"bert/{k}" for k in range(4)]
    np.testing.assert_allclose(np.array(one["values"], dtype=float), expected.values, atol=1e-9)
    assert expected.low is not None
    np.testing.assert_allclose(np.array(one["low"], dtype=float), expected.low, atol=1e-9)
    assert any("3 documents" in said for said in one["warnings"]) == (documents == 3)


def test_rows_that_are_said_to_be_independent_are_taken_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_json(capsys, "bert", "--on", "lines.txt", "--out", "layers")
    count = sum(len(line.split()) for line in LINES)
    alone = mt.similarity_matrix("layers", clusters=range(count))["debiased_cka"]
    assert alone.unit == "row"
    assert alone.left[0] == "bert/0"
    assert mt.similarity_matrix("layers")["debiased_cka"].unit == "sentence"


def test_a_folder_that_was_used_before_holds_the_new_rows(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_json(capsys, "bert", "--on", "lines.txt", "--out", "layers")
    first = as_json(capsys, "bert", "--on", "lines.txt", "--rows", "cls", "--out", "layers")
    assert main(["similarity", "layers", "--json", "--quiet"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["maps"]
    assert (len(one["left"]), one["n"]) == (4, len(LINES))
    assert one["values"][0] == [None] * 4
    assert one["reasons"][0] == ["a layer is constant over the rows"] * 4
    # The store has lost nothing by it.
    assert Shelf("store").verify() == []
    assert first["layers"] == ["bert/0", "bert/1", "bert/2", "bert/3"]


def test_shards_of_an_earlier_run_do_not_stay(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("long.txt").write_text("The cat sleeps.\n" * 600)  # more than one shard
    as_json(capsys, "bert", "--on", "long.txt", "--rows", "mean", "--out", "layers")
    assert len(list(Path("layers").glob("shard-*"))) == 2
    as_json(capsys, "bert", "--on", "lines.txt", "--rows", "mean", "--out", "layers")
    assert len(list(Path("layers").glob("shard-*"))) == 1


def test_the_folder_may_be_that_of_the_store(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = as_json(capsys, "bert", "--on", "lines.txt")["folder"]
    again = as_json(capsys, "bert", "--on", "lines.txt", "--out", place)
    assert again["folder"] == place
    assert Shelf("store").verify() == []


def test_what_a_user_does_to_the_folder_does_not_reach_the_store(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_json(capsys, "bert", "--on", "lines.txt", "--out", "layers")
    for path in Path("layers").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    assert Shelf("store").verify() == []


def test_files_of_others_stay_beside_the_layers(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bert", "--on", "lines.txt", "--rows", "mean", "--out", "layers"]
    as_json(capsys, *words)
    Path("layers/notes.txt").write_text("mine")
    as_json(capsys, *words)
    Path("layers/shard-00001.safetensors").write_text("mine")
    assert main(["extract", *words]) == 2
    said = "layers holds shard-00001.safetensors, which microtome did not write there; name another folder."
    assert said in capsys.readouterr().err
    assert Path("layers/notes.txt").read_text() == "mine"
    assert Path("layers/shard-00001.safetensors").read_text() == "mine"


def test_options_reach_the_rows(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--subword", "mean", "--longest", "8", "--sample", "6", "--seed", "3", "--batch-tokens", "64"]
    read = as_json(capsys, "bert", "--on", "lines.txt", *words, "--threads", "1", "--device", "cpu")
    expected = mt.extract(
        "bert", "lines.txt", subword="mean", longest=8, sample=6, seed=3, batch_tokens=64, store="store"
    )
    assert read["address"] == expected.address


def test_columns_are_named_as_the_reader_takes_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("table.tsv").write_text("body\tlabel\nThe cat sleeps.\t1\nStop.\t0\n")
    read = as_json(capsys, "bert", "--on", "table.tsv", "--rows", "mean", "--read", "column.text=body")
    assert read["rows"] == 2


@pytest.mark.slow
def test_standard_output_is_json_and_nothing_else(here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "microtome", "extract", "bert", "--on", "lines.txt", "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == sum(len(line.split()) for line in LINES)
    assert done.stdout.count("\n") == 1
    # One note, and none of the library's.
    assert done.stderr.count("\n") == 1


def test_a_dry_run_says_what_it_would_cost_and_records_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = as_json(capsys, "bert", "--on", "lines.txt", "--dry-run", "--out", "layers")
    rows = sum(len(line.split()) for line in LINES)
    assert read["format"] == "microtome/plan/1"
    assert (read["models"], read["layers"], read["rows"], read["bytes"]) == (
        ["bert"],
        4,
        rows,
        rows * 4 * 4 * 32,
    )
    assert main(["extract", "bert", "--on", "lines.txt", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(f"1 model, 4 layers, {rows} rows")
    assert not Path("store").exists()
    assert not Path("layers").exists()


def test_quiet_prints_the_result_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", "bert", "--on", "lines.txt", "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("4 layers of ")


@pytest.mark.parametrize(
    "words, said",
    [
        ("bert", "extract must be given --on. Corpus: a file, a folder, hub:ID or task:NAME/SPLIT."),
        ("bert --on nowhere.txt", "source must be a file or a folder that exists, or hub:NAME, but got"),
        ("empty --on lines.txt", "empty must hold a model, but the folder is empty."),
        ("bert --on lines.txt --rows line", "rows must be one of cls, mean, token, word, but got 'l"),
        ("bert --on lines.txt --subword x", "subword must be one of first, last, mean, but got 'x'."),
        ("bert --on lines.txt --storage int8", "storage must be one of bfloat16, float16, float32, but"),
        ("bert --on lines.txt --read columns", "--read must be name=value, such as column.text="),
        ("bert --on lines.txt --read =1", "--read must be name=value, such as column.text="),
        ("bert --on lines.txt --read lang=en", "but got 'lang'."),
        ("bert --on lines.txt --device moon", "device must be a torch device such as 'cpu'"),
        ("bert --on lines.txt --out lines.txt", "a folder to write to must be one that can be made"),
        ("bert --on blank.txt", "blank.txt must hold at least one example, but it holds none."),
    ],
)  # fmt: skip
def test_a_wrong_request_is_one_sentence_and_code_2(
    here: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    Path("empty").mkdir()
    Path("blank.txt").write_text("\n")
    assert main(["extract", *words.split(), "--json", "--quiet"]) == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert said in heard.err
    assert heard.err.count("\n") == 1
    assert not Path("store").exists()
