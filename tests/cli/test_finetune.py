"""`finetune` and `evaluate` give a tuned model, its scores and plain errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import transformers

import microtome as mt
import tiny
from microtome.cli import main
from microtome.cli.app import command

QUICK = [
    "--set",
    "steps=4",
    "--set",
    "batch=8",
    "--set",
    "longest=32",
    "--recipe",
    "wu2020",
    "--threads",
    "1",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_checkpoint(tmp_path_factory.mktemp("cli") / "bert", "bert"))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("mine")
    for name, size in (("train", 40), ("validation", 20)):
        rows = "".join(f"the cat number {i} sleeps,{'up' if i % 3 else 'down'}\n" for i in range(size))
        (folder / f"{name}.csv").write_text(f"words,mood\n{rows}")
    return str(folder)


def own(table: str) -> list[str]:
    return ["--task", table, "--column", "text=words", "--column", "label=mood"]


def test_seeds_give_checkpoints_scores_and_a_mean(
    model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, store = tmp_path / "out", str(tmp_path / "shelf")
    alone = ["finetune", model, *own(table), *QUICK, "--store", store, "--out", str(out)]
    words = [*alone, "--seeds", "1,2"]
    assert main([*words, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["format"] == "microtome/finetune/1"
    assert [run["seed"] for run in told["runs"]] == [1, 2]
    assert told["runs"][0]["evaluation"]["n"] == 20
    assert told["mean"]["n"] == 20
    assert json.loads((out / "result.json").read_text()) == told
    assert set(pq.read_table(out / "table.parquet").column("seed").to_pylist()) == {1, 2}
    for seed in (1, 2):
        transformers.AutoModelForSequenceClassification.from_pretrained(out / f"seed-{seed}")
    made = told["provenance"]
    assert {"microtome", "torch", "transformers", "model", "task_source", "threads"} <= set(made)
    assert made["task"] == mt.task(table, text="words", label="mood").digest("validation")
    assert made["seeds"] == [1, 2]
    assert [one["examples"] for one in made["train"]] == [40, 40]
    assert made["recipe"]["steps"] == 4
    assert made["device"] == "cpu"
    assert made["seconds"] > 0
    assert made["command"].startswith("microtome finetune")
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "Majority baseline: accuracy " in said
    sound = sum(run["failure"] is None for run in told["runs"])
    sentence = {0: "2 of 2 runs failed (", 1: "Accuracy on validation is", 2: "Mean accuracy of 2 seeds"}[
        sound
    ]
    assert sentence in said
    assert "nan" not in said
    assert main([*alone, "--seeds", "1"]) == 0
    assert main([*alone, "--seeds", "1", "--verbose"]) == 0
    shown = capsys.readouterr().out
    assert told["runs"][0]["failure"] or "Other seeds are not covered." in shown

    assert main(["evaluate", str(out / "seed-1"), *own(table), "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert scored["format"] == "microtome/evaluate/1"
    asked = ["evaluate", str(out / "seed-1"), *own(table), "--dry-run", "--out", str(tmp_path / "none")]
    assert main([*asked, "--against", str(out / "seed-2"), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["format"] == "microtome/plan/1"
    assert (plan["split"], plan["examples"], len(plan["parameters"])) == ("validation", 20, 2)
    assert main(asked) == 0
    assert "weights): 20 examples of" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()
    judged = scored["provenance"]
    assert judged["task"] == made["task"]
    assert judged["torch"] == made["torch"]
    assert [len(digest) for digest in judged["models"]] == [32]
    assert {"device", "threads", "longest", "seconds", "command", "task_source"} <= set(judged)
    assert scored["score"]["value"] == told["runs"][0]["evaluation"]["score"]["value"]

    both = ["evaluate", str(out / "seed-1"), *own(table), "--against", str(out / "seed-2")]
    assert main(both) == 0
    assert "on the same 20 examples" in capsys.readouterr().out


def test_a_dry_run_trains_nothing(
    model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["finetune", model, *own(table), *QUICK, "--store", str(tmp_path / "shelf"), "--dry-run"]
    assert main(words) == 0
    assert "40 examples" in capsys.readouterr().out
    assert not (tmp_path / "shelf").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--task", "rtee"], "task must be one of"),
        (["--task", "polarity", "--recipe", "sgd"], "recipe must be one of"),
        (["--task", "polarity", "--set", "rate"], "--set must be name=value"),
        (["--task", "polarity", "--set", "rate=fast"], "rate must be a number above 0, but got 'fast'."),
        (["--task", "polarity", "--seeds", "one"], "--seeds must be numbers with commas between them"),
        (["--task", "polarity", "--checkpoints", "now"], "--checkpoints must be numbers with commas"),
        (
            ["--task", "polarity", "--set", "steps=2.5"],
            "steps must be a whole number of at least 1",
        ),
        (
            ["--task", "polarity", "--set", "epochs=abc"],
            "epochs must be a number above 0, or none, but got 'abc'.",
        ),
        (["--task", "polarity", "--set", "decay=-5"], "decay must be a number of at least 0, but got -5."),
        (["--task", "polarity", "--set", "betas=0.9"], "betas must be two numbers of at least 0 and below 1"),
        (["--task", "polarity", "--column", "held_out=5"], "role of a column must be one of"),
        (["--task", "rte", "--data", "nowhere"], "must be"),
        (["--task", "polarity", "--column", "text"], "--column must be name=value"),
        (["--task", "mine.csv", "--pairs", "a,b"], "pairs must be three columns, as TEXT,OTHER,SCORE, but"),
        (
            ["--task", "mine.csv", "--pairs", "a,b,c", "--column", "pair=d"],
            "column pair must be left out where pairs names the columns, but got 'd'.",
        ),
    ],
)
def test_wrong_requests_are_one_sentence(
    words: list[str], sentence: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["finetune", model, *words]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_a_head_of_ones_own(
    model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["finetune", model, *own(table), *QUICK, "--store", str(tmp_path / "shelf"), "--json"]
    assert main([*words, "--head", "reads=mean,dense=2,pooler=none"]) == 0
    told = json.loads(capsys.readouterr().out)["runs"][0]
    assert "mean of the states" in " ".join(told["head"])
    for head, sentence in (
        ("reads=all", "what a head reads must be one of"),
        ("deep=3", "part of a head must be"),
    ):
        assert main([*words, "--head", head]) == 2
        assert sentence in capsys.readouterr().err


def test_a_diverged_run_is_still_json(
    model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["finetune", model, *own(table), *QUICK, "--set", "rate=1e30", "--set", "clip=none"]
    for _ in range(2):
        assert main([*words, "--store", str(tmp_path / "shelf"), "--json"]) == 0
        told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        assert told["runs"][0]["failure"].startswith(("diverged", "collapsed"))


def test_a_model_without_a_head_cannot_be_evaluated(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", model, "--task", "polarity"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_tasks_and_recipes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "tasks", "--json"]) == 0
    tasks = {one["name"]: one for one in json.loads(capsys.readouterr().out)["tasks"]}
    assert {"rte", "squad2", "ewt-parsing", "polarity"} <= set(tasks)
    assert tasks["mrpc"]["main"] == ["accuracy", "f1"]
    assert all(one["about"] for one in tasks.values())
    assert tasks["polarity"]["sizes"]["train"] == 8_000
    assert main(["ls", "recipes", "--json"]) == 0
    recipes = {one["name"]: one for one in json.loads(capsys.readouterr().out)["recipes"]}
    assert recipes["phang2021"]["steps"] == 10_000
    for table in ("tasks", "recipes"):
        assert main(["ls", table]) == 0
    assert "phang2021" in capsys.readouterr().out


def test_threads_are_put_back(model: str, table: str, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    assert main(["finetune", model, *own(table), *QUICK, "--store", str(tmp_path), "--quiet"]) == 0
    assert torch.get_num_threads() == before


def test_a_head_that_stock_classes_would_not_read_is_told_of(
    model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, store = tmp_path / "out", str(tmp_path / "shelf")
    words = ["finetune", model, *own(table), *QUICK, "--seeds", "1", "--store", store, "--out", str(out)]
    assert main([*words, "--head", "jiant"]) == 0
    assert "would draw another head at random" in capsys.readouterr().err
    assert "head.safetensors" in (out / "seed-1" / "README.md").read_text()
    small = tmp_path / "small"
    cut = [
        "prune",
        str(out / "seed-1"),
        *own(table),
        "--max-drop",
        "99",
        "--store",
        store,
        "--out",
        str(small),
    ]
    assert main(cut) == 0
    assert "would draw another head at random" in capsys.readouterr().err

    # A later run with another head must not find the old one in the same folder.
    assert main([*words, "--head", "stock"]) == 0
    assert "another head" not in capsys.readouterr().err
    assert not (out / "seed-1" / "head.json").exists()
    transformers.AutoModelForSequenceClassification.from_pretrained(out / "seed-1")


def test_pairs_of_ones_own_with_scores(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"the cat {i} sleeps,the dog {i} sleeps,{i % 11 / 2}\n" for i in range(60))
    (tmp_path / "mine.csv").write_text(f"a,b,score\n{rows}")
    words = ["finetune", model, "--task", str(tmp_path / "mine.csv"), "--pairs", "a,b,score"]
    assert main([*words, *QUICK, "--store", str(tmp_path / "shelf"), "--json"]) == 0
    said = capsys.readouterr()
    assert "mine: 'score' holds numbers that are not whole, so they are learned as numbers" in said.err
    told = json.loads(said.out)["runs"][0]
    assert told["evaluation"]["kind"] == "regression"
    assert any(note.startswith("'score' holds numbers") for note in told["train"]["notes"])
    assert any(note.startswith("'score' holds numbers") for note in told["evaluation"]["notes"])


def test_every_verb_that_takes_columns_takes_pairs() -> None:
    verbs: Any = command()
    taken = {
        name: {option for parameter in verb.params for option in parameter.opts}
        for name, verb in verbs.commands.items()
    }
    with_columns = {name for name, options in taken.items() if "--column" in options}
    assert with_columns >= {"finetune", "evaluate", "prune", "truncate", "skip", "freeze"}
    assert all("--pairs" in taken[name] for name in with_columns)
