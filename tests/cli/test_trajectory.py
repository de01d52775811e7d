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


def test_a_pretraining_is_followed(
    run: Path, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["trajectory", str(run), "--on", str(lines), "--store", str(tmp_path / "store")]
    assert main([*told, "--dry-run"]) == 0
    assert capsys.readouterr().out.strip() == "3 checkpoints: 2, 4, 6"
    assert main([*told, "--out", str(tmp_path / "out"), "--sample", "200", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
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


def test_a_folder_without_checkpoints_is_refused(
    lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trajectory", str(tmp_path), "--on", str(lines)]) == 2
    assert "must hold checkpoints whose names end in a step" in capsys.readouterr().err
