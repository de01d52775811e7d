"""What does pretraining give a small encoder? Its scores beside those of a random twin, both tuned alike.

For every encoder and every task, all pairs of a learning rate and a length of training are tried with one
seed; the best pair is then trained with further seeds. The random twin, of the same shape and with weights
drawn anew for every seed, is tuned over the same grid. Encoders of the same shape share a twin. An encoder
clearly beats its twin where the interval of the difference lies above 0. Run it as

    python benchmarks/zoo_scores.py --zoo DIR --data DIR --json scores.json --device cuda --at-once 16

A run that was stopped goes on where it was. Fill the cards, and put the table into a page, with

    python benchmarks/zoo_scores.py --load scores.json --zoo DIR --cards --corpus FILE --markdown docs/zoo.md
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from zoo_job import begin, head_of, let_go, machine, once, open_task, shape_of
from zoo_twins import GRID_SEED, best, fill_cards, grid_of, markdown

FORMAT = "microtome/zoo-scores/1"
MARKS = ("<!-- twins -->", "<!-- /twins -->")
SAFETY = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    One fine-tuning.

    Parameters
    ----------
    encoder : str
        Of a twin, the one whose shape it has.
    twin : bool
        Whether its weights are drawn anew.
    task : str
    rate, epochs : float
    seed : int
        Of the fine-tuning, and of a twin's weights.
    """

    encoder: str
    twin: bool
    task: str
    rate: float
    epochs: float
    seed: int

    @property
    def place(self) -> tuple[str, bool, str]:
        """Whose grid it is in."""
        return self.encoder, self.twin, self.task

    @property
    def name(self) -> str:
        """What it is called."""
        twin = " (twin)" if self.twin else ""
        return f"{self.encoder}{twin} {self.task} rate {self.rate:g} epochs {self.epochs:g} seed {self.seed}"


def do(run: Run, options: Mapping[str, Any]) -> dict[str, Any]:
    """Fine-tune once; what fails is told, not raised, so that the others go on."""
    start = time.monotonic()
    try:
        told = tune(run, options)
    except Exception as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    let_go(options["device"])
    return {**asdict(run), **told, "wall": round(time.monotonic() - start, 2)}


def tune(run: Run, options: Mapping[str, Any]) -> dict[str, Any]:
    """Fine-tune, keep the score, and let the weights go."""
    import microtome as mt
    from microtome.store.shelf import Shelf
    from microtome.training.models.stock import SEQUENCE

    task = open_task(run.task, options["data"])
    source = f"zoo:{run.encoder}"
    encoder = (
        mt.load(source, random_init=True, seed=run.seed)
        if run.twin
        else once(("encoder", run.encoder), lambda: mt.load(source))
    )
    # All have one and the same head; one that answers for words has only one form.
    head = head_of("cls1", encoder) if task.kind in SEQUENCE else "stock"
    found = mt.finetune(
        encoder,
        task,
        "devlin2019",
        seed=run.seed,
        head=head,
        device=options["device"],
        store=options["store"],
        rate=run.rate,
        epochs=run.epochs,
        steps=options["updates"],
        bucket=options["bucket"],
    )
    Shelf(options["store"]).remove(found.address)
    value = found.score.value
    return {
        "score": round(value, 5) if math.isfinite(value) else None,
        "failure": found.failure,
        "updates": found.course["updates"],
        "n": len(found.predictions),
        "guess": round(statistics.fmean(found.evaluation.baseline[name] for name in task.main), 5),
        "machine": machine(options["device"]),
    }


def twins_of(encoders: Iterable[str]) -> dict[str, str]:
    """For each encoder the one that its twin is drawn after: the first of its shape."""
    known: dict[tuple[Any, ...], str] = {}
    found = {}
    for name in encoders:
        found[name] = known.setdefault(shape_of(name), name)
    return found


def next_runs(
    place: tuple[str, bool, str], results: Sequence[Mapping[str, Any]], plan: Mapping[str, Any]
) -> list[Run]:
    """What is still to be run of one encoder and task: the grid first, then the best cell with more seeds."""
    encoder, twin, task = place
    mine = [one for one in results if (one["encoder"], one["twin"], one["task"]) == place]
    done = {(one["rate"], one["epochs"], one["seed"]) for one in mine}
    grid = [(rate, epochs, GRID_SEED) for rate in plan["rates"] for epochs in plan["epochs"]]
    wanted = grid
    if done.issuperset(grid):
        chosen = best(grid_of(mine, plan))
        if chosen is None:
            return []
        wanted = [(chosen["rate"], chosen["epochs"], seed) for seed in plan["seeds"]]
    return [
        Run(encoder=encoder, twin=twin, task=task, rate=rate, epochs=epochs, seed=seed)
        for rate, epochs, seed in wanted
        if (rate, epochs, seed) not in done
    ]


