"""What fine-tuning changed, where, on which texts, and in which neurons: the verbs, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from microtome.cli import main
from moving import moved, saved, sentences

Capture = pytest.CaptureFixture[str]
TWICE = "names of models must differ, but"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("change")


@pytest.fixture(scope="module")
def models(place: Path) -> list[str]:
    """A base, and two seeds of what moved its last block."""
    base = saved(place / "base")
    for seed in (1, 2):
        folder = place / f"tuned-{seed}"
        moved(base, 3, seed=seed, by=0.5).model.save_pretrained(folder)
        for file in base.glob("token*"):
            (folder / file.name).write_bytes(file.read_bytes())
    return [str(base), *(str(place / f"tuned-{seed}") for seed in (1, 2))]


@pytest.fixture(scope="module")
def text(place: Path) -> str:
    path = place / "lines.txt"
    path.write_text("\n".join(sentences(70, seed=1)) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def other(place: Path) -> str:
    path = place / "others.txt"
    path.write_text("\n".join(sentences(80, seed=2)) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def store(place: Path) -> list[str]:
    return ["--store", str(place / "store"), "--threads", "1"]


def told(capsys: Capture, words: list[str]) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def opened(out: Path, capsys: Capture) -> str:
    assert main(["report", str(out)]) == 0
    capsys.readouterr()
    return (out / "report.html").read_text()


def test_a_change_is_shown_between_two_references(
    models: list[str], text: str, store: list[str], tmp_path: Path, capsys: Capture
) -> None:
    words = ["change", *models, "--on", text, "--sample", "150", "--halves", "4", *store]
    assert main([*words, "--dry-run"]) == 0
    assert "4 models, 16 layers, 150 rows" in capsys.readouterr().out
    document = told(capsys, [*words, "--out", str(tmp_path)])
    assert document["format"] == "microtome/change/1"
    assert document["provenance"]["command"].startswith("microtome change")
    names = {one["name"] for one in document["curves"]}
    assert {"rsa: base to tuned", "rsa: between seeds", "debiased_cka: base to random baseline"} <= names
    assert {one["axis"] for one in document["curves"]} == {"layer"}
    assert {"scores.png", "differences.png"} <= {one.name for one in (tmp_path / "figures").iterdir()}
    references = (tmp_path / "references.bib").read_text()
    assert "{merchant2020" in references
    assert "{kriegeskorte2008" in references
    assert "{song2012" in references
    page = opened(tmp_path, capsys)
    assert "rsa: base to tuned" in page
    assert main([*words, "--random-baselines", "0", "--measures", "debiased_cka"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("3 models, 12 layers, 150 rows")
    assert "There is no lower reference: no random baseline was requested." in shown.err
    # Differences of similarities are small, and shown with the digits that they need.
    assert "+0.0000 [+0.0000, +0.0000]" in shown.out
    assert "Similarity on lines: " in shown.out


def test_documents_of_a_text_are_named_as_the_unit(
    models: list[str], place: Path, store: list[str], capsys: Capture
) -> None:
    path = place / "documents.txt"
    path.write_text("\n\n".join("\n".join(sentences(4, seed=seed)) for seed in range(12)) + "\n")
    words = [
        "change",
        *models,
        "--on",
        str(path),
        "--random-baselines",
        "0",
        "--measures",
        "debiased_cka",
        *store,
    ]
    assert main([*words, "--read", "blank_lines=documents"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "over documents and " in shown
    assert "over sentences" not in shown
    document = told(capsys, [*words, "--read", "blank_lines=documents"])
    assert {one["unit"] for one in document["curves"]} == {"document and model", "document"}
    assert "in 12 documents" in document["methods"]
    path.write_text("\n\n".join("\n".join(sentences(20, seed=seed)) for seed in range(2)) + "\n")
    assert main([*words, "--read", "blank_lines=documents"]) == 0
    assert "warning: Only 2 documents are read, so sentences are taken as independent" in " ".join(
        capsys.readouterr().err.split()
    )


def test_texts_of_two_kinds_are_paired_and_compared(
    models: list[str], text: str, other: str, store: list[str], tmp_path: Path, capsys: Capture
) -> None:
    words = ["domains", *models, "--inside", text, "--outside", other, "--halves", "4", *store]
    assert main([*words, "--dry-run"]) == 0
    assert "3 models, 61 pairs of inputs." in capsys.readouterr().out
    assert main([*words, "--measures", "debiased_cka", "--out", str(tmp_path), "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("3 models, 61 pairs of inputs.")
    document = json.loads(shown.out, parse_constant=pytest.fail)
    assert document["format"] == "microtome/domains/1"
    assert [one["name"] for one in document["curves"]] == [
        "debiased_cka: in domain",
        "debiased_cka: out of domain",
        "debiased_cka: difference, out of domain from in domain",
    ]
    assert "debiased_cka: out of domain from in domain" in opened(tmp_path, capsys)


def test_layers_are_scored_for_their_neurons(
    models: list[str], text: str, store: list[str], tmp_path: Path, capsys: Capture
) -> None:
    words = ["localize", *models[:2], "--on", text, "--sample", "150", "--halves", "3", "--rotations", "2"]
    assert main([*words, *store, "--dry-run"]) == 0
    assert "2 models, 8 layers, 150 rows" in capsys.readouterr().out
    assert main([*words, *store, "--direction", "out", "--out", str(tmp_path), "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("2 models, 8 layers, 150 rows")
    document = json.loads(shown.out, parse_constant=pytest.fail)
    assert document["format"] == "microtome/localization/1"
    assert document["more"]["direction"] == "out"
    assert {row["model"] for row in document["more"]["layers"]} == {"base", "tuned-1"}
    assert "base: beyond rotations" in opened(tmp_path, capsys)


def test_layers_are_scored_as_the_paper_did(
    models: list[str], text: str, store: list[str], tmp_path: Path, capsys: Capture
) -> None:
    words = ["localize", models[0], "--on", text, "--halves", "2", "--rotations", "2", "--published", "wu"]
    assert main([*words, *store, "--dry-run"]) == 0
    assert "one row per word: its last sub-word; no special tokens in the input" in capsys.readouterr().out
    assert main([*words, *store, "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["more"]["published"] == "wu"
    assert document["more"]["svcca"] == {
        "published, as described": "svcca",
        "published, as coded": "svcca:scaling=standardize:inclusive=False",
    }
    assert (tmp_path / "figures" / "scores_published_as_coded.png").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["change", "BASE", "--on", "TEXT"], "change must be given TUNED. Fine-tuned models, one per seed"),
        (["change", "BASE", "TUNED", "TUNED", "--on", "TEXT"], TWICE),
        (["change", "BASE", "TUNED", "--on", "TEXT", "--measures", "rsaa"], "Did you mean rsa?"),
        (["change", "BASE", "TUNED", "--on", "TEXT", "--level", "2"], "--level must be between 0 and 1"),
        (["change", "BASE", "TUNED", "--on", "TEXT", "--rows", "words"], "rows must be one of cls, mean"),
        (
            ["domains", "BASE", "TUNED", "--inside", "TEXT"],
            "domains must be given --outside. Other sentences: a file",
        ),
        (
            ["domains", "BASE", "TUNED", "--inside", "TEXT", "--outside", "TEXT", "--template", "triple"],
            "template must be",
        ),
        (
            ["domains", "BASE", "TUNED", "--inside", "TEXT", "--outside", "TEXT", "--read-outside", "x"],
            "--read-outside must be name=value, such as column.text=sentence, but",
        ),
        (["change", "BASE", "BASE", "--on", "TEXT"], TWICE),
        (["domains", "BASE", "BASE/", "--inside", "TEXT", "--outside", "TEXT"], TWICE),
        (["localize", "BASE", "BASE", "--on", "TEXT"], TWICE),
        (["localize", "BASE", "BASE/", "--on", "TEXT"], TWICE),
        (["localize", "BASE", "--on", "TEXT", "--direction", "up"], "direction must be one of in, out"),
        (
            ["localize", "BASE", "--on", "TEXT", "--published", "liu"],
            "published must be one of wu, but got 'liu'",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    words: list[str], said: str, models: list[str], text: str, store: list[str], capsys: Capture
) -> None:
    known = {"BASE": models[0], "BASE/": f"{models[0]}/", "TUNED": models[1], "TEXT": text}
    given = [known.get(word, word) for word in words]
    assert main([*given, *store]) == 2
    assert said in capsys.readouterr().err
