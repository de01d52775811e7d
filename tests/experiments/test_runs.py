"""Runs of an experiment: addresses, no training twice, and the order of outcomes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cats
import microtome as mt
import tiny
from microtome.context import Context
from microtome.errors import InputError
from microtome.experiments.runs import Run, Trainer, count_updates
from microtome.interventions.blocks import Freeze, Truncate
from microtome.training.finetuning import finetune
from microtome.training.opening import open_model, open_task, open_tuned
from microtome.training.recipe import find_recipe

Encoders = Callable[..., Any]
FEW: dict[str, Any] = {**cats.QUICK, "steps": 3}
RUNS = [
    Run(arm="cut", x=2, seed=1, interventions=(Truncate(keep=2),)),
    Run(arm="whole", x=0, seed=1),
    Run(arm="frozen", x=1, seed=2, interventions=(Freeze(bottom=1),), options={"train_size": 64}),
    Run(arm="again", x=3, seed=1),
]


def trained(
    encoder: Any, task: Any, runs: list[Run], store: Path, *, keep_models: bool = False
) -> tuple[list[Any], list[str]]:
    """Outcomes of runs, and their messages of progress."""
    heard: list[str] = []
    context = Context(store=store, device="cpu", progress=lambda what, *_: heard.append(what))
    shared: dict[str, Any] = {"recipe": find_recipe("wu2020"), "options": FEW, "keep_models": keep_models}
    return Trainer(encoder=encoder, task=task, context=context, **shared).run_all(runs), heard


def test_each_run_is_a_fine_tuning_and_is_made_once(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), cats.cats_task()
    done, heard = trained(encoder, task, RUNS, tmp_path)
    assert [one.run for one in done] == RUNS
    assert any(what.startswith("1/4 cut 2 seed 1: training") for what in heard)
    plain = finetune(encoder, task, "wu2020", seed=1, store=tmp_path / "own", **FEW)
    assert done[1].address == plain.address == done[3].address
    assert done[1].answers == plain.predictions
    assert done[1].score == plain.score.value
    assert done[1].baseline == plain.evaluation.baseline["accuracy"]
    assert len({one.address for one in done}) == 3
    again, silence = trained(encoder, task, RUNS[::-1], tmp_path)
    assert not any("training" in what for what in silence)
    assert [one.answers for one in again] == [one.answers for one in done[::-1]]


def test_weights_are_kept_where_they_are_asked_for(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), cats.cats_task()
    small, _ = trained(encoder, task, RUNS[:1], tmp_path)
    assert not list(small[0].folder.glob("*.safetensors"))
    large, heard = trained(encoder, task, RUNS[:1], tmp_path, keep_models=True)
    assert any("training" in what for what in heard)
    assert open_tuned(large[0].folder, task).encoder.depth == 2
    assert large[0].answers == small[0].answers
    still, _ = trained(encoder, task, RUNS[:1], tmp_path)
    assert still[0].folder == large[0].folder


def test_a_run_that_fails_is_told(encoder_of: Encoders, tmp_path: Path) -> None:
    wild = Run(arm="wild", x=0, seed=1, options={"rate": 1e30, "clip": None, "steps": 12})
    done, _ = trained(encoder_of("bert"), cats.cats_task(), [wild, RUNS[1]], tmp_path)
    assert str(done[0].failure).startswith(("diverged", "collapsed"))


@pytest.mark.slow
def test_runs_side_by_side_are_those_one_after_the_other(tmp_path: Path) -> None:
    model = str(tiny.save_checkpoint(tmp_path / "bert", "bert"))
    (tmp_path / "data").mkdir()
    for name, size in (("train", 64), ("validation", 40)):
        rows = "".join(f"{'a cat runs' if k % 2 else 'the dogs sleep'} {k},{k % 2}\n" for k in range(size))
        (tmp_path / "data" / f"{name}.csv").write_text(f"text,label\n{rows}")
    heard: dict[int, list[str]] = {1: [], 2: []}

    def hearing(messages: list[str]) -> Any:
        return lambda what, *_: messages.append(what)

    beside, after = (
        mt.freeze(
            model,
            str(tmp_path / "data"),
            column={"text": "text", "label": "label"},
            ks=[1],
            parts=["bottom"],
            seeds=[1, 2],
            measure_time=False,
            at_once=count,
            context=Context(store=tmp_path / str(count), progress=hearing(heard[count])),
            **FEW,
        )
        for count in (2, 1)
    )
    names = ("x", "seed", "score", "address")
    assert [[row[n] for n in names] for row in beside.rows] == [[row[n] for n in names] for row in after.rows]
    assert heard[2].count("runs") == 4
    assert not any("training" in what for what in heard[2])


ALONE = """
import json, sys
import cats
from microtome.context import Context
from microtome.encoders.loading import load
from microtome.experiments.runs import Run, Trainer
from microtome.training.recipe import find_recipe
folder, store, seeds, values = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
runs = [Run(arm="whole", x=0, seed=seed) for seed in seeds]
context = Context(store=store, device="cpu")
recipe, model = find_recipe("wu2020"), load(folder)
trainer = Trainer(encoder=model, task=cats.cats_task(), recipe=recipe, options=values, context=context)
done = trainer.run_all(runs)
print(json.dumps({one.run.seed: one.answers for one in done}))
"""


@pytest.mark.slow
def test_experiments_that_share_runs_and_a_store(tmp_path: Path) -> None:
    """Each lets go of weights that another may be about to read."""
    folder = tiny.save_checkpoint(tmp_path / "bert", "bert")
    seeds = list(range(8))
    # Processes: the library cannot load models in several threads at once.
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ALONE, folder, tmp_path / "store", json.dumps(order), json.dumps(FEW)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        )
        for order in (seeds, seeds[::-1], seeds)
    ]
    heard = [json.loads(one.communicate()[0].splitlines()[-1]) for one in running]
    assert set(heard[0]) == {str(seed) for seed in seeds}
    assert heard[0] == heard[1] == heard[2]
    assert not list((tmp_path / "store").rglob("*.safetensors"))


def test_runs_are_counted_before_they_begin() -> None:
    task = cats.cats_task(train=100)
    wide = Run(arm="wide", x=1, seed=1, options={"steps": 7, "epochs": None})
    assert count_updates([*RUNS, wide], task, "wu2020") == (4, 2 * 39 + 24 + 7)


def test_what_cannot_be_run(encoder_of: Encoders, tmp_path: Path) -> None:
    task = cats.cats_task()
    with pytest.raises(InputError, match=r"model must be given by its name, .* which is open in memory"):
        mt.freeze(encoder_of("bert"), task, at_once=2, store=tmp_path, **FEW)
    with pytest.raises(InputError, match="at_once must be at least 1, but got 0"):
        mt.freeze(encoder_of("bert"), task, at_once=0)
    with pytest.raises(InputError, match=r"task must be a name, what microtome\.task gives"):
        open_task("rte")
    with pytest.raises(InputError, match=r"a model must be what microtome\.load gives"):
        open_model(3, context=Context())
