"""What does fine-tuning do to layers? Claims of Merchant et al. and of Tamkin et al. 2020, judged.

First a model is fine-tuned on each task with every seed. One job then measures how far each layer moved, what
is still read of words from it, and whether sentences of the task moved more than others
(`tuned_layers_job.py`, `tuned_layers_change.py`, `tuned_layers_probes.py`). Other jobs read a task out of
every layer, and redraw upper blocks before tuning on few examples and on many (`tuned_layers_curves.py`).
Numbers are in one small file a job as soon as they are there, and a run that was stopped goes on behind the
last of them. Run it as

    python benchmarks/tuned_layers.py --models minilm=DIR,zoo:masked,zoo:replaced --data DIR --out runs \
        --store STORE --device cuda --at-once 12 --time-limit 500

keep what was found in one file and put it into a page with

    python benchmarks/tuned_layers.py --load runs --keep benchmarks/results/tuned-layers.jsonl
    python benchmarks/tuned_layers.py --load benchmarks/results/tuned-layers.jsonl \
        --markdown docs/probes.md --figure docs/figures/tuned-layers.svg
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from job_files import finished_jobs, keep_jobs, read_jobs
from tuned_layers_job import FORMAT, PARSING, PARTS, SPANS, Job, asked, do, is_vectorized, missing
from tuned_layers_picture import save_picture
from tuned_layers_tables import fill, read
from zoo_job import begin

JOBS = ("base", *PARTS, "curves")
USUAL = ("base", "change", "probe", "domains", "curves")
PAIRS = ("stsb", "mnli", "mrpc", "qqp", "rte")
SAFETY = 1.25  # a job is started when so many times what it will likely take is left
UNKNOWN = 0.25  # or, of a kind that was never run, such a share of the time
# Updates that take about as long as what a job does beside training, and what one of each kind is worth.
BESIDE = 3_000
WEIGHTS: Mapping[str, float] = {SPANS: 2.0, PARSING: 1.5}


# Words of the command that no job has to know.
NO_OPTIONS = (
    *("models", "zoo", "time_limit", "load", "keep", "markdown", "figure"),
    *("freeze", "structural"),
)


def named(given: str) -> tuple[str, str]:
    """
    What a model is called, and where it is.

    Examples
    --------
    >>> named("zoo:masked"), named("minilm=models/mini"), named("models/mini/")
    (('masked', 'zoo:masked'), ('minilm', 'models/mini'), ('mini', 'models/mini/'))
    """
    name, sign, source = given.partition("=")
    if sign:
        return name, source
    return given.rstrip("/").replace(":", "/").rpartition("/")[2], given


def plan(models: Sequence[str], options: Mapping[str, Any]) -> list[Job]:
    """Every job, in the order of worth: tuned models first, since four of the five claims are about them."""
    wanted, tasks = options["jobs"], (options["pair"], PARSING, SPANS)
    sources = [named(each) for each in models]
    settings = [
        {"model": name, "source": source, "what": task}
        for task in tasks
        for name, source in sources
        if set(wanted) & set(PARTS)
    ]
    found = [
        Job(kind="tune", seed=seed, **each)
        for each in settings
        if not is_vectorized(each["what"], options)
        for seed in options["seeds"]
    ]
    found += [Job(kind="task", **each) for each in settings]
    if "base" in wanted:
        found += [Job(kind="base", model=name, source=source) for name, source in sources]
    if "curves" not in wanted:
        return found
    found += [Job(kind="reads", model=name, source=source) for name, source in sources]
    return found + [
        Job(kind="redrawn", model=name, source=source, what=scheme, size=size)
        for scheme in options["schemes"]
        for size in sorted(options["sizes"])
        for name, source in sources
    ]


def cost_of(job: Job, options: Mapping[str, Any]) -> float:
    """What a job costs, in updates of a small model."""
    if job.kind == "tune":
        return options["updates"] * WEIGHTS.get(job.what, 1.0) + BESIDE / 10
    if job.kind == "task":
        return BESIDE + (options["updates"] if is_vectorized(job.what, options) else 0.0)
    if job.kind == "redrawn":
        return len(options["reinit_seeds"]) * options["reinit_updates"] * 4.0
    return float(BESIDE)


def run(given: Sequence[Job], options: Mapping[str, Any], *, limit: float, zoo: str | None) -> int:
    """
    Do all jobs that are not done yet, several at once.

    Parameters
    ----------
    given : sequence of Job
        In the order of their start.
    options : mapping
        As in `tuned_layers_job.do`.
    limit : float
        Seconds from now on; no job is started that would likely not end in time.
    zoo : str, optional
        The folder of the encoders.

    Returns
    -------
    int
        How many jobs failed or were not started.
    """
    start, at_once = time.monotonic(), options["at_once"]
    until = start + limit
    done = finished_jobs(Path(options["out"]), FORMAT, asked(options))
    waiting = [job for job in given if missing(job, options, done.get(job.name))]
    measured = {job.setting for job in waiting if job.kind == "task"}
    waiting = [job for job in waiting if job.kind != "tune" or job.setting in measured]
    paces: dict[str, list[float]] = {}
    for job in given:
        one = done.get(job.name)
        if one is not None and one["at_once"] == at_once and job not in waiting and "all" in one["seconds"]:
            paces.setdefault(job.kind, []).append(one["seconds"]["all"] / cost_of(job, options))
    print(f"{len(given)} jobs, {len(given) - len(waiting)} of them done before", flush=True)
    bad = 0

    def ready(job: Job) -> bool:
        """Whether what it measures is tuned, and there is time for it."""
        others = [*waiting, *running.values()]
        tuning = {one.setting for one in others if one.kind == "tune"}
        return (job.kind != "task" or job.setting not in tuning) and fits(job)

    def fits(job: Job) -> bool:
        known = paces.get(job.kind)
        if not known:
            # Of a kind that was never run nothing is known; what it has measured when it is killed is kept.
            return limit == math.inf or time.monotonic() + UNKNOWN * limit < until
        return time.monotonic() + SAFETY * statistics.median(known) * cost_of(job, options) < until

    # Fresh processes: a forked one would inherit a GPU that it cannot use.
    context = get_context("spawn")
    running: dict[Future[dict[str, Any]], Job] = {}
    with ProcessPoolExecutor(at_once, mp_context=context, initializer=begin, initargs=(1, zoo)) as pool:
        while waiting or running:
            while len(running) < at_once and (job := next(filter(ready, waiting), None)) is not None:
                waiting.remove(job)
                running[pool.submit(do, job, options)] = job
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job, told = running.pop(future), future.result()
                bad += "error" in told
                if "error" not in told:
                    paces.setdefault(job.kind, []).append(told["seconds"] / cost_of(job, options))
                said = told.get("error") or told["said"]
                now = time.monotonic() - start
                print(f"{now:6.0f} s  {told['name']}: {said} ({told['seconds']:.0f} s)", flush=True)
    if waiting:
        print(f"{len(waiting)} jobs were not started: no time left", flush=True)
    return bad + len(waiting)


def _whole(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(","))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def arguments_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Layers before and after fine-tuning.")
    add = parser.add_argument
    add(
        "--models",
        type=_words,
        default=("zoo:masked", "zoo:replaced"),
        help="NAME=FOLDER, FOLDER or zoo:NAME",
    )
    add("--zoo", help="the folder of the encoders; MICROTOME_ZOO or the package when absent")
    add("--data", help="the folder with the tasks' folders")
    add("--treebank", help="the folder of UD English EWT; DATA/UD_English-EWT when absent")
    add("--jobs", type=_words, default=USUAL, help=f"of {', '.join(JOBS)}")
    add("--freeze", action="store_true", help="freeze the bottom too, as `freeze` of --jobs")
    add("--structural", action="store_true", help="structural probes too, as `structural` of --jobs")
    add("--pair", default="stsb", choices=PAIRS)
    add("--seeds", type=_whole, default=(1, 2, 3))
    add("--updates", type=int, default=1_000, help="of every fine-tuning")
    add("--rate", type=float, default=1e-4)
    add("--batch", type=int, default=32)
    add("--sentences", type=int, default=2_000, help="that layers are compared on, at most")
    add("--rows", type=int, default=5_000, help="tokens of them")
    add("--halves", type=int, default=40, help="half-samples for intervals of RSA")
    add("--train", type=int, default=1_500, help="sentences that probes learn from")
    add("--judged", type=int, default=1_000, help="sentences that probes are judged on")
    add("--reinit-task", default="sst2")
    add("--sizes", type=_whole, default=(500, 5_000), help="examples to learn from, with blocks redrawn")
    add("--schemes", type=_words, default=("tamkin_code",), help="how blocks are redrawn")
    add("--reinit-seeds", type=_whole, default=(1, 2, 3, 4, 5))
    add("--reinit-updates", type=int, default=500)
    add("--reinit-rate", type=float, default=1e-4)
    add("--reads", type=int, default=5_000, help="examples that heads of the probing curve learn from")
    add("--device", default="cpu", choices=("cpu", "cuda"))
    add("--dtype", dest="precision", default="float32", help="of products in training, as of finetune")
    add("--at-once", type=int, default=1)
    add("--time-limit", type=float, default=math.inf, metavar="SECONDS")
    add("--store", type=Path, default=Path("tuned-store"))
    add("--keep-models", action="store_true")
    add("--out", type=Path, default=Path("tuned-layers"))
    add("--load", type=Path, help="show what an earlier run kept: a folder or a file")
    add("--keep", type=Path, help="a file for what --load has read")
    add("--markdown", type=Path, help="a page with the marks")
    add("--figure", type=Path, help="where to draw layers, with --load")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    from microtome.errors import unknown

    chosen = arguments_of().parse_args(arguments)
    if chosen.load is not None:
        if chosen.keep is not None:
            keep_jobs(read_jobs(chosen.load, FORMAT), chosen.keep)
        print(fill(chosen.load, chosen.markdown))
        if chosen.figure is not None:
            save_picture(read(chosen.load), chosen.figure)
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    begin(1, chosen.zoo)
    for each in chosen.jobs:
        if each not in JOBS:
            raise unknown("job", each, JOBS)
    more = [name for name in ("freeze", "structural") if getattr(chosen, name)]
    given = vars(chosen)
    options = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in given.items()
        if name not in NO_OPTIONS
    }
    options["jobs"] = (*chosen.jobs, *(name for name in more if name not in chosen.jobs))
    options["treebank"] = chosen.treebank or str(Path(chosen.data or ".") / "UD_English-EWT")
    options["command"] = " ".join(["python", "benchmarks/tuned_layers.py", *(arguments or sys.argv[1:])])
    return int(run(plan(chosen.models, options), options, limit=chosen.time_limit, zoo=chosen.zoo) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
