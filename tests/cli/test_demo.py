"""`microtome demo` runs on the encoders of the package, and prints what the report says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import transformers

from drawn_zoo import draw_zoo
from microtome.cli import main

pytestmark = pytest.mark.slow

NAMES = ("masked", "replaced")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_zoo(tmp_path_factory.mktemp("encoders"))


def test_the_demo_prints_findings_of_its_report(
    zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MICROTOME_ZOO", str(zoo))
    monkeypatch.chdir(tmp_path)
    words = ["demo", "--encoders", "masked,replaced"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert "[1/11, " in said.err
    assert "The first picture is demo/picture.svg" in said.err
    assert "Done in " in said.err
    page = tmp_path / "demo" / "report.html"
    assert page.is_file()
    assert str(Path("demo") / "report.html") in said.out.splitlines()[-1]

    # Results are where the verbs would have put them: `report` makes the same of them.
    assert main(["report", "demo", "--out", "again.html", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (tmp_path / "again.html").read_text() == page.read_text()
    known = {text for one in document["sections"] for text in one["sentences"]}
    printed = [line.removeprefix("- ") for line in said.out.splitlines() if line.startswith("- ")]
    assert len(printed) >= 3 * len(NAMES)
    assert set(printed) <= known
    assert f"with {len(document['findings'])} findings in all" in said.out
    for name in NAMES:
        assert any(line.startswith(f"{name} (") for line in said.out.splitlines())

    # Again, from the store, for programs.
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["format"] == "microtome/demo/1"
    assert [text for one in told["findings"] for text in one["sentences"]] == printed
    for one in told["exported"]:
        assert one["sentence"] in said.out
        net = transformers.AutoModelForSequenceClassification.from_pretrained(one["folder"])
        assert net.config.num_hidden_layers == one["kept"]
    assert told["exported"] or "No model was exported: no cut was shown to be safe." in said.out


def test_wrong_words_and_missing_encoders_are_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--seeds", "one"]) == 2
    assert "--seeds must be numbers with commas between them" in capsys.readouterr().err
    monkeypatch.setenv("MICROTOME_ZOO", str(draw_zoo(tmp_path / "some", ["replaced"])))
    assert main(["demo"]) == 2
    assert "must find the encoders masked in" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()
