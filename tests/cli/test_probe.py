"""`microtome probe --target task:NAME` reads the answers of a task, and refuses what is not its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import microtome as mt
import tiny
from microtome.cli import main


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_checkpoint(tmp_path_factory.mktemp("models") / "tiny", "bert"))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a task of one's own: whether a text speaks of cats."""
    folder = tmp_path_factory.mktemp("data")
    lines = [
        "text,label",
        *(f"the {'cat' if n % 2 else 'tea'} {'sleeps ' * (n % 5)}.,{n % 2}" for n in range(80)),
    ]
    for name in ("train", "validation"):
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return str(folder)


def test_the_plan_says_what_would_be_done(model: str, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["probe", model, "--target", f"task:{table}", "--column", "text=text", "--column", "label=label"]
    assert main([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "80 examples" in said
    assert "published heads (100 updates of 8, 3 seeds) and logistic-regression heads" in said.replace(
        "\n", " "
    )
    assert "and a random baseline" in said.replace("\n", " ")
    assert main([*words, "--dry-run", "--json", "--solvers", "converged", "--train-size", "16"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["examples"]["train"] == 16
    assert plan["solvers"] == ["converged"]


def test_the_result_is_taken_by_a_report(
    model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["probe", model, "--target", f"task:{table}", "--column", "text=text", "--column", "label=label"]
    out = [
        "--epochs",
        "1",
        "--seeds",
        "0,1",
        "--store",
        str(tmp_path / "store"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*words, *out, "--json"]) == 0
    heard = capsys.readouterr()
    document = json.loads(heard.out)
    assert "published heads (10 updates of 8, 2 seeds) and logistic-regression heads" in heard.err
    assert document["format"] == "microtome/probing/1"
    assert document["provenance"]["command"].startswith("microtome probe")
    assert {one["name"] for one in document["curves"]} >= {"tiny (published)", "random baseline (converged)"}
    assert list((tmp_path / "out" / "figures").iterdir())
    assert main(["report", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "What can be read out of each layer" in page
    assert "tiny (published)" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--target", "upos"],
            "on must name a file with the annotation upos, but it is absent",
        ),
        (
            ["--target", "task:rte", "--control-task"],
            "--control-task must be left out for a task, but the target is task:rte",
        ),
        (
            ["--target", "task:rte", "--on", "x.conllu"],
            "--on must be left out for a task, but the target is task:rte",
        ),
        (
            ["--target", "task:rte", "--steps", "3"],
            "--steps must be left out for a task, but the target is task:rte",
        ),
        (
            ["--target", "task:rte", "--layers", "mix"],
            "--layers must be left out for a task, but the target is task:rte",
        ),
        (["--on", "x", "--layers", "top"], "a name of --layers must be one of mix, single, upto"),
        (["--on", "x", "--mdl", "--probe", "edge"], "mdl must be given one seed, and none of probe"),
        (
            ["--on", "x", "--solvers", "published"],
            "--solvers must be left out for annotated text, but the target is upos; it is for a task",
        ),
        (
            ["--on", "x", "--data", "x"],
            "--data must be left out for annotated text, but the target is upos; it is for a task",
        ),
        (["--target", "task:polarity", "--solvers", "exact"], "a name of --solvers must be one of"),
        (["--target", "task:ret"], "Did you mean rte?"),
        (["--target", "task:polarity", "--epochs", "0"], "epochs must be a"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    words: list[str], said: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", model, *words]) == 2
    assert said in capsys.readouterr().err.replace("\n", " ")


def test_layers_are_mixed_by_an_edge_probe(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "names.conll"
    words = ("cat B-PER", "dog B-LOC")
    names.write_text("\n".join(line for k in range(40) for line in ("the O", words[k % 2], "")))
    asked = ["probe", model, "--on", str(names), "--target", "entities", "--layers", "single,upto"]
    assert main([*asked, "--dry-run"]) == 0
    assert "entities: edge probes trained on 29 sentences" in capsys.readouterr().out
    assert main([*asked, "--dry-run", "--json", "--random-baselines", "0"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["models"] == ["tiny"]
    # All 40 sentences of two words, and rows of all layers with the embeddings, four bytes a number.
    encoder = mt.load(model)
    assert plan["words"] == 80
    assert plan["bytes"] == 4 * 80 * sum(encoder.widths)
    assert main(["probe", str(tmp_path / "absent"), *asked[2:], "--dry-run"]) == 2
    assert "absent" in capsys.readouterr().err
    assert main(["probe", model, "--on", "/nope", "--target", "upos"]) == 2
    assert "the corpus of upos must be a file or a folder that exists" in capsys.readouterr().err
    out = [
        "--steps",
        "20",
        "--random-baselines",
        "0",
        "--store",
        str(tmp_path / "store"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*asked, *out, "--json"]) == 0
    heard = capsys.readouterr()
    assert heard.err.startswith("entities: edge probes trained on 29 sentences")
    document = json.loads(heard.out, parse_constant=pytest.fail)
    assert document["more"]["layers"] == ["single", "upto"]
    assert {one["name"] for one in document["curves"]} >= {"tiny", "tiny (layers 0 to l)"}
    assert {one["unit"] for one in document["curves"]} == {"sentence"}
    assert main(["report", str(tmp_path / "out")]) == 0
    assert "tiny (layers 0 to l)" in (tmp_path / "out" / "report.html").read_text()


def test_tasks_are_mentioned_among_the_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "targets"]) == 0
    assert "--target task:rte" in capsys.readouterr().out.replace("\n", " ")
