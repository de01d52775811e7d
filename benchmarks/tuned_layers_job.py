"""What does tuning on one task do to the layers of one model? With all seeds; for tuned_layers.py."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from zoo_job import Clock, head_of, let_go, machine, once, open_task, write

FORMAT = "microtome/tuned-layers/1"
SPANS, PARSING = "squad", "ewt-parsing"
# What is measured on a tuned model, in this order; those in brackets of `--jobs` are asked for by name.
PARTS = ("change", "probe", "domains", "structural", "freeze")
MEASURES = ("rsa", "debiased_cka")
ENDS = ("value", "low", "high")
STRIDE = 48  # windows of passages must overlap by less than the smallest model can read
NAMES = (
    *("seeds", "updates", "rate", "batch", "precision", "device", "sentences", "rows", "halves"),
    *("train", "judged", "reinit_task", "reinit_updates", "reinit_rate", "reinit_seeds", "reads"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """
    One file of results.

    Parameters
    ----------
    kind : {"tune", "base", "task", "reads", "redrawn"}
        Tune on a task with one seed, for the store alone; measure the model as it is; tuned on a task; read
        the task of the curves from its layers; redraw its upper blocks before it learns that task.
    model : str
        What it is called.
    source : str
        What `load` is called with.
    what : str
        The task, or how blocks are redrawn.
    size : int
        Examples to learn from, of redrawn ones.
    seed : int
        Of what is tuned for the store.
    """

    kind: str
    model: str
    source: str
    what: str = ""
    size: int = 0
    seed: int = 0

    @property
    def name(self) -> str:
        """Of its file."""
        count = str(self.size or self.seed or "")
        return "_".join(part for part in (self.model, self.kind, self.what, count) if part)

    @property
    def setting(self) -> tuple[str, str]:
        """What is tuned on what."""
        return self.model, self.what


def asked(options: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the numbers of a job."""
    return {
        name: list(options[name]) if isinstance(options[name], tuple) else options[name] for name in NAMES
    }


def parts_of(job: Job, options: Mapping[str, Any]) -> list[str]:
    """What a job has to measure."""
    if job.kind == "base":
        return [part for part in ("probe", "structural") if part in options["jobs"]]
    if job.kind == "tune":
        return [] if mark_of(job, options).is_file() else ["weights"]
    if job.kind != "task":
        return ["curves"]
    found = [part for part in PARTS if part in options["jobs"]]
    # Other sentences than those of the treebank are what parsing has no need of here: they are its own.
    return [part for part in found if part != "domains" or job.what != PARSING]


def mark_of(job: Job, options: Mapping[str, Any]) -> Path:
    """Says that the store of this machine has the weights; another machine has to tune again."""
    return Path(options["store"]) / "marks" / job.name


def missing(job: Job, options: Mapping[str, Any], found: Mapping[str, Any] | None) -> list[str]:
    """What is still to be measured; of a task on which every run failed there is nothing."""
    parts = parts_of(job, options)
    if found is None:
        return parts
    if "tuned" in found and all(run["failure"] for run in found["tuned"]["runs"]):
        return []
    return [part for part in parts if part not in found]


def do(job: Job, options: Mapping[str, Any]) -> dict[str, Any]:
    """
    Do a job, or what an earlier run left of it; what fails is told, not raised, so that the others go on.

    Parameters
    ----------
    job : Job
    options : mapping
        Those of `asked`; `data`, `treebank`, `jobs`, and where things go: `store`, `out`, `keep_models`,
        `command`, `at_once`.

    Returns
    -------
    dict
        `name`, `seconds`, and `error` where there is one, else what to print.
    """
    start = time.monotonic()
    path = Path(options["out"]) / f"{job.name}.json"
    aside = Path(options["store"]) / "rows" / job.name
    try:
        found = json.loads(path.read_text()) if path.is_file() else {}
        said = _measured(job, options, found, path, aside)
        return {"name": job.name, "seconds": time.monotonic() - start, "said": said}
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        return {"name": job.name, "seconds": time.monotonic() - start, "error": told}
    finally:
        # Rows of layers are many times as large as what is found by them.
        shutil.rmtree(aside, ignore_errors=True)
        let_go(options["device"])


def _measured(job: Job, options: Mapping[str, Any], found: dict[str, Any], path: Path, aside: Path) -> str:
    from tuned_layers_change import changes, domain_changes, frozen
    from tuned_layers_curves import read_curves, redrawn_curves
    from tuned_layers_probes import base_readouts, tuned_readouts

    clock, wanted = Clock(), missing(job, options, found)
    encoder = open_model(job, options)
    if job.kind == "tune":
        (run,) = tune(job, encoder, options, [job.seed])
        mark = mark_of(job, options)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        return f"{run.score.value:.3f}"
    found.setdefault("format", FORMAT)
    found.update(job=asdict(job), options=asked(options), depth=encoder.depth)
    found.update(machine=machine(options["device"]), at_once=options["at_once"])
    spent = found.setdefault("seconds", {})

    def keep(part: str, value: Any) -> None:
        found[part] = value
        clock(part)
        spent.update({**clock.spent, "all": round(sum({**spent, "all": 0, **clock.spent}.values()), 2)})
        write(path, found)

    if job.kind in ("reads", "redrawn"):
        make = read_curves if job.kind == "reads" else redrawn_curves
        keep("curves", make(job, encoder, options))
        return " ".join(f"{score:.3f}" for score in found["curves"]["means"])
    if job.kind == "base":
        for part in wanted:
            keep(part, base_readouts(encoder, options, aside, trees=part == "structural"))
        return ", ".join(wanted)
    runs = tune(job, encoder, options, options["seeds"])
    sound = [run for run in runs if run.failure is None]
    keep("tuned", scores_of(job, runs, options))
    for part in wanted if sound else ():
        if part == "change":
            keep(part, changes(encoder, sound, options, aside))
        elif part in ("probe", "structural"):
            keep(part, tuned_readouts(encoder, sound, options, aside, trees=part == "structural"))
        elif part == "domains":
            keep(part, domain_changes(job, encoder, sound, options, aside))
        else:
            keep(part, frozen(job, encoder, options))
    if not options["keep_models"]:
        forget(runs, options)
        for seed in options["seeds"]:
            mark_of(replace(job, kind="tune", seed=seed), options).unlink(missing_ok=True)
    return " ".join(f"{run.score.value:.3f}{f' ({run.failure})' if run.failure else ''}" for run in runs)


