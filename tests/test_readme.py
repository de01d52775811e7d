"""The README's code and commands do what it says."""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tiny
from experiments.probing.test_probing import write_corpus

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def commands() -> list[str]:
    lines = [line.split("  #")[0].strip() for block in blocks("console") for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with everything that the examples name; a reader stays in one folder too."""
    tmp_path = tmp_path_factory.mktemp("readme")
    rng = np.random.default_rng(0)
    before = rng.normal(size=(3, 400, 8))
    np.save(tmp_path / "before.npy", before)
    np.save(tmp_path / "after.npy", before + rng.normal(size=before.shape))
    for name, seed in (("base", 0), ("tuned", 1)):
        tiny.save_checkpoint(tmp_path / name, "bert", seed=seed)
    labels = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
    tiny.save_checkpoint(tmp_path / "classifier", "bert", head="SequenceClassification", **labels)
    with (tmp_path / "mine.csv").open("w", encoding="utf-8", newline="") as file:
        rows = [
            (f"{text} {place}", "good" if place % 3 else "bad") for place, text in enumerate(tiny.TEXT * 25)
        ]
        csv.writer(file).writerows([("review", "stars"), *rows])
    write_corpus(tmp_path / "treebank.conllu")
    (tmp_path / "sentences.txt").write_text("\n".join(tiny.TEXT * 10), encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def environment(place):
    return {**os.environ, "MICROTOME_STORE": str(place / "store"), "HF_HUB_OFFLINE": "1"}


def test_models_are_compared_as_printed(place, environment):
    code = f"import microtome as mt\n{blocks('python')[1]}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=place, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"debiased_cka -?0\.\d+ \[.*over sentences\)", done.stdout)
    assert "differs most between base and tuned" in done.stdout


def test_a_model_is_tuned_as_printed(place, environment):
    code = f"import microtome as mt\nbase = mt.load('base')\n{blocks('python')[2]}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=place, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"accuracy 0\.\d+ \[.*over examples\)", done.stdout)


def test_layers_are_cut_as_printed(place, environment):
    code = f"import microtome as mt\nbase = mt.load('base')\n{blocks('python')[2]}{blocks('python')[3]}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=place, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2 of 3 blocks" in done.stdout or "blocks 1 to 2" in done.stdout or "kept" in done.stdout
    # So few updates may not beat the majority baseline, which is said instead.
    assert "Of single blocks, skipping block" in done.stdout or "Nothing is concluded" in done.stdout


def test_the_python_example_runs_as_printed(tmp_path):
    code = blocks("python")[0]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"debiased_cka 0\.\d+ \[0\.\d+, 0\.\d+\] \(95 %, over clusters\), n = 600", done.stdout)
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith("import")]
    assert len(lines) <= 10


def test_the_make_targets_exist():
    wanted = {line.split()[1] for line in commands() if line.startswith("make ")}
    assert wanted == {"demo", "test"}
    for target in wanted:
        shown = subprocess.run(["make", "-n", target], capture_output=True, text=True, cwd=ROOT, check=False)
        assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith("microtome ")])
def test_the_shell_commands_run_as_printed(command, place, environment):
    needed = {"runs/": "--out runs", "report .": "--out result", "report study": "--out study/maps"}
    for before in [
        next(line for line in commands() if line.endswith(end))
        for part, end in needed.items()
        if part in command
    ]:  # what an earlier line of the README has written
        words = shlex.split(before)
        if not (place / words[-1]).exists():
            subprocess.run([sys.executable, "-m", *words], cwd=place, env=environment, check=True)
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        capture_output=True,
        text=True,
        cwd=place,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if "report" in command:
        page = place / shlex.split(command)[-1] / "report.html"
        assert "debiased" in page.read_text(encoding="utf-8")
    if "--out result" in command:
        assert {p.name for p in (place / "result").iterdir()} >= {
            "result.json",
            "table.parquet",
            "methods.md",
            "references.bib",
            "figures",
        }
        assert {p.suffix for p in (place / "result" / "figures").iterdir()} == {".png", ".svg", ".pdf"}


def test_every_name_in_the_table_of_measures_exists():
    from microtome.measures.table import MEASURES

    rows = re.findall(r"^\| [^|]+ \| ((?:`\w+`(?:, )?)+) \|$", TEXT, flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == set(MEASURES)


def test_linked_files_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / target).exists(), target
