"""`microtome report` writes one page, says where, and what was found; or why it cannot."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest

from microtome.cli import main
from report import samples

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    samples.truncation().save(tmp_path / "out" / "cuts")
    samples.skipping().save(tmp_path / "out" / "spans")
    return tmp_path / "out"


def test_the_page_lies_in_the_folder(folder: Path, capsys: Capture) -> None:
    assert main(["report", str(folder)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"Written to {folder / 'report.html'}"
    assert said[1].startswith(
        "bert on rte: The top 1 of 4 layers can be removed at a cost of at most 0.8 points of accuracy"
    )
    page = (folder / "report.html").read_text()
    assert "can be removed at a cost of at most 0.8 points" in page
    # The page is no result: a second report is the same.
    assert main(["report", str(folder)]) == 0
    assert (folder / "report.html").read_text() == page


def test_another_place_and_json(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "microtome/report/1"
    assert len(document["made"]) == len("2026-01-31")
    assert (tmp_path / "page.html").is_file()
    assert not (folder / "report.html").exists()


def test_the_browser_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(opened.append(address)))
    assert main(["report", str(folder), "--open"]) == 0
    assert opened == [(folder / "report.html").resolve().as_uri()]
    assert "no browser could be opened" in capsys.readouterr().err


def test_more_findings_than_are_printed_are_counted(tmp_path: Path, capsys: Capture) -> None:
    for k in range(10):
        samples.truncation(model=f"bert{k}").save(tmp_path / str(k))
    assert main(["report", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "More on the page: 2 findings."


def test_a_file_that_is_left_out_is_named(folder: Path, capsys: Capture) -> None:
    (folder / "broken").mkdir()
    (folder / "broken" / "result.json").write_text("{")
    assert main(["report", str(folder)]) == 0
    assert "warning: broken/result.json was left out. It is not readable as JSON" in capsys.readouterr().err


def test_a_folder_without_results_is_a_wrong_request(tmp_path: Path, capsys: Capture) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "must hold at least one result.json that can be read" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert not list(tmp_path.iterdir())
