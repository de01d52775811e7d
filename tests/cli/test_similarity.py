"""`microtome similarity` computes what it says, prints where it says, and writes what can be read again."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import microtome as mt
from microtome.cli import main

SOURCE = Path(mt.__file__).parents[1]
RNG = np.random.default_rng(11)
BASE = RNG.normal(size=(4, 60, 6))
TUNED = BASE + 0.5 * RNG.normal(size=BASE.shape)
IDS = np.repeat(np.arange(15), 4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "with a space"
    place.mkdir()
    np.save(place / "base.npy", BASE)
    np.save(place / "tuned model.npy", TUNED)
    np.save(place / "ids.npy", IDS)
    monkeypatch.chdir(place)
    return place


def linear_cka(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x - x.mean(0), y - y.mean(0)
    return float((x.T @ y).ravel() @ (x.T @ y).ravel() / np.linalg.norm(x.T @ x) / np.linalg.norm(y.T @ y))


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main(["similarity", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_values_are_those_of_the_formula(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read = as_json(capsys, "base.npy", "tuned model.npy", "-m", "linear_cka", "--precision", "exact")
    (one,) = read["maps"]
    assert one["left"] == [f"base/{i}" for i in range(4)]
    assert one["right"] == [f"tuned model/{i}" for i in range(4)]
    expected = [[linear_cka(x, y) for y in TUNED] for x in BASE]
    np.testing.assert_allclose(one["values"], expected, rtol=1e-10)


def test_one_stack_is_compared_with_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = as_json(capsys, "base.npy")["maps"]
    assert (one["measure"], one["symmetric"], one["right"]) == ("debiased_cka", True, one["left"])
    np.testing.assert_allclose(np.diag(one["values"]), 1, atol=1e-6)


def test_standard_output_is_json_and_nothing_else(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "microtome", "similarity", "base.npy", "-m", "svcca", "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["format"] == "microtome/similarity/1"
    assert done.stdout.count("\n") == 1
    assert "4 x 4 layers, 60 rows, svcca: about" in done.stderr
    assert "UserWarning" not in done.stderr


def test_every_option_reaches_the_engine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mask = np.arange(60) % 6 == 0
    np.save("mask.npy", mask)
    words = ["base.npy", "tuned model.npy", "--measures", "debiased_cka,neuron_correlation", "--certainty"]
    words += [
        "--clusters",
        "ids.npy",
        "--level",
        "0.8",
        "--halves",
        "6",
        "--permutations",
        "5",
        "--sample",
        "40",
    ]
    words += [
        "--leave-out",
        "mask.npy",
        "--zscore",
        "--remove-top",
        "1",
        "--precision",
        "exact",
        "--seed",
        "4",
    ]
    words += ["--memory", "1MB", "--device", "cpu", "--threads", "1"]
    read = as_json(capsys, *words)
    expected = mt.similarity_matrix(
        BASE,
        TUNED,
        ["debiased_cka", "neuron_correlation"],
        certainty=True,
        clusters=IDS,
        level=0.8,
        halves=6,
        permutations=5,
        sample=40,
        leave_out=mask,
        zscore=True,
        remove_top=1,
        precision="exact",
        seed=4,
        memory="1MB",
        threads=1,
    )
    for one, two in zip(read["maps"], expected.values(), strict=True):
        assert one["level"] == 0.8
        assert one["n"] == two.n < 50
        assert one["estimator"] == two.estimator
        for name in ("values", "low", "high", "null_mean", "p", "p_map"):
            np.testing.assert_array_equal(np.array(one[name], dtype=float), getattr(two, name), err_msg=name)


def test_the_record_says_what_makes_it_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["base.npy", "tuned model.npy", "--clusters", "ids.npy"]
    provenance = as_json(capsys, *words)["provenance"]
    assert shlex.split(provenance["command"]) == ["microtome", "similarity", *words, "--json"]
    assert [one["path"] for one in provenance["inputs"]] == ["base.npy", "tuned model.npy", "ids.npy"]
    for one in provenance["inputs"]:
        content = Path(one["path"]).read_bytes()
        assert one["bytes"] == len(content)
        assert one["sha256"] == hashlib.sha256(content).hexdigest()
    assert provenance["seed"] == 0


def test_a_folder_of_files_is_listed_file_by_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "stack").mkdir()
    for i in (2, 10):
        np.save(folder / "stack" / f"layer{i}.npy", BASE[i % 4])
    read = as_json(capsys, "stack")
    assert read["maps"][0]["left"] == ["layer2", "layer10"]
    assert [Path(one["path"]).name for one in read["provenance"]["inputs"]] == ["layer2.npy", "layer10.npy"]


def test_undefined_cells_are_null_with_a_reason(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flat = BASE.copy()
    flat[2] = 1.0
    np.save("flat.npy", flat)
    (one,) = as_json(capsys, "flat.npy", "base.npy", "--certainty")["maps"]
    assert one["values"][2] == one["low"][2] == [None] * 4
    assert one["reasons"][2] == ["a layer is constant over the rows"] * 4
    assert main(["similarity", "flat.npy", "base.npy"]) == 0
    assert "4 of 16 cells are undefined: a layer is constant over the rows." in capsys.readouterr().out


def test_a_dry_run_reads_no_rows_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = BASE.copy()
    broken[0, 0, 0] = np.nan
    np.save("broken.npy", broken)
    # A real run refuses these values, so that a dry run which read them would fail too.
    assert main(["similarity", "broken.npy", "--quiet"]) == 2
    capsys.readouterr()
    assert main(["similarity", "broken.npy", "-m", "svcca", "--dry-run", "--out", "out", "--zscore"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("4 x 4 layers, 60 rows, svcca: about ")
    assert "memory" in said.out
    assert said.err == ""
    assert not Path("out").exists()
    assert main(["similarity", "broken.npy", "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["format"], plan["rows"], plan["measures"]) == ("microtome/plan/1", 60, ["debiased_cka"])
    assert plan["memory_bytes"] > 0
    assert plan["seconds_on_one_thread"] > 0


def test_a_folder_is_filled_and_read_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "base.npy",
        "tuned model.npy",
        "-m",
        "debiased_cka,svcca:threshold=0.9",
        "--certainty",
        "--halves",
        "4",
    ]
    assert main(["similarity", *words, "--out", "a/b c", "--json"]) == 0
    said = capsys.readouterr()
    found = sorted(p.relative_to("a/b c").as_posix() for p in Path("a/b c").rglob("*") if p.is_file())
    figures = [
        f"figures/{m}.{k}" for m in ("debiased_cka", "svcca_threshold-0.9") for k in ("pdf", "png", "svg")
    ]
    assert found == [*figures, "methods.md", "references.bib", "result.json", "table.parquet"]
    assert Path("a/b c/result.json").read_text() == said.out
    maps = mt.open("a/b c")
    assert list(maps) == ["debiased_cka", "svcca:threshold=0.9"]
    assert maps["svcca"].low is not None
    assert "raghu2017" in Path("a/b c/references.bib").read_text()
    assert "microtome similarity base.npy 'tuned model.npy'" in Path("a/b c/methods.md").read_text()
    assert (
        "Written to a/b c: result.json, table.parquet, methods.md, references.bib and 6 figures." in said.err
    )
    own = Path("a/b c/figures/svcca.png")
    own.write_bytes(b"a picture of the user")
    assert main(["similarity", *words[:2], "--out", "a/b c", "--quiet"]) == 0
    left = sorted(path.name for path in own.parent.iterdir())
    assert left == [*(f"debiased_cka.{kind}" for kind in ("pdf", "png", "svg")), "svcca.png"]


def test_quiet_prints_the_result_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["similarity", "base.npy", "--quiet", "--out", "out"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "debiased_cka: debiased CKA" in said.out


def test_warnings_are_sentences_on_standard_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("few.npy", BASE[:, :12])
    assert main(["similarity", "few.npy", "-m", "svcca"]) == 0
    said = capsys.readouterr()
    assert said.err.count("warning: svcca compares up to 6 dimensions on 12 rows") == 1
    assert "warning" not in said.out
