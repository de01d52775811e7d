"""A pretraining with checkpoints is followed by one command, and its pictures and report are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from microtome.cli import main
from microtome.zoo.pretraining import pretrain
from microtome.zoo.text import read_text
from moving import sentences
from zoo.test_pretraining import small
from zoo.test_text import written

Capture = pytest.CaptureFixture[str]
COLUMNS = ["--column", "text=text", "--column", "label=label"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run")
    text = read_text(written(place), vocabulary=60)
    pretrain(small("masked", layers=6), text, place / "masked", checkpoints=[2, 4])
    return place / "masked"


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    path.write_text("\n".join(sentences(60, seed=1)) + "\n")
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task of the user's own."""
    path = tmp_path_factory.mktemp("task") / "mine.csv"
    rows = [f"{text},{number % 2}" for number, text in enumerate(sentences(50, seed=2))]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


def test_a_pretraining_is_followed(run: Path, lines: Path, tmp_path: Path, capsys: Capture) -> None:
    told = ["trajectory", str(run), "--on", str(lines), "--store", str(tmp_path / "store")]
    assert main([*told, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("3 checkpoints: 2, 4, 6; 3 models, 21 layers, ")
    assert main([*told, "--sample", "200", "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["format"], plan["steps"], plan["rows"]) == ("microtome/plan/1", [2, 4, 6], 200)
    assert plan["models"] == ["step 2", "step 4", "step 6"]
    assert not (tmp_path / "store").exists()
    assert main([*told, "--out", str(tmp_path / "out"), "--sample", "200", "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("3 checkpoints: 2, 4, 6; 3 models, 21 layers, 200 rows")
    document = json.loads(shown.out)
    assert document["format"] == "microtome/trajectory/1"
    assert document["more"]["steps"] == [2, 4, 6]
    assert len(document["more"]["maps"]) == 3
    drawn = {one.name for one in (tmp_path / "out" / "figures").iterdir()}
    assert {"maps.png", "course.png"} <= drawn
    assert main(["report", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Maps along a training" in page
    for step in (2, 4, 6):
        assert f'"name":"step {step}"' in page


def test_the_plan_names_the_task(
    run: Path, lines: Path, table: Path, tmp_path: Path, capsys: Capture
) -> None:
    told = ["trajectory", str(run), "--on", str(lines), "--task", str(table), *COLUMNS, "--train-size", "10"]
    assert main([*told, "--store", str(tmp_path / "store"), "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "; scored on " in said
    assert said.endswith(" examples of mine/validation")


def test_a_folder_without_checkpoints_is_refused(lines: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["trajectory", str(tmp_path), "--on", str(lines)]) == 2
    assert "must hold checkpoints whose names end in a step" in capsys.readouterr().err


@pytest.mark.parametrize("dry", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--on", "/nope.txt"], "/nope.txt"),
        (["--task", "nonsense"], "nonsense"),
        (["--rows", "foo"], "rows must be one of cls, mean"),
        (
            ["--task", "TASK", *COLUMNS, "--train-size", "60"],
            "--train-size must be a whole number between 1 and",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_the_work(
    words: list[str],
    said: str,
    dry: list[str],
    run: Path,
    lines: Path,
    table: Path,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    given = [str(table) if word == "TASK" else word for word in words]
    given += [] if "--on" in words else ["--on", str(lines)]
    store = tmp_path / "store"
    assert main(["trajectory", str(run), *given, *dry, "--store", str(store)]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not store.exists()
