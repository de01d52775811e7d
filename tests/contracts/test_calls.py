"""Calls of every experiment are plain JSON; performed elsewhere, they leave nothing to compute to its run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cats
import microtome as mt
import tiny
from microtome.cli import main
from microtome.context import Context
from microtome.errors import InputError
from microtome.experiments.calls import options_as_json
from microtome.experiments.table import EXPERIMENTS
from microtome.store.shelf import Shelf
from microtome.training.heads.head import Head

QUICK = {"steps": 3, "batch": 8, "longest": 16, "epochs": None}
TABLE = {"column": {"text": "words", "label": "mood"}}
TUNE: dict[str, Any] = {"model": "BASE", "task": "TASK", "seeds": (1, 2), "changes": QUICK, **TABLE}
TEXT: dict[str, Any] = {"on": "TEXT", "sample": 60}
# What each experiment is asked; words in capitals stand for files.
OPTIONS: dict[str, dict[str, Any]] = {
    "similarity": {"left": "LAYERS"},
    "extract": {"model": "BASE", "on": "TEXT"},
    "compare": {"models": ["BASE", "ONE"], "on": "TEXT", "rows": "mean"},
    "finetune": {**TUNE, "head": Head(reads="mean", dense=0)},
    "evaluate": {"model": "ONE", "task": "TASK", **TABLE},
    "pretrain": {"design": "replaced", "corpus": "TEXT", "out": "OUT", "changes": {"steps": 3}},
    "truncate": {"tuned": ["ONE", "TWO"], "task": "TASK", "base": "BASE", "head_seeds": (0,), **TABLE},
    "skip": {"tuned": "BASE", "task": "TASK", "seeds": (1, 2), "changes": QUICK, **TABLE},
    "freeze": {**TUNE, "ks": (1,), "parts": ("bottom",), "measure_time": False},
    "reinit": {**TUNE, "plans": ("single",)},
    "permute": {**TUNE, "order_seeds": (1,)},
    "drop": {**TUNE, "count": (1,), "strategies": ("top",), "then": ("full", "none")},
    "prune": {"model": "ONE", "task": "TASK", "max_drop": 99.0, "speed": False, **TABLE},
    "probe": {"models": ["BASE"], "target": "upos", "on": "TREES", "control_task": True},
    "probe --mdl": {
        "models": ["BASE"],
        "on": "TREES",
        "mdl": True,
        "control_task": True,
        "random_baselines": 0,
    },
    "probe --target task": {
        "models": ["BASE"],
        "target": "task:TASK",
        "random_baselines": 0,
        "seeds": (0,),
        "epochs": 1,
        **TABLE,
    },
    "change": {"base": "BASE", "tuned": ["ONE", "TWO"], **TEXT, "halves": 2},
    "domains": {"base": "BASE", "tuned": ["ONE", "TWO"], "inside": "TEXT", "outside": "TEXT2", "halves": 2},
    "tuning-methods": {**TUNE, "methods": ("full", "head"), "sample": 60},
    "localize": {"models": ["BASE", "ONE"], **TEXT, "halves": 2, "rotations": 2},
    "trajectory": {"checkpoints": "ONE", **TEXT},
}
PERFORMED = (
    *("freeze", "truncate", "skip", "drop", "compare", "finetune", "prune"),
    *("probe", "probe --mdl", "probe --target task"),
    *("tuning-methods", "domains", "trajectory"),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("files")
    (place / "TASK").mkdir()
    for name, size in (("train", 24), ("validation", 60)):
        lines = [f"{('a dog never runs', 'the cat sleeps')[k % 2]} {k},{'du'[k % 2]}\n" for k in range(size)]
        (place / "TASK" / f"{name}.csv").write_text(f"words,mood\n{''.join(lines)}")
    for name, word in (("TEXT", "cat"), ("TEXT2", "tea")):
        (place / f"{name}.txt").write_text(
            "".join(f"the {word} number {k} sits on the long mat and sleeps\n" for k in range(40))
        )
    base = tiny.save_checkpoint(place / "bert", "bert")
    task = mt.task(place / "TASK", text="words", label="mood")
    runs = [
        mt.finetune(mt.load(base), task, seed=seed, checkpoints=(2,), store=place / "s", **QUICK)
        for seed in (1, 2)
    ]
    np.save(place / "layers.npy", np.random.default_rng(0).normal(size=(2, 40, 4)))
    words = "".join(f"{k + 1}\t{w}\t{w}\t{tag}\t_\t_\t{k}\t_\t_\t_\n" for k, (w, tag) in enumerate(WORDS))
    (place / "trees").mkdir()
    for split, count in (("train", 12), ("dev", 4), ("test", 6)):
        (place / "trees" / f"x-{split}.conllu").write_text((words + "\n") * count)
    return {
        "TASK": str(place / "TASK"),
        "TEXT": str(place / "TEXT.txt"),
        "TEXT2": str(place / "TEXT2.txt"),
        "TREES": str(place / "trees"),
        "LAYERS": str(place / "layers.npy"),
        "OUT": str(place / "out"),
        "BASE": str(base),
        "ONE": str(runs[0].folder),
        "TWO": str(runs[1].folder),
        "SHELF": str(place / "s"),
    }


WORDS = [("the", "DET"), ("cat", "NOUN"), ("sleeps", "VERB"), ("well", "ADV")]


def verb_of(name: str) -> str:
    """The verb of a case, which may have an option behind it."""
    return name.partition(" ")[0]


def experiment_of(verb: str, files: dict[str, str]) -> Any:
    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(part) for part in value]
        if isinstance(value, str) and value.startswith("task:"):
            return f"task:{filled(value.removeprefix('task:'))}"
        return files.get(value, value) if isinstance(value, str) else value

    return EXPERIMENTS[verb_of(verb)].load()(**{name: filled(value) for name, value in OPTIONS[verb].items()})


def test_every_experiment_is_tried() -> None:
    assert {verb_of(name) for name in OPTIONS} == set(EXPERIMENTS)


@pytest.mark.parametrize("verb", OPTIONS)
def test_calls_are_plain_json(verb: str, files: dict[str, str], tmp_path: Path) -> None:
    experiment = experiment_of(verb, files)
    store = files["SHELF"] if verb == "trajectory" else tmp_path / "store"
    context = Context(store=store, threads=1).resolved()
    calls = experiment.calls(experiment.plan(context), context)
    assert json.loads(json.dumps(calls)) == calls
    assert len({call["piece"] for call in calls}) == len(calls)
    assert {call["kind"] for call in calls} <= {verb_of(verb)}
    # An evaluation and maps of arrays are not stored.
    assert bool(calls) == (verb not in ("similarity", "evaluate"))


@pytest.mark.parametrize(
    "verb, pieces",
    [
        ("probe", ["bert", "bert, control 1", "random baseline"]),
        ("probe --mdl", ["bert", "control, bert"]),
        ("probe --target task", ["bert (published)", "bert (converged)"]),
        # All layers of a model come from one pass over its text; a pretraining is one run, which resumes.
        ("extract", ["run"]),
        ("pretrain", ["run"]),
        # All cuts are answered in one pass of the blocks that they share, and tests follow one another.
        ("prune", ["run"]),
    ],
)
def test_what_does_not_depend_on_each_other_is_a_call_each(
    verb: str, pieces: list[str], files: dict[str, str], tmp_path: Path
) -> None:
    context = Context(store=tmp_path, threads=1).resolved()
    experiment = experiment_of(verb, files)
    calls = experiment.calls(experiment.plan(context), context)
    assert [call["piece"] for call in calls] == pieces


def performed(calls: list[Any], store: Path) -> None:
    """Perform calls in a fresh process, with nothing but themselves and the store."""
    script = (
        "import json, sys; from microtome.cli import main\n"
        "for line in sys.stdin:\n"
        f"    assert main(['call', line, '--store', {str(store)!r}, '--quiet']) == 0"
    )
    lines = "\n".join(map(json.dumps, calls))
    subprocess.run([sys.executable, "-c", script], input=lines, text=True, check=True, timeout=600)


def facts(result: Any) -> Any:
    """The numbers of a result, without times."""
    document = json.loads(json.dumps(result.document(), default=str))

    def numbers(value: Any) -> Any:
        if isinstance(value, dict):
            left_out = {"provenance", "seconds", "course", "folder", "address", "finished"}
            return {key: numbers(part) for key, part in value.items() if key not in left_out}
        return [numbers(part) for part in value] if isinstance(value, list) else value

    return numbers(document)


@pytest.mark.slow
@pytest.mark.parametrize("verb", PERFORMED)
def test_performed_calls_leave_nothing_to_compute(verb: str, files: dict[str, str], tmp_path: Path) -> None:
    experiment = experiment_of(verb, files)
    store = tmp_path / "store"
    if verb == "trajectory":
        shutil.copytree(files["SHELF"], store)  # with its checkpoints
        shutil.copytree(store, tmp_path / "alone")
    context = Context(store=store, threads=1).resolved()
    done: list[Any] = []
    # Some calls follow from the outcomes of others.
    while calls := [c for c in experiment.calls(experiment.plan(context), context) if c not in done]:
        performed(calls, store)
        done += calls
    before = {entry.address for entry in Shelf(store).entries()}
    assert before
    result = experiment.execute(context)
    assert {entry.address for entry in Shelf(store).entries()} == before
    alone = experiment.execute(Context(store=tmp_path / "alone", threads=1))
    assert facts(result) == facts(alone)
    if verb == "freeze":
        assert experiment.calls(experiment.plan(context), context) == [], "all of it is in the store"


def test_what_is_open_in_memory_does_not_travel(files: dict[str, str]) -> None:
    kind: Any = EXPERIMENTS["finetune"].load()
    task = cats.cats_task()
    experiment: Any = kind(model=mt.load(files["BASE"]), task=task)
    context = Context().resolved()
    with pytest.raises(InputError, match="model must be given by its name, folder or file for calls"):
        experiment.calls(experiment.plan(context), context)
    assert options_as_json(experiment, named=True)["task"] == task.name


def test_a_call_that_cannot_be_read_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    call = {"kind": "freez", "options": {}, "piece": "run", "context": {}}
    for text, reason in (
        ("{", "a call must be JSON"),
        ("{}", "a call must be an object with kind, options, piece and context"),
        (json.dumps(call), "Did you mean freeze?"),
        (json.dumps({**call, "kind": "freeze"}), "context of a call must be an object with device"),
    ):
        assert main(["call", text]) == 2
        assert reason in capsys.readouterr().err
