"""Does a user get curves, costs, pictures and plain errors from the verbs that take models apart?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tiny
from microtome.cli import main
from microtome.findings.claims.claim import read_claim
from microtome.findings.claims.render import evidence, headline
from microtome.findings.results import open_result

# A few updates at a high rate are enough to tell the two sentences apart.
QUICK = [
    *("--set", "steps=25", "--set", "batch=8", "--set", "longest=16", "--set", "rate=2e-3"),
    *("--set", "warmup=0", "--recipe", "wu2020", "--threads", "1"),
]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("surgery")


@pytest.fixture(scope="module")
def model(place: Path) -> str:
    return str(tiny.save_checkpoint(place / "bert", "bert"))


@pytest.fixture(scope="module")
def task(place: Path) -> list[str]:
    folder = place / "mine"
    folder.mkdir()
    for name, size in (("train", 48), ("validation", 24)):
        said = [("the cat sleeps well", "up") if i % 2 else ("a dog never runs", "down") for i in range(size)]
        rows = "".join(f"{words} number {i},{mood}\n" for i, (words, mood) in enumerate(said))
        (folder / f"{name}.csv").write_text(f"words,mood\n{rows}")
    return ["--task", str(folder), "--column", "text=words", "--column", "label=mood"]


@pytest.fixture(scope="module")
def store(place: Path) -> list[str]:
    return ["--store", str(place / "shelf")]


@pytest.fixture(scope="module")
def tuned(model: str, task: list[str], store: list[str], place: Path) -> list[str]:
    out = place / "tuned"
    words = ["finetune", model, *task, *QUICK, *store, "--seeds", "1,2", "--out", str(out), "--quiet"]
    assert main(words) == 0
    return [str(out / "seed-1"), str(out / "seed-2")]


def told(capsys: Capture, words: list[str]) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_every_layer_of_tuned_models_is_read(
    tuned: list[str], model: str, task: list[str], store: list[str], tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out"
    words = ["truncate", *tuned, *task, *store, "--base", model, "--head-seeds", "0", "--threads", "1"]
    words += ["--set", "steps=10", "--out", str(out)]
    found = told(capsys, words)
    assert found["format"] == "microtome/truncation/1"
    names = [curve["name"] for curve in found["curves"]]
    assert {"UNTUNED", "TUNED", "TUNEDORIG", "TUNED converged"} <= set(names)
    assert [curve["x"] for curve in found["curves"]] == [[1, 2, 3]] * len(names)
    assert json.loads((out / "result.json").read_text()) == found
    assert open_result(out)["UNTUNED"].seeds == (2, 2, 2)
    kinds = {path.name for path in (out / "figures").iterdir()}
    assert kinds == {f"{what}.{kind}" for what in ("scores", "differences") for kind in ("pdf", "png", "svg")}
    assert pq.read_table(out / "table.parquet").num_rows > 0
    # The whole model with its own head is what evaluate says of it.
    whole = [told(capsys, ["evaluate", one, *task])["score"]["value"] for one in tuned]
    assert found["curves"][names.index("UNTUNED")]["values"][-1] == pytest.approx(sum(whole) / 2)

    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out.startswith("layers kept  UNTUNED")
    assert "majority baseline: 0.5000." in said.out
    claims = [read_claim(entry) for entry in found["claims"]]
    assert claims
    for claim in claims:
        assert headline(claim) in said.out
        assert not evidence(claim) or evidence(claim) not in said.out
    assert main([*words, "--verbose"]) == 0
    printed = capsys.readouterr().out
    for sentence in found["findings"]:
        assert sentence in printed
    assert "Written to" in said.err


def test_a_model_that_is_not_tuned_is_tuned_first(
    model: str, tuned: list[str], task: list[str], store: list[str], capsys: Capture
) -> None:
    before = told(capsys, ["skip", *tuned, *task, *store, "--threads", "1"])
    after = told(capsys, ["skip", model, *task, *QUICK, *store, "--seeds", "1,2"])
    # The same runs are in the store, and so are the answers of their spans.
    assert before["spans"] == after["spans"]
    assert before["format"] == "microtome/skipping/1"
    assert main(["truncate", model, *task, *store]) == 2
    assert "but it is a BertModel; fine-tune it first, with finetune (truncate and skip do so" in (
        capsys.readouterr().err
    )


def test_every_span_has_its_cost(
    tuned: list[str], task: list[str], store: list[str], tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out"
    words = ["skip", *tuned, *task, *store, "--threads", "1", "--out", str(out)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("first, last  1 ")
    assert "Cost in points of skipping blocks first to last" in said
    assert len(open_result(out).spans) == 3
    drawn = {path.name for path in (out / "figures").glob("*.png")}
    assert drawn == {"spans.png", "spans_seed_1.png", "spans_seed_2.png"}


def test_freezing_shows_scores_differences_and_savings(
    model: str, task: list[str], store: list[str], tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out"
    words = ["freeze", model, *task, *QUICK, *store, "--seeds", "1", "--ks", "0,2", "--out", str(out)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "blocks frozen  bottom" in said
    assert "Differences in points" in said
    assert "relative to an update with nothing frozen" in said
    assert {path.stem for path in (out / "figures").iterdir()} == {"scores", "differences", "savings"}
    again = told(capsys, words)
    assert [curve["x"] for curve in again["curves"]] == [[0, 2]] * 4
    assert again["provenance"]["command"].startswith("microtome freeze")


def test_re_initializing_permuting_and_dropping(
    model: str, task: list[str], store: list[str], capsys: Capture
) -> None:
    shared = [*task, *QUICK, *store, "--seeds", "1"]
    fresh = told(capsys, ["reinit", model, *shared, "--plans", "single", "--sizes", "16,all"])
    assert {curve["name"] for curve in fresh["curves"]} >= {
        "single, library",
        "single, library, 16 examples",
    }
    moved = told(capsys, ["permute", model, *shared, "--order-seeds", "1-2", "--order", "3,2,1"])
    assert moved["curves"][0]["x"] == [1, 2]
    assert {"full", "scratch"} <= set(moved["lines"])
    words = ["drop", model, *shared, "--count", "1", "--strategies", "top,similarity,random"]
    dropped = told(capsys, [*words, "--random-draws", "2"])
    assert [curve["name"] for curve in dropped["curves"]][::2] == ["top", "similarity", "random"]


def test_several_tasks_are_trained_on_the_same_orders(
    model: str, store: list[str], task: list[str], capsys: Capture
) -> None:
    words = ["permute", model, *task, "--task", "polarity", *QUICK, *store, "--order-seeds", "1"]
    # A table's columns cannot be those of another task.
    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1
    one = ["permute", model, "--task", "polarity", *QUICK, "--dry-run"]
    assert told(capsys, [*one, "--task", "agreement"])["runs"] == 2 * told(capsys, one)["runs"]


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        (["freeze", "--ks", "1,3", "--parts", "bottom", "--seeds", "1,2"], 6),
        (["freeze", "--seeds", "1"], 7),
        (["reinit", "--seeds", "1-3", "--no-truncation-control"], 12),
        # Three blocks have six orders, and the first one is their own.
        (["permute", "--order-seeds", "1-40"], 7),
        # Without the last block by two strategies, and two that stand for what layers will say.
        (["drop", "--count", "1", "--seeds", "1", "--random-draws", "3"], 6),
    ],
)
def test_a_dry_run_counts_and_trains_nothing(
    words: list[str], runs: int, model: str, task: list[str], tmp_path: Path, capsys: Capture
) -> None:
    verb, *options = words
    asked = [verb, model, *task, *QUICK, *options, "--store", str(tmp_path / "none"), "--dry-run"]
    plan = told(capsys, asked)
    assert plan["runs"] == runs
    assert plan["updates"] == 25 * plan["runs"]
    assert not (tmp_path / "none").exists()
    assert main(asked) == 0
    assert f"{plan['runs']} runs" in capsys.readouterr().out


def test_a_dry_run_of_cuts_counts_spans(model: str, task: list[str], tmp_path: Path, capsys: Capture) -> None:
    words = ["skip", model, *task, *QUICK, "--seeds", "1-3", "--store", str(tmp_path / "none"), "--dry-run"]
    plan = told(capsys, words)
    assert (plan["spans"], plan["models"], plan["updates"]) == (6, 3, 75)
    assert main(["truncate", *words[1:]]) == 0
    assert "heads at 3 layers: untuned, tuned, tunedorig, converged" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("verb", "words", "sentence"),
    [
        ("truncate", ["--arms", "tuned,best"], "a name of --arms must be one of"),
        (
            "truncate",
            ["--head-seeds", "a"],
            "--head-seeds must be numbers with commas between them, or as 1-10",
        ),
        ("truncate", ["--level", "95"], "--level must be between 0 and 1"),
        ("truncate", ["--head", "jiant"], "--head must be given with seeds"),
        ("skip", ["--set", "steps=3"], "--set must be given with seeds"),
        ("skip", ["--train-size", "3"], "--train-size must be given with seeds"),
        ("skip", ["other", "--seeds", "1"], "the number of models must be 1 with seeds"),
        ("skip", ["--seeds", "1", "--recipe", "sgd"], "recipe must be one of"),
        ("freeze", ["--ks", "9"], "ks must be numbers of blocks between 0 and 3"),
        ("freeze", ["--parts", "middle"], "a name of --parts must be one of bottom, top"),
        ("freeze", ["--seeds", "1,1"], "--seeds must be one number or more, each once"),
        ("reinit", ["--plans", "all"], "a name of --plans must be one of"),
        ("reinit", ["--schemes", "zeros"], "a name of --schemes must be one of"),
        ("reinit", ["--sizes", "few"], "--sizes must be numbers above 0 or all"),
        ("reinit", ["--sizes", "8", "--train-size", "8"], "--train-size must be left out where sizes"),
        ("permute", ["--order", "1,2"], "--order must be all of the 3 blocks"),
        ("permute", ["--kinds", "sort"], "a name of --kinds must be one of"),
        ("drop", ["--count", "3"], "count must be numbers of blocks between 1 and 2"),
        ("drop", ["--strategies", "best"], "a name of --strategies must be one of"),
        ("drop", ["--measure", "nothing"], "measure must be one of"),
        ("drop", ["--device", "tpu"], "device must be"),
    ],
)
def test_wrong_requests_are_one_sentence(
    verb: str, words: list[str], sentence: str, model: str, task: list[str], capsys: Capture
) -> None:
    assert main([verb, model, *task, *words]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize("verb", ["truncate", "skip"])
def test_a_model_is_fine_tuned_first_as_in_the_paper(
    verb: str, model: str, task: list[str], capsys: Capture
) -> None:
    words = [verb, model, *task, "--seeds", "1", "--dry-run"]
    plan = told(capsys, words)
    assert (plan["recipe"], plan["updates"]) == ("phang2021", 10_000)
    assert main(words) == 0
    assert "by the recipe phang2021 with the jiant head" in capsys.readouterr().out
