"""Does a dry run refuse exactly what the run refuses, in the same words?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiny
from microtome.cli import main

Capture = pytest.CaptureFixture[str]
STEPS = ["--set", "steps=2", "--set", "batch=8", "--set", "longest=16"]
COLUMNS = ["--column", "text=words", "--column", "label=mood"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a task, a text, treebank, layers, and what fine-tuning makes of the model."""
    folder = tmp_path_factory.mktemp("dry")
    tiny.save_checkpoint(folder / "bert", "bert", num_hidden_layers=2)
    (folder / "mine").mkdir()
    for name, size in (("train", 24), ("validation", 16)):
        rows = "".join(f"the cat {i} sleeps,{'up' if i % 2 else 'down'}\n" for i in range(size))
        (folder / "mine" / f"{name}.csv").write_text(f"words,mood\n{rows}")
    (folder / "text.txt").write_text("".join(f"The cat {i} sleeps well.\n" for i in range(12)))
    words = ["the\t_\tDET\t_\t_\t2\tdet", "cat\t_\tNOUN\t_\t_\t3\tnsubj", "sleeps\t_\tVERB\t_\t_\t0\troot"]
    tree = "".join(f"{number}\t{word}\t_\t_\n" for number, word in enumerate(words, start=1))
    (folder / "trees.conllu").write_text("".join(f"# sent_id = {i}\n{tree}\n" for i in range(12)))
    np.save(folder / "layers.npy", np.random.default_rng(0).normal(size=(2, 40, 4)))
    words = ["finetune", str(folder / "bert"), "--task", str(folder / "mine"), *COLUMNS, *STEPS]
    words += ["--recipe", "wu2020", "--threads", "1", "--store", str(folder / "shelf")]
    assert main([*words, "--out", str(folder / "tuned"), "--quiet"]) == 0
    return folder


def request(verb: str, place: Path) -> list[str]:
    """A short request that is all right."""
    bert, tuned, text = str(place / "bert"), str(place / "tuned" / "seed-0"), str(place / "text.txt")
    task = ["--task", str(place / "mine"), *COLUMNS]
    grid = [bert, *task, *STEPS]
    given = {
        "similarity": [str(place / "layers.npy")],
        "extract": [bert, "--on", text],
        "compare": [bert, "--on", text],
        "finetune": [*grid, "--recipe", "wu2020"],
        "evaluate": [tuned, *task],
        "truncate": [tuned, *task, "--set", "steps=2"],
        "skip": [tuned, *task],
        "freeze": [*grid, "--no-measure-time"],
        "reinit": [*grid, "--no-truncation-control"],
        "permute": grid,
        "drop": [*grid, "--count", "1", "--strategies", "top"],
        "prune": [tuned, *task],
        "probe": [bert, "--on", str(place / "trees.conllu"), "--random-baselines", "0"],
        "change": [bert, tuned, "--on", text, "--twins", "0"],
        "domains": [bert, tuned, "--inside", text, "--outside", text],
        "localize": [bert, "--on", text],
        "ways": [*grid, "--ways", "full,head"],
        "trajectory": [str(place / "tuned" / "seed-0"), "--on", text],
        "pretrain": ["masked", "--corpus", text, "--set", "steps=1", "--out", str(place / "encoder")],
    }
    return [verb, *given[verb]]


