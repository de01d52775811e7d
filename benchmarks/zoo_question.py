"""Why did ELECTRA show no blocks? Small encoders that differ in one thing, under the same heads and rates.

One job is an encoder, a head, a task and a rate. It fine-tunes with every seed, compares all layers of all
its models and of the encoder before tuning in one matrix, asks each stack for blocks, and cuts the models
after each layer (`zoo_job.py`). Its numbers are in one small file as soon as it is done, and a run that was
stopped goes on behind the last of them. At last, models of different encoders that were tuned alike are
compared with each other. Run it as

    python benchmarks/zoo_question.py --plan minimal --zoo DIR --data DIR --out DIR --device cuda --at-once 16

keep what was found in one file and put it into a page with

    python benchmarks/zoo_question.py --load DIR --keep benchmarks/results/zoo-question.jsonl
    python benchmarks/zoo_question.py --load benchmarks/results/zoo-question.jsonl --markdown docs/zoo.md
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from job_files import finished_jobs, keep_jobs, read_jobs
from zoo_job import CROSSED, FORMAT, Job, across, asked, begin, do, open_task, recipe_values, shape_of
from zoo_picture import save_pictures
from zoo_tables import fill, read, slim

from microtome.encoders.locations import shipped_names

PLANS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "minimal": {
        "encoders": ("masked", "replaced", "shared"),
        "heads": ("cls1", "cls2"),
        "tasks": ("stsb", "mrpc"),
        "rates": (1e-4,),
    },
    "wide": {
        "encoders": (
            *("masked", "replaced", "shared", "every", "causal"),
            *("masked-1", "masked-2", "replaced-1", "replaced-2"),
        ),
        "heads": ("cls0", "cls1", "cls2", "mean"),
        "tasks": ("stsb", "mrpc", "cola", "rte", "sst2"),
        "rates": (1e-4, 3e-5),
    },
}
PICTURED = ("sst2", "cola", "stsb")  # tasks that the small encoders learn
# Updates that take about as long as what a job does beside training: tokens, maps, readouts.
BESIDE = 400
SAFETY = 1.25  # a job is started when so many times what it will likely take is left
CROSSING = 0.04  # share of the time that is kept for maps of different encoders


def jobs(plan: Mapping[str, Sequence[Any]]) -> list[Job]:
    """Every cell of a plan."""
    return [
        Job(encoder=encoder, head=head, task=task, rate=rate)
        for encoder in plan["encoders"]
        for head in plan["heads"]
        for task in plan["tasks"]
        for rate in plan["rates"]
    ]


def ordered(given: Sequence[Job], costs: Mapping[str, float]) -> list[Job]:
    """
    Put jobs in the order of their start: what most questions need first, and of equals the longest.

    First comes the minimal plan; then what differs from it in one thing, its rate, its task, its encoder, its
    head; then what differs in two, and so on. A run that is stopped for want of time so leaves whole
    comparisons, and short jobs fill the end of each part.

    Parameters
    ----------
    given : sequence of Job
    costs : mapping of str to float
        Of each task.

    Returns
    -------
    list of Job
    """
    least = PLANS["minimal"]

    def part(job: Job) -> int:
        other = [
            value
            for value, differs in (
                (1, job.rate != given[0].rate),
                (2, job.task not in least["tasks"]),
                (3, job.encoder not in least["encoders"]),
                (4, job.head not in least["heads"]),
            )
            if differs
        ]
        return other[0] if len(other) == 1 else 5 * len(other)

    return sorted(given, key=lambda job: (part(job), -costs[job.task], job.name))


def costs_of(tasks: Iterable[str], options: Mapping[str, Any]) -> dict[str, float]:
    """What a job costs on each task, in updates."""
    from microtome.training.recipe import find_recipe

    recipe, found = find_recipe("devlin2019", **recipe_values(options)), {}
    for name in tasks:
        task = open_task(name, options["data"])
        each = recipe.updates(len(task.split(task.train))) + BESIDE
        found[name] = float(len(options["seeds"]) * each)
    return found


def run(
    given: Sequence[Job], options: Mapping[str, Any], *, at_once: int, limit: float, zoo: str | None
) -> int:
    """
    Do all jobs that are not done yet, several at once.

    Parameters
    ----------
    given : sequence of Job
    options : mapping
        As in `zoo_job.do`.
    at_once : int
        Processes, each with one thread.
    limit : float
        Seconds from now on; no job is started that would likely not end in time.
    zoo : str, optional
        The folder of the encoders.

    Returns
    -------
    int
        How many jobs failed or were not started.
    """
    start = time.monotonic()
    until = start + limit
    last = until - CROSSING * limit if math.isfinite(limit) else until
    done = finished_jobs(Path(options["out"]), FORMAT, asked(options), known=options.get("known"))
    costs = costs_of({job.task for job in given}, options)
    waiting = [job for job in ordered(given, costs) if job.name not in done]
    paces: list[float] = []
    print(f"{len(given)} jobs, {len(given) - len(waiting)} of them done before", flush=True)
    bad, most = 0, options["vectorized"] // len(options["seeds"])
    shapes = {} if most <= 1 else {name: shape_of(name) for name in {job.encoder for job in given}}

    def fits(group: Sequence[Job]) -> bool:
        pace = statistics.median(paces) if paces else 0.0
        return time.monotonic() + SAFETY * pace * sum(costs[job.task] for job in group) < last

    def next_group() -> list[Job]:
        groups = (group_of(job, waiting, shapes, most) for job in waiting)
        return next(filter(fits, groups), [])

    # Fresh processes: a forked one would inherit a GPU that it cannot use.
    context = get_context("spawn")
    with ProcessPoolExecutor(at_once, mp_context=context, initializer=begin, initargs=(1, zoo)) as pool:
        running: dict[Future[list[dict[str, Any]]], list[Job]] = {}
        while waiting or running:
            while len(running) < at_once and (group := next_group()):
                waiting = [job for job in waiting if job not in group]
                running[pool.submit(do, group, {**options, "at_once": at_once})] = group
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                group, found = running.pop(future), future.result()
                if not any("error" in told for told in found):
                    spent = sum(told["seconds"] for told in found)
                    paces.append(spent / sum(costs[job.task] for job in group))
                for told in found:
                    bad += "error" in told
                    said = told.get("error") or " ".join(f"{score:.3f}" for score in told["scores"])
                    now = time.monotonic() - start
                    print(f"{now:6.0f} s  {told['name']}: {said} ({told['seconds']:.0f} s)", flush=True)
        if waiting:
            print(f"{len(waiting)} jobs were not started: no time left", flush=True)
        crossing = [pool.submit(across, *each, options) for each in crossings(given, options)]
        for future in crossing:
            if time.monotonic() > until:
                future.cancel()
                continue
            told = future.result()
            print(f"{time.monotonic() - start:6.0f} s  {told['name']} ({told['seconds']:.0f} s)", flush=True)
    return bad + len(waiting)


def group_of(first: Job, waiting: Sequence[Job], shapes: Mapping[str, Any], most: int) -> list[Job]:
    """
    Find jobs that can be trained as one: one head and task, encoders of one shape, all at the same rates.

    Parameters
    ----------
    first : Job
        That is one of them.
    waiting : sequence of Job
    shapes : mapping of str to tuple
        Of the encoders.
    most : int
        Jobs at most, if they are more than one.

    Returns
    -------
    list of Job
        By encoder, and by rate.
    """
    if most <= 1:
        return [first]
    rates: dict[str, list[float]] = {}
    for job in waiting:
        if (job.head, job.task, shapes[job.encoder]) == (first.head, first.task, shapes[first.encoder]):
            rates.setdefault(job.encoder, []).append(job.rate)
    mine = sorted(rates[first.encoder])
    alike = [name for name in rates if sorted(rates[name]) == mine and name != first.encoder]
    chosen = [first.encoder, *alike][: max(1, most // len(mine))]
    return [replace(first, encoder=name, rate=rate) for name in chosen for rate in mine]


def crossings(
    given: Iterable[Job], options: Mapping[str, Any]
) -> list[tuple[tuple[str, str, float], list[str]]]:
    """Which encoders can be compared under which head, task and rate, and have not been yet."""
    groups: dict[tuple[str, str, float], list[str]] = {}
    for job in given:
        if (Path(options["store"]) / "rows" / f"{job.name}.npz").is_file():
            groups.setdefault((job.head, job.task, job.rate), []).append(job.encoder)
    found = []
    for (head, task, rate), encoders in groups.items():
        path = Path(options["out"]) / f"{CROSSED}_{head}_{task}_{rate:g}.json"
        known = json.loads(path.read_text())["encoders"] if path.is_file() else []
        if len(encoders) > 1 and set(encoders) > set(known):
            found.append(((head, task, rate), sorted(encoders)))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Matched small encoders under the same heads and rates.")
    parser.add_argument("--plan", default="minimal", choices=tuple(PLANS))
    for name in ("encoders", "heads", "tasks", "rates"):
        parser.add_argument(f"--{name}", help="only these instead of the plan's, commas between them")
    parser.add_argument("--zoo", help="the folder of the encoders; MICROTOME_ZOO or the package when absent")
    parser.add_argument("--data", help="the folder with the tasks' folders")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument("--updates", type=int, default=2_000, help="of a fine-tuning at most")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument(
        "--train-size", type=int, default=4_000, help="examples that heads learn from at most"
    )
    parser.add_argument("--head-epochs", type=float, default=3)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument(
        "--dtype", dest="precision", default="float32", help="of products in training, as of finetune"
    )
    parser.add_argument("--bucket", action="store_true", help="examples of like length share an update")
    parser.add_argument("--vectorized", type=int, default=1, help="models that train as one, at most")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=math.inf, metavar="SECONDS")
    parser.add_argument("--store", type=Path, default=Path("zoo-store"))
    parser.add_argument("--keep-models", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("zoo-question"))
    parser.add_argument("--known", type=Path, help="jobs of an earlier run, which are not done again")
    parser.add_argument("--load", type=Path, help="show what an earlier run kept: a folder or a file")
    parser.add_argument("--keep", type=Path, help="a file for what --load has read")
    parser.add_argument("--markdown", type=Path, help="a page with the marks")
    parser.add_argument("--figures", type=Path, help="a folder for pictures, with --load")
    chosen = parser.parse_args(arguments)
    if chosen.load is not None:
        if chosen.keep is not None:
            found = read_jobs(chosen.load, FORMAT)
            keep_jobs({name: slim(one) for name, one in found.items()}, chosen.keep)
        print(fill(chosen.load, chosen.markdown))
        if chosen.figures is not None:
            save_pictures(read(chosen.load)[0], chosen.figures, PICTURED)
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    begin(1, chosen.zoo)
    plan = dict(PLANS[chosen.plan])
    for name in plan:
        if getattr(chosen, name):
            parts = getattr(chosen, name).split(",")
            plan[name] = tuple(float(one) for one in parts) if name == "rates" else tuple(parts)
    there = shipped_names()
    absent = [name for name in plan["encoders"] if name not in there]
    if absent and not chosen.encoders:
        print(f"left out, since they are not there: {', '.join(absent)}", flush=True)
        plan["encoders"] = tuple(name for name in plan["encoders"] if name in there)
    options = {
        "data": chosen.data,
        "seeds": tuple(int(one) for one in chosen.seeds.split(",")),
        "epochs": chosen.epochs,
        "updates": chosen.updates,
        "batch": chosen.batch,
        "train_size": chosen.train_size,
        "head_epochs": chosen.head_epochs,
        "device": chosen.device,
        "precision": chosen.precision,
        "bucket": chosen.bucket,
        "vectorized": chosen.vectorized,
        "store": str(chosen.store),
        "out": str(chosen.out),
        "known": chosen.known,
        "keep_models": chosen.keep_models,
        "command": " ".join(["python", "benchmarks/zoo_question.py", *(arguments or sys.argv[1:])]),
    }
    return int(run(jobs(plan), options, at_once=chosen.at_once, limit=chosen.time_limit, zoo=chosen.zoo) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
