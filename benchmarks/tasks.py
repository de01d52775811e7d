"""What does a small encoder reach on each task, beside the most frequent answer?

Fine-tunes one encoder on every task whose files are at hand, with several seeds, several processes at a time,
and writes a table: score with its interval over seeds and over examples, the majority baseline, updates and
seconds. A run that diverged or gave one answer to everything is listed and not averaged. Run it as

    python benchmarks/tasks.py MODEL --data DIR --seeds 1,2,3 --at-once 8 --device cuda --json tasks.json

and put the table into a page with

    python benchmarks/tasks.py --load tasks.json --markdown docs/tasks.md
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

MARKS = ("<!-- tasks -->", "<!-- /tasks -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    One task, and how it is trained.

    Parameters
    ----------
    task : str
    values : dict
        Values of the recipe.
    options : dict
        Of `finetune`.
    held_out : int, optional
        Scored on so many examples of the validation split, trained on the others: no training split is
        at hand.
    what : str
        What the data is, where it is not the published split.
    """

    task: str
    values: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    held_out: int | None = None
    what: str = ""


PLANS = (
    Plan(task="sst2", values={"epochs": 2}),
    Plan(task="ewt-parsing", values={"rate": 2e-4, "epochs": 12}),
    Plan(task="socialiqa", values={"epochs": 2, "longest": 96}),
    Plan(
        task="hellaswag", held_out=2_000, values={"epochs": 2, "longest": 128}, what="validation cut in two"
    ),
    Plan(task="boolq", values={"longest": 256}),
    Plan(task="yelp", values={"longest": 256}, what="open data set, not the polarity files"),
    Plan(task="mnli", what="sample of train, 1,000 of validation"),
    Plan(task="qqp", what="sample of train, another sample for validation"),
    Plan(task="qnli", held_out=1_000, what="validation cut in two: no train at hand"),
    Plan(task="cosmosqa", held_out=800, values={"longest": 192}, what="validation cut in two"),
    Plan(task="squad", values={"rate": 1e-4, "epochs": 4}, what="4,330 questions of train, 1,190 of dev"),
    Plan(task="squad2", held_out=1_500, values={"rate": 1e-4, "epochs": 4}, what="half of dev, cut in two"),
    Plan(task="ewt-upos", values={"rate": 1e-4}),
    Plan(task="ewt-xpos", values={"rate": 1e-4}),
    Plan(task="semeval2010-8", values={"rate": 1e-4, "epochs": 5}),
    Plan(task="cola", values={"epochs": 5, "rate": 5e-5}),
    Plan(task="stsb", values={"epochs": 5, "rate": 5e-5}),
    Plan(task="mrpc", values={"epochs": 5, "rate": 5e-5}),
    Plan(task="rte", values={"epochs": 5, "rate": 5e-5}),
    Plan(task="wnli"),
    Plan(task="polarity", values={"epochs": 1}),
    Plan(task="entailment", values={"rate": 2e-4, "epochs": 10}),
    Plan(task="agreement", values={"rate": 2e-4, "epochs": 10}),
    Plan(task="language-modeling", values={"epochs": 3, "rate": 2e-4}, what="5,000 lines of plain text"),
)


def one_run(job: dict[str, Any]) -> dict[str, Any]:
    """Fine-tune once; what fails is told, not raised, so that the others go on."""
    import torch

    torch.set_num_threads(1)
    import microtome as mt
    from microtome.training.opening import open_task

    start = time.monotonic()
    try:
        encoder = mt.load(job["model"])
        task = open_task(job["asked"])
        run = mt.finetune(
            encoder,
            task,
            job["recipe"],
            seed=job["seed"],
            device=job["device"],
            store=job["store"],
            **job["options"],
            **job["values"],
        )
    except Exception as error:
        return {**job, "error": f"{type(error).__name__}: {error}", "wall": time.monotonic() - start}
    from microtome.training.tuned import RUN

    told = json.loads((run.folder / RUN).read_text())
    told["course"]["losses"] = told["course"]["losses"][-1:]
    return {**job, "run": told, "wall": time.monotonic() - start}


def jobs(plans: Sequence[Plan], chosen: Any) -> list[dict[str, Any]]:
    """One job a task and seed, the longest tasks first."""
    found = []
    for plan in plans:
        for seed in chosen.seeds:
            asked: dict[str, Any] = {"name": plan.task}
            if plan.task not in ("polarity", "entailment", "agreement"):
                asked["data"] = chosen.data
            if plan.held_out is not None:
                asked["held_out"] = plan.held_out
            values = dict(plan.values)
            if chosen.steps is not None:
                values = {**values, "steps": chosen.steps}
                values.pop("epochs", None)
            found.append(
                {
                    "task": plan.task,
                    "what": plan.what,
                    "seed": seed,
                    "asked": asked,
                    "values": values,
                    "options": dict(plan.options),
                    "model": chosen.model,
                    "recipe": chosen.recipe,
                    "device": chosen.device,
                    "store": str(chosen.store),
                }
            )
    return found


def machine(device: str) -> str:
    import torch

    where = torch.cuda.get_device_name(0) if device != "cpu" else platform.processor() or platform.machine()
    return f"{where}, torch {torch.__version__}, Python {platform.python_version()}"