TRAINS = ("finetune", "freeze", "reinit", "permute", "drop", "ways")
KEEPS = ("extract", "compare", "truncate", "skip", "prune", "probe", "change", "domains", "localize")
EVERY = (*TRAINS, *KEEPS, "similarity", "evaluate", "trajectory", "pretrain")
# One of each kind of refusal; the verbs share what checks them.
CASES = [
    ("finetune", "--head", "nope"),
    ("finetune", "--head", "own"),
    ("finetune", "--head", "reads=pooler"),
    ("finetune", "--method", "nope"),
    ("finetune", "--dtype", "int3"),
    ("finetune", "--dtype", "tf32"),
    ("finetune", "--train-size", "-1"),
    ("finetune", "--train-size", "0"),
    ("finetune", "--train-size", "25"),
    ("finetune", "--set", "warmup=40"),
    ("finetune", "--set", "warmup_steps=3"),
    ("finetune", "--set", "head=nope"),
    ("finetune", "--checkpoints", "3"),
    ("finetune", "--tokenizer", "ABSENT"),
    ("finetune", "--store", "FILE"),
    ("evaluate", "--longest", "2"),
    ("evaluate", "--against", "ABSENT"),
    ("truncate", "--set", "rate=-1"),
    ("truncate", "--base", "ABSENT"),
    ("truncate", "--train-size", "25"),
    ("freeze", "--dtype", "int3"),
    ("compare", "--storage", "nope"),
    ("compare", "--remove-top", "99"),
    ("similarity", "--out", "FILE"),
    ("domains", "--rows", "nope"),
    ("pretrain", "--checkpoints", "9"),
]
MORE = [
    *((verb, "--threads", "0") for verb in EVERY),
    *((verb, "--out", "FILE") for verb in EVERY if verb != "pretrain"),
    *((verb, "--store", "FILE") for verb in (*TRAINS, *KEEPS)),
    *((verb, "--head", "nope") for verb in TRAINS),
    *((verb, "--dtype", "int3") for verb in TRAINS),
    *((verb, "--train-size", size) for verb in TRAINS for size in ("0", "25")),
    *((verb, "--set", "warmup_steps=3") for verb in (*TRAINS, "truncate")),
    *((verb, "--set", "head=nope") for verb in TRAINS),
    ("finetune", "--set", "dropout=2"),
    ("evaluate", "--split", "nope"),
    ("truncate", "--recipe", "nope"),
    ("truncate", "--dtype", "bfloat16"),
    ("truncate", "--pooler", "nope"),
    ("skip", "--split", "nope"),
    ("compare", "--precision", "int3"),
    ("compare", "--memory", "nope"),
    ("compare", "--batch-tokens", "0"),
    ("extract", "--storage", "nope"),
    ("extract", "--batch-tokens", "0"),
    ("similarity", "--memory", "nope"),
    ("pretrain", "--tokenizer", "ABSENT"),
    ("prune", "--share", "2"),
    ("probe", "--level", "2"),
]
slow = [pytest.param(*case, marks=pytest.mark.slow) for case in MORE if case not in CASES]


@pytest.mark.parametrize(("verb", "option", "value"), [*CASES, *slow])
def test_a_dry_run_refuses_what_the_run_refuses(
    verb: str, option: str, value: str, place: Path, capsys: Capture
) -> None:
    words = request(verb, place)
    if option != "--threads":
        words += ["--threads", "1"]
    if option != "--store" and verb in (*TRAINS, *KEEPS, "trajectory"):
        words += ["--store", str(place / "shelf")]
    named = {"FILE": str(place / "text.txt"), "ABSENT": str(place / "absent")}
    words += [option, named.get(value, value)]
    codes, said = [], []
    for more in (["--dry-run"], []):
        codes.append(main([*words, *more]))
        said.append(capsys.readouterr())
    assert codes == [2, 2]
    assert said[0] == said[1]
    assert said[0].err.count("\n") == 1
    assert said[0].out == ""


@pytest.mark.parametrize(
    "more",
    [
        ["--train-size", "8", "--head", "jiant", "--checkpoints", "2"],
        # As long as the training, a warm-up reaches its rate with the last update.
        ["--set", "warmup_steps=2", "--method", "bitfit"],
    ],
)
def test_a_dry_run_accepts_what_the_run_accepts(
    more: list[str], place: Path, tmp_path: Path, capsys: Capture
) -> None:
    words = [*request("finetune", place), *more, "--threads", "1", "--store", str(tmp_path / "shelf")]
    assert main([*words, "--dry-run"]) == 0
    assert not (tmp_path / "shelf").exists()
    planned = capsys.readouterr().out
    assert main(words) == 0
    # The run begins with the sentence that the dry run ends with.
    assert capsys.readouterr().err.startswith(planned)