def measure(document: dict[str, Any], options: Mapping[str, Any], chosen: Any) -> int:
    """Run everything that is missing, several runs at once, and keep each result at once."""
    plan, results = document["plan"], document["results"]
    results[:] = [one for one in results if "error" not in one]
    places = [(name, False, task) for name in plan["encoders"] for task in plan["tasks"]]
    places += [(name, True, task) for name in dict.fromkeys(plan["twins"].values()) for task in plan["tasks"]]
    start, failed = time.monotonic(), 0
    until = start + chosen.time_limit
    sizes = {name: updates_of(name, options, plan) for name in plan["tasks"]}
    paces: list[float] = []

    def waiting() -> list[Run]:
        every = [*results, *(asdict(run) for run in running.values())]
        # Runs under way count as done for the grid only once they are: their cells are taken, not known.
        found = [run for place in places for run in next_runs(place, results, plan)]
        taken = {tuple(sorted(_key(one).items())) for one in every}
        return [run for run in found if tuple(sorted(_key(asdict(run)).items())) not in taken]

    def cost(run: Run) -> float:
        return sizes[run.task][run.epochs]

    running: dict[Future[dict[str, Any]], Run] = {}
    context = get_context("spawn")
    with ProcessPoolExecutor(
        chosen.at_once, mp_context=context, initializer=begin, initargs=(1, chosen.zoo)
    ) as pool:
        while True:
            free = chosen.at_once - len(running)
            pace = statistics.median(paces) if paces else 0.0
            # A task after the other, so that a run that is stopped leaves whole ones.
            ready = sorted(waiting(), key=lambda run: (plan["tasks"].index(run.task), -cost(run)))
            fitting = [run for run in ready if time.monotonic() + SAFETY * pace * cost(run) < until]
            for run in fitting[:free]:
                running[pool.submit(do, run, options)] = run
            if not running:
                return failed + len(ready)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                run, told = running.pop(future), future.result()
                results.append(told)
                failed += "error" in told
                if "error" not in told:
                    paces.append(told["wall"] / cost(run))
                print(
                    f"{time.monotonic() - start:6.0f} s  {run.name}: {told.get('error') or told['score']}",
                    flush=True,
                )
            if chosen.json is not None:
                chosen.json.write_text(json.dumps(document, indent=1))


def _key(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one[name] for name in ("encoder", "twin", "task", "rate", "epochs", "seed")}


def updates_of(name: str, options: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[float, float]:
    """Updates of each length of training, and some for what is done beside it."""
    from microtome.training.recipe import find_recipe

    task = open_task(name, options["data"])
    examples = len(task.split(task.train))
    values = {"rate": 1e-4, "steps": options["updates"]}
    return {
        epochs: find_recipe("devlin2019", epochs=epochs, **values).updates(examples) + 100.0
        for epochs in plan["epochs"]
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Small encoders beside their random twins.")
    parser.add_argument("--encoders", default="masked,replaced,shared,every,causal")
    parser.add_argument("--zoo", help="the folder of the encoders; MICROTOME_ZOO or the package when absent")
    parser.add_argument("--data", help="the folder with the tasks' folders")
    parser.add_argument("--tasks", default="stsb,mrpc,cola,rte,ewt-upos")
    parser.add_argument("--rates", default="3e-5,1e-4,3e-4")
    parser.add_argument("--epochs", default="3,10")
    parser.add_argument("--updates", type=int, default=4_000, help="of a fine-tuning at most")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument(
        "--bucket",
        action="store_true",
        help="examples of like length share an update: quicker on a processor",
    )
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=math.inf, metavar="SECONDS")
    parser.add_argument("--store", type=Path, default=Path("zoo-store"))
    parser.add_argument("--json", type=Path, help="results; what is in it already is not run again")
    parser.add_argument("--load", type=Path, help="show what an earlier run kept")
    parser.add_argument("--cards", action="store_true", help="fill the cards of the encoders")
    parser.add_argument(
        "--corpus", type=Path, help="the text of the pretraining, for guesses of what was held out"
    )
    parser.add_argument("--markdown", type=Path, help="a page with the marks")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    begin(1, chosen.zoo)
    missing = 0
    if chosen.load is not None:
        document = json.loads(chosen.load.read_text())
    else:
        document, options = planned(chosen)
        missing = measure(document, options, chosen)
    text = markdown(document)
    print(text)
    if chosen.cards:
        print("\n".join(fill_cards(document, chosen.corpus, chosen.device)))
    if chosen.markdown is not None:
        before, _, rest = chosen.markdown.read_text().partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        chosen.markdown.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}")
    return int(missing > 0)


def planned(chosen: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is to be run, with what an earlier run of the same plan has left."""
    from microtome.errors import InputError

    encoders = chosen.encoders.split(",")
    plan = {
        "encoders": encoders,
        "twins": twins_of(encoders),
        "tasks": chosen.tasks.split(","),
        "rates": [float(one) for one in chosen.rates.split(",")],
        "epochs": [float(one) for one in chosen.epochs.split(",")],
        "seeds": [int(one) for one in chosen.seeds.split(",")],
        "updates": chosen.updates,
        "bucket": chosen.bucket,
    }
    if GRID_SEED in plan["seeds"]:
        raise InputError(
            f"seeds must be others than {GRID_SEED}, which chooses the cell, but got {plan['seeds']}."
        )
    document: dict[str, Any] = {"format": FORMAT, "plan": plan, "results": []}
    if chosen.json is not None and chosen.json.is_file():
        known = json.loads(chosen.json.read_text())
        for name in ("updates", "bucket"):
            if known["plan"].get(name, False) != plan[name]:
                raise InputError(f"{chosen.json} must hold runs with {name} {plan[name]}, but it has others.")
        document["results"] = known["results"]
    return document, {
        "data": chosen.data,
        "device": chosen.device,
        "store": str(chosen.store),
        "updates": chosen.updates,
        "bucket": chosen.bucket,
    }


if __name__ == "__main__":
    raise SystemExit(main())