def rows(results: Sequence[dict[str, Any]]) -> list[list[str]]:
    """One row a task: the mean over seeds, and what a reader must know."""
    from microtome.scores.table import find_score

    table = []
    for task in dict.fromkeys(one["task"] for one in results):
        mine = [one for one in results if one["task"] == task]
        ran = [one for one in mine if "run" in one]
        if not ran:
            table.append([task, "failed", mine[0]["error"], "", "", "", "", "", mine[0]["what"]])
            continue
        first = ran[0]["run"]
        main = first["evaluation"]["main"]
        sound = [one["run"]["evaluation"]["score"] for one in ran if not one["run"]["failure"]]
        scores = [_value(score["value"]) for score in sound]
        best = sound[0] if sound else first["evaluation"]["score"]
        guess = [first["evaluation"]["baseline"].get(name) for name in main]
        known = [g for g in guess if g is not None]
        table.append(
            [
                task,
                " + ".join(main),
                _over_seeds(scores, find_score(main).range),
                _interval(best["value"], best["low"], best["high"]),
                f"{sum(known) / len(known):.3f}" if known else "",
                f"{first['evaluation']['n']:,}",
                f"{first['train']['examples']:,}",
                f"{first['course']['updates']:,}",
                f"{sum(o['run']['course']['seconds'] for o in ran) / len(ran):.0f}",
                "; ".join(
                    [
                        *([mine[0]["what"]] if mine[0]["what"] else []),
                        *(f"seed {o['seed']}: {o['run']['failure']}" for o in ran if o["run"]["failure"]),
                        *(f"seed {o['seed']}: {o['error']}" for o in mine if "error" in o),
                    ]
                ),
            ]
        )
    return table


def _value(value: float | None) -> float:
    return float("nan") if value is None else value


def _over_seeds(scores: Sequence[float], ends: tuple[float, float]) -> str:
    """The mean over seeds with its t interval; the records hold no predictions for one over examples too."""
    from microtome.inference.estimate import quantile

    values = np.array([score for score in scores if math.isfinite(score)])
    if len(values) < 2:
        return _interval(float(values.mean()) if len(values) else None, None, None)
    arm = quantile(0.95, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    low, high = np.clip([values.mean() - arm, values.mean() + arm], *ends)
    return _interval(float(values.mean()), float(low), float(high))


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or math.isnan(value):
        return ""
    digits = 3 if abs(value) < 10 else 1
    if low is None or high is None:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


HEADER = (
    "task",
    "score",
    "mean over seeds [95 %, t]",
    "one seed [95 %, examples]",
    "majority baseline",
    "scored on",
    "trained on",
    "updates",
    "seconds a run",
    "remarks",
)


def markdown(document: dict[str, Any]) -> str:
    """Write the table, and what it was measured on."""
    lines = [HEADER, ["---"] * len(HEADER), *rows(document["results"])]
    body = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
    seeds = ", ".join(str(seed) for seed in document["seeds"])
    return (
        f"{body}\n\nMeasured on {document['machine']}; seeds {seeds}; {document['at_once']} runs at a time, "
        f"{document['wall']:.0f} s in all; recipe {document['recipe']}, float32. Seconds are of one run "
        "while the others went on beside it."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fine-tune on every task at hand.")
    parser.add_argument("model", nargs="?", help="folder or hub id")
    parser.add_argument("--data", help="the folder with the tasks' folders")
    parser.add_argument("--tasks", default="", help="only these, commas between them")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, help="so many updates a run, to see that it works")
    parser.add_argument("--recipe", default="devlin2019")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which none is started")
    parser.add_argument("--store", type=Path, default=Path("tasks-store"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--load", type=Path, help="show what an earlier run kept")
    parser.add_argument("--markdown", type=Path)
    chosen = parser.parse_args(arguments)
    chosen.seeds = [int(seed) for seed in chosen.seeds.split(",")]
    if chosen.load is not None:
        document = json.loads(chosen.load.read_text())
    else:
        document = run(chosen)
    text = markdown(document)
    print(text)
    if chosen.markdown is not None:
        page = chosen.markdown.read_text()
        before, _, rest = page.partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        chosen.markdown.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}")
    return int(any("error" in one for one in document["results"]))


def run(chosen: Any) -> dict[str, Any]:
    wanted = chosen.tasks.split(",") if chosen.tasks else [plan.task for plan in PLANS]
    work = jobs([plan for plan in PLANS if plan.task in wanted], chosen)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    start, results = time.monotonic(), []
    document: dict[str, Any] = {}

    def keep() -> None:
        document.update(
            machine=machine(chosen.device),
            seeds=chosen.seeds,
            at_once=chosen.at_once,
            recipe=chosen.recipe,
            wall=time.monotonic() - start,
            results=sorted(results, key=lambda one: (work.index(_job(one)), one["seed"])),
        )
        if chosen.json is not None:
            chosen.json.write_text(json.dumps(document, indent=1))

    with ProcessPoolExecutor(chosen.at_once, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(limited, job, time.time() + chosen.limit) for job in work}
        for finished in as_completed(running):
            results.append(finished.result())
            told = results[-1]
            score = told["run"]["evaluation"]["score"]["value"] if "run" in told else told["error"]
            print(f"{told['task']} seed {told['seed']}: {score} ({told['wall']:.0f} s)", flush=True)
            keep()
    return document


def limited(job: dict[str, Any], until: float) -> dict[str, Any]:
    """Run a job, unless the time for starting one is over."""
    if time.time() > until:
        return {**job, "error": "not started: no time left", "wall": 0.0}
    return one_run(job)


def _job(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in ("run", "error", "wall")}


if __name__ == "__main__":
    raise SystemExit(main())
