"""Does each of several tasks get its own result, and does none get lost?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tiny
from microtome.cli import main

Capture = pytest.CaptureFixture[str]
SHORT = [
    *("--recipe", "wu2020", "--set", "steps=1", "--set", "batch=8", "--set", "longest=16"),
    *("--threads", "1", "--seeds", "1", "--column", "text=words", "--column", "label=mood", "--quiet"),
]
NAMES = ("first", "second")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tasks")


@pytest.fixture(scope="module")
def model(place: Path) -> str:
    return str(tiny.save_checkpoint(place / "bert", "bert", num_hidden_layers=2))


@pytest.fixture(scope="module")
def tables(place: Path) -> list[str]:
    """Two tasks, as a user names them."""
    for name in NAMES:
        folder = place / name
        folder.mkdir()
        for split in ("train", "validation"):
            rows = "".join(f"the {name} cat {i} sleeps,{'up' if i % 2 else 'down'}\n" for i in range(12))
            (folder / f"{split}.csv").write_text(f"words,mood\n{rows}")
    return [word for name in NAMES for word in ("--task", str(place / name))]


@pytest.fixture(scope="module")
def store(place: Path) -> list[str]:
    return ["--store", str(place / "shelf")]


def told(capsys: Capture, words: list[str]) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("verb", "more", "kind"),
    [
        ("truncate", ["--arms", "untuned"], "truncation"),
        ("freeze", ["--ks", "2", "--parts", "top", "--no-measure-time"], "freezing"),
    ],
)
def test_each_task_has_its_own_result(
    verb: str,
    more: list[str],
    kind: str,
    model: str,
    tables: list[str],
    store: list[str],
    tmp_path: Path,
    capsys: Capture,
) -> None:
    out = tmp_path / "out"
    found = told(capsys, [verb, model, *tables, *SHORT, *more, *store, "--out", str(out)])
    assert found["format"] == "microtome/results/1"
    assert [one["task"] for one in found["results"]] == list(NAMES)
    assert {one["format"] for one in found["results"]} == {f"microtome/{kind}/1"}
    assert [json.loads((out / name / "result.json").read_text()) for name in NAMES] == found["results"]
    assert not (out / "result.json").exists()
    report = told(capsys, ["report", str(out), "--quiet"])
    assert {one["file"] for one in report["provenance"]} >= {f"{name}/result.json" for name in NAMES}
    # The result of one task alone is the same, in the form that it always had.
    alone = told(capsys, [verb, model, *tables[2:], *SHORT, *more, *store])
    assert alone["format"] == f"microtome/{kind}/1"
    assert alone["curves"] == found["results"][1]["curves"]


@pytest.mark.parametrize("verb", ["truncate", "skip", "freeze", "reinit", "drop"])
def test_a_dry_run_plans_each_task(verb: str, model: str, tables: list[str], capsys: Capture) -> None:
    words = [verb, model, *tables, *SHORT, *(["--count", "1"] if verb == "drop" else []), "--dry-run"]
    found = told(capsys, words)
    assert found["format"] == "microtome/plans/1"
    assert [plan["task"] for plan in found["plans"]] == list(NAMES)
    assert {plan["format"] for plan in found["plans"]} == {"microtome/plan/1"}


def test_plans_of_several_tasks_are_said_one_a_line(model: str, tables: list[str], capsys: Capture) -> None:
    assert main(["freeze", model, *tables, *SHORT, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [name in line for name, line in zip(NAMES, lines, strict=True)] == [True, True]


def test_one_task_cannot_have_two_folders(model: str, tables: list[str], capsys: Capture) -> None:
    assert main(["freeze", model, *tables[:2], *tables[:2], *SHORT, "--dry-run"]) == 2
    assert "each --task must be named once" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["evaluate", "prune"])
def test_verbs_of_one_task_refuse_another(verb: str, capsys: Capture) -> None:
    assert main([verb, "bert", "--task", "rte", "--task", "mrpc"]) == 2
    assert "--task must be given once, but it was given 2 times" in capsys.readouterr().err


def test_each_model_and_task_has_its_own_result(
    model: str, tables: list[str], store: list[str], tmp_path: Path, capsys: Capture
) -> None:
    other = tmp_path / "other"
    shutil.copytree(model, other)
    out = tmp_path / "out"
    words = ["finetune", model, str(other), *tables, *SHORT, *store, "--out", str(out)]
    results = told(capsys, words)["results"]
    assert len(results) == 4
    folders = {path.parent.relative_to(out) for path in out.rglob("result.json")}
    assert folders == {Path(m, task) for m in (Path(model).name, "other") for task in NAMES}
    assert main(["finetune", model, model, *tables, *SHORT, "--dry-run"]) == 2
    assert "each model" in capsys.readouterr().err