def open_model(job: Job, options: Mapping[str, Any]) -> Any:
    """Load the model of a job once in a process."""
    import microtome as mt

    made = lambda: mt.load(job.source, name=job.model, device=options["device"])  # noqa: E731
    return once(("model", job.source), made)


def recipe_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same for all tasks, passes apart: what differs between them is not how long they learned."""
    return {
        "rate": options["rate"],
        "batch": options["batch"],
        "steps": options["updates"],
        "epochs": None,
        "stride": STRIDE,
    }


def is_vectorized(task: str, options: Mapping[str, Any]) -> bool:
    """Whether seeds of a task are tuned as one model, which a GPU likes better than one by one."""
    return options["device"] == "cuda" and task not in (SPANS, PARSING)


def tune(job: Job, encoder: Any, options: Mapping[str, Any], seeds: Sequence[int]) -> list[Any]:
    """Fine-tune with every seed; what is in the store is taken from there."""
    import microtome as mt
    from microtome.training.models.stock import SEQUENCE
    from microtome.training.multi_seed import finetune_vectorized

    task = open_task(job.what, options["data"])
    common: dict[str, Any] = {
        "head": head_of("cls1", encoder) if task.kind in SEQUENCE else "stock",
        "dtype": options["precision"],
        "device": options["device"],
        "store": options["store"],
        "command": options["command"],
        **recipe_of(options),
    }
    if is_vectorized(job.what, options):
        return finetune_vectorized([encoder], task, "merchant2020", seeds=seeds, **common)
    return [mt.finetune(encoder, task, "merchant2020", seed=seed, **common) for seed in seeds]


def forget(runs: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Remove the weights of runs from the store."""
    from microtome.store.shelf import Shelf

    shelf = Shelf(options["store"])
    for run in runs:
        shelf.remove(run.address)


def scores_of(job: Job, runs: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The score of each seed, their mean on other examples and with other seeds, and a guess."""
    from microtome.findings.scorecurves import score_curve
    from microtome.scores.table import find_score
    from microtome.training.cut_store import as_answers

    task = open_task(job.what, options["data"])
    judged, score = task.split(task.validation), find_score(task.main)
    sound = [run for run in runs if run.failure is None]
    mean: dict[str, Any] = {}
    if sound:
        answers = as_answers(judged, [run.predictions for run in sound], [run.seeds.init for run in sound])
        curve = score_curve("score", (0,), (answers,), score, task.labels, axis="")
        mean = {name: float(getattr(curve, f"{name}s" if name == "value" else name)[0]) for name in ENDS}
    return {
        "score": score.name,
        "points": score.points,
        "kind": task.kind,
        "n": len(judged),
        "examples": len(task.split(task.train)),
        "notes": [*task.split(task.train).notes, *judged.notes],
        "guess": guess_of(task, runs[0]),
        "mean": mean,
        "runs": [
            {
                "seed": run.seeds.init,
                "score": run.score.value,
                "low": run.score.low,
                "high": run.score.high,
                "failure": run.failure,
                "updates": run.course["updates"],
                "seconds": run.course["seconds"],
            }
            for run in runs
        ],
    }


def guess_of(task: Any, run: Any) -> float:
    """
    What is scored by someone who does not read.

    No answer at all, which the library takes for spans, has nothing right where every passage has an answer;
    so the best of three others is taken: all of the passage, its first sentence, and as many words as answers
    usually have, from a place that is drawn.
    """
    from microtome.randomness import generator
    from microtome.scores.table import find_score

    least = statistics.fmean(run.evaluation.baseline[name] for name in task.main)
    if task.kind != "span":
        return least
    items, score = task.split(task.validation).items, find_score(task.main)
    answers = [item.target[0][1] for item in task.split(task.train) if item.target]
    usual, draw = round(statistics.median(len(one.split()) for one in answers)), generator(0, "spans")
    words = [item.texts[1].split() for item in items]
    starts = [int(draw.integers(max(1, len(one) - usual + 1))) for one in words]
    guesses = (
        [item.texts[1] for item in items],
        [re.split(r"(?<=[.!?])\s+", item.texts[1])[0] for item in items],
        [" ".join(one[start : start + usual]) for one, start in zip(words, starts, strict=True)],
    )
    right = [item.target for item in items]
    return max(least, *(float(score.compute(one, right, task.labels)) for one in guesses))
