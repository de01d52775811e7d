"""Tuning methods are compared by one command, which says beforehand what it would train."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tiny
from microtome.cli import main
from microtome.findings.results import open_result

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A tiny model and a task of one's own."""
    place = tmp_path_factory.mktemp("methods")
    model = tiny.save_checkpoint(place / "bert", "bert")
    data = place / "mine"
    data.mkdir()
    for name, size in (("train", 32), ("validation", 40)):
        said = [("the cat sleeps well", "up") if i % 2 else ("a dog never runs", "down") for i in range(size)]
        rows = "".join(f"{words} number {i},{mood}\n" for i, (words, mood) in enumerate(said))
        (data / f"{name}.csv").write_text(f"words,mood\n{rows}")
    task = ["--task", str(data), "--column", "text=words", "--column", "label=mood"]
    quick = ["--set", "steps=6", "--set", "batch=8", "--set", "longest=16", "--threads", "1"]
    return [str(model), *task, *quick, "--store", str(place / "store")]


def test_methods_are_tuned_and_compared(asked: list[str], tmp_path: Path, capsys: Capture) -> None:
    words = [
        "tuning-methods",
        *asked,
        "--methods",
        "full,head",
        "--rates",
        "full=1e-3,2e-3",
        "--rates",
        "head=1e-2",
    ]
    words += ["--seeds", "1,2", "--sample", "100", "--head", "stock"]
    assert main([*words, "--dry-run", "--json"]) == 0
    # Two rates and one with the first seed, and one rate of each method with the second.
    assert json.loads(capsys.readouterr().out) == {
        "format": "microtome/plan/1",
        "task": "mine",
        "rows": 100,
        "runs": 5,
        "updates": 30,
        "arms": ["full", "head"],
    }
    assert main([*words, "--match", "best", "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["format"] == "microtome/tuning_ways/1"
    assert [one["name"] for one in document["curves"]] == ["debiased_cka: full", "debiased_cka: head"]
    assert document["more"]["match"] == "best"
    assert len(document["more"]["ways"]["full"]["tried"]) == 2
    assert len(open_result(tmp_path).rows) == 5
    assert "(all weights, the head only)" in document["methods"]
    assert (tmp_path / "figures" / "scores.png").is_file()
    assert main(["report", str(tmp_path)]) == 0
    assert "debiased_cka: head" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--methods", "full,adapters"], "a name of --methods must be one of bitfit, full, head, lora"),
        (["--match", "good"], "match must be 'weakest', 'best' or a score in points"),
        (["--rates", "lora"], "--rates must be name=value, such as lora=1e-4,3e-4"),
        (["--rates", "lor=1e-3"], "Did you mean lora?"),
        (["--rates", "lora=0"], "rates of lora must be numbers above 0, but got 0"),
        (["--read", "a=b"], "read must be given with on"),
        (["--measures", "ckaa"], "measure must be"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], said: str, asked: list[str], capsys: Capture) -> None:
    assert main(["tuning-methods", *asked, *words, "--dry-run"]) == 2
    assert said in capsys.readouterr().err
