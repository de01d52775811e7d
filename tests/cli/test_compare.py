"""`microtome compare` computes, prints and writes what a user asked for, or says in one sentence why not."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import microtome as mt
import tiny
from microtome.cli import main
from microtome.findings.cells import SAME_TOKEN
from microtome.randomness import generator

SOURCE = Path(mt.__file__).parents[1]
WORDS = ["the", "cat", "sleeps", "on", "every", "mat", "don't", "reader", "likes", "long", "books"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.save_checkpoint(folder / "base", "bert")
    tiny.save_checkpoint(folder / "seed 1", "bert", seed=1)
    tiny.save_checkpoint(folder / "gpt", "gpt2")
    shutil.copytree(folder / "base", folder / "bare")
    (folder / "one.txt").write_text("the cat sat on the mat\n")
    (folder / "few.txt").write_text(f"{'the cat ' * 6}\nthe cat sat\nthe mat sat\n")
    for path in (folder / "bare").glob("*token*"):
        path.unlink()
    rng = generator(0, "corpus")
    lines = [" ".join(rng.choice(WORDS, size=int(rng.integers(3, 9)))) for _ in range(30)]
    (folder / "lines.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def here(models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(models)
    monkeypatch.setenv("MICROTOME_STORE", "store")
    # The variable is read when the library is imported, which other tests have done.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return models


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["compare", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_map_is_that_of_the_library(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["base", "seed 1", "gpt", "--on", "lines.txt", "-m", "svcca,attention_js,debiased_cka"]
    words += ["--certainty", "--level", "0.9", "--halves", "4", "--precision", "exact", "--seed", "2"]
    read = as_json(capsys, *words, "--subword", "first", "--causal")
    expected = mt.compare(
        ["base", "seed 1", "gpt"],
        on="lines.txt",
        measures="svcca,attention_js,debiased_cka",
        certainty=True,
        level=0.9,
        halves=4,
        precision="exact",
        seed=2,
        subword="first",
        causal=True,
        store="store",
    )
    assert [one["measure"] for one in read["maps"]] == ["svcca", "attention_js", "debiased_cka"]
    for one, two in zip(read["maps"], expected.values(), strict=True):
        assert (one["left"], one["unit"], one["level"]) == (list(two.left), "sentence", 0.9)
        for name in ("values", "low", "high"):
            np.testing.assert_array_equal(np.array(one[name], dtype=float), getattr(two, name), err_msg=name)
    assert tuple(read["findings"]) == expected.findings
    command = ["microtome", "compare", *words, "--subword", "first", "--causal", "--json"]
    for one in read["maps"]:
        made = one["provenance"]
        assert shlex.split(made["command"]) == command
        assert (made["texts"]["source"], made["seed"], made["microtome"]) == ("lines.txt", 2, mt.__version__)
        assert [m["source"] for m in made["models"]] == ["base", "seed 1", "gpt"]


def test_two_seeds_are_printed_with_what_is_found(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "base", "seed 1", "--on", "lines.txt", "--certainty"]) == 0
    said = capsys.readouterr()
    assert "95 % interval (sentence)" in said.out
    assert "same layers" in said.out
    assert "differs most between base and seed 1" in said.out
    assert "of the layers of base are most similar to the layer of seed 1 at their own depth" in said.out
    assert "Share: " not in said.out
    rows = sum(len(line.split()) for line in Path("lines.txt").read_text().splitlines())
    assert f"{rows} rows (one row per word: its last sub-word)." in said.out
    assert said.err.startswith(
        f"2 models, 8 layers, {rows} rows (one row per word: its last sub-word): about 1 MB"
    )


def test_random_baselines_are_copies_of_the_first_model(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = as_json(
        capsys, "base", "--on", "lines.txt", "--random-baselines", "2", "--seed", "3", "--rows", "mean"
    )
    (one,) = read["maps"]
    assert [name for name in one["left"] if name.endswith("/2")] == [
        "base/2", "base-random3/2", "base-random4/2",
    ]  # fmt: skip
    assert one["unit"] == "example"
    twin = mt.load("base", random_init=True, seed=3)
    expected = mt.compare(["base", twin], on="lines.txt", rows="mean", store="store")["debiased_cka"]
    np.testing.assert_allclose(np.array(one["values"])[:8, :8], expected.values, atol=1e-9)


def test_a_folder_is_filled_and_read_again(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a" / "b c"
    words = ["base", "seed 1", "--on", "lines.txt", "--rows", "cls", "-m", "debiased_cka,svcca"]
    read = as_json(capsys, *words, "--out", str(out))
    found = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    figures = [f"figures/{m}.{k}" for m in ("debiased_cka", "svcca") for k in ("pdf", "png", "svg")]
    assert found == [*figures, "methods.md", "references.bib", "result.json", "table.parquet"]
    assert json.loads((out / "result.json").read_text()) == read
    maps = mt.open(out)
    assert maps["svcca"].left == tuple(f"{name}/{k}" for name in ("base", "seed 1") for k in range(4))
    table = pq.read_table(out / "table.parquet").to_pylist()
    assert len(table) == 2 * 64
    empty = [row for row in table if "/0" in row["left"] + row["right"]]
    assert {(row["value"], row["reason"]) for row in empty} == {(None, SAME_TOKEN)}
    assert None not in {row["value"] for row in table if row not in empty}
    page = (out / "methods.md").read_text()
    assert "The layers of 2 models (4 of `base`, 4 of `seed 1`) were compared with each other" in page
    assert f"In `svcca`, 28 of 64 cells are undefined ({SAME_TOKEN})." in page
    assert "on 0 " not in page
    assert "The rows are of `lines`: one row per example: the token that stands for it." in page
    assert "differs most between base and seed 1" in page
    assert "microtome compare base 'seed 1' --on lines.txt" in page


def test_a_dry_run_computes_and_writes_nothing(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["base", "gpt", "--on", "lines.txt", "--dry-run", "--store", str(tmp_path / "store")]
    words += ["--out", str(tmp_path / "out")]
    assert main(["compare", *words]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("2 models, 9 layers, ")
    assert said.err == ""
    assert main(["compare", *words, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["format"], plan["models"], plan["layers"]) == ("microtome/plan/1", ["base", "gpt"], 9)
    assert plan["bytes"] == plan["rows"] * 9 * 32 * 4
    assert plan["lost"] == {"base": 0, "gpt": 0}
    assert list(tmp_path.iterdir()) == []


def test_asked_again_no_model_runs(here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["base", "gpt", "--on", "lines.txt", "--store", str(tmp_path)]
    first = as_json(capsys, *words)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("shard-*")}
    assert len(made) == len(first["provenance"]["activations"]) == 2
    # With another measure, the same rows are read from the store.
    second = as_json(capsys, *words, "-m", "linear_cka")
    assert second["provenance"]["activations"] == first["provenance"]["activations"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("shard-*")} == made


@pytest.mark.slow
def test_standard_output_is_json_and_nothing_else(here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "microtome", "compare", "base", "gpt", "--on", "lines.txt", "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["format"] == "microtome/similarity/1"
    assert done.stdout.count("\n") == 1
    assert done.stderr.startswith("2 models, 9 layers, ")
    assert done.stderr.count("\n") == 1


def test_quiet_prints_the_result_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["compare", "base", "--on", "lines.txt", "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("debiased_cka: ")


def test_models_of_one_name_are_told_apart(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [tmp_path / run / "checkpoint" / "best" for run in ("run1", "run2")]
    for place, model in zip(places, ("base", "seed 1"), strict=True):
        place.parent.mkdir(parents=True)
        place.symlink_to(here / model)
    read = as_json(capsys, *map(str, places), "--on", "lines.txt", "--random-baselines", "1")
    names = [name.rpartition("/")[0] for name in read["maps"][0]["left"]]
    assert list(dict.fromkeys(names)) == [
        "run1-best", "run2-best", "run1-best-random0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words, said",
    [
        ("base", "compare must be given --on. Corpus: a file, a folder, hub:ID or task:NAME/SPLIT."),
        ("base --on nowhere.conllu", "source must be a file or a folder that exists, or hub:NAME, but"),
        ("base --on lines.txt -m debiased_ck", "but got 'debiased_ck'. Did you mean debiased_cka?"),
        ("bare --on lines.txt", "bare must hold a tokenizer (tokenizer.json or vocab.txt), but"),
        ("base base --on lines.txt", "names of models must differ, but 'base' stands twice"),
        ("base --on lines.txt --random-baselines 3,4", "--random-baselines must be a whole number between 0"),
        ("base --on lines.txt --random-baselines=-1", "--random-baselines must be a whole number between 0"),
        ("base --on lines.txt --rows words", "rows must be one of cls, mean, token, word, but got 'w"),
        ("base --on lines.txt --read x", "--read must be name=value, such as "),
        ("base --on lines.txt --level 2", "--level must be between 0 and 1, but got 2"),
        ("base --on lines.txt --rows cls -m attention_js", "attention_js must be asked of rows of"),
        ("base gpt --on lines.txt --rows token", "rows of tokens must come from models with one tok"),
        ("base --on lines.txt --sample 9999", "sample must be at most the "),
        ("base --on lines.txt --storage int8", "storage must be one of bfloat16, float16, float32, but"),
        ("base --on lines.txt --precision most", "precision must be "),
        ("base --on lines.txt --published li", "published must be one of wu, but got 'li'."),
        ("base --on one.txt --certainty", "come from one: that is too few for intervals and for debiased"),
        ("base --on few.txt", "every sentence must hold fewer than half of the rows, but one holds 12 of"),
        ("base --on lines.txt --out lines.txt", "one that can be made, but got lines.txt: it is a file."),
    ],
)  # fmt: skip
def test_a_wrong_request_is_one_sentence_and_code_2(
    here: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    capsys.readouterr()
    assert main(["compare", *words.split(), "--json", "--quiet"]) == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert said in heard.err
    assert heard.err.count("\n") == 1


def test_a_damaged_recording_is_told_and_can_be_made_again(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["base", "--on", "lines.txt", "--store", str(tmp_path)]
    first = as_json(capsys, *words)
    (shard,) = tmp_path.rglob("shard-*")
    shard.write_bytes(shard.read_bytes()[:-9])
    assert main(["store", "verify", "--store", str(tmp_path)]) == 1
    capsys.readouterr()
    assert main(["compare", *words, "--json"]) == 0
    heard = capsys.readouterr()
    assert f"{shard.name} must be" in heard.err
    assert json.loads(heard.out)["maps"][0]["values"] == first["maps"][0]["values"]
    assert main(["store", "verify", "--store", str(tmp_path)]) == 0
