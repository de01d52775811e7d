"""Estimates of what a study takes: fine-tunings, hours and disk, from sizes, recipes and measured times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

from ..errors import MicrotomeError, WorkError
from ..experiments.table import EXPERIMENTS
from ..findings.words import counted
from ..runtime import duration
from ..store.files import read_record
from ..store.shelf import Shelf
from ..training.recipe import find_recipe
from .grid import FINETUNE, StudyGrid, StudyJob
from .values import TOKENS, Study, StudyModel

# Seconds of an update per block, and floating-point operations per second, where nothing was measured yet. A
# GPU is bound by the start of kernels (BERT-base on an H200 made 13 updates a second), a CPU by products.
# Fine-tunings in the store correct both.
PER_BLOCK = {"cuda": 0.006, "cpu": 0.002}
RATES = {"cuda": 2e14, "cpu": 4e10}
# Forward passes over the scored examples, by verb; skipping takes half a pass for each span.
PASSES: Mapping[str, float] = {
    "truncate": 4,
    "change": 3,
    "domains": 6,
    "localize": 3,
    "probe": 2,
    "compare": 2,
}
VOCABULARY = 30_522
# Results of an experiment, and fine-tunings in the store, that are looked at to see what they take.
LOOKED_AT = 20
# Entries of the store among which fine-tunings are looked for.
SEARCHED = 500
START = 3.0  # seconds of any call
# What the driver of a GPU shows on Linux, so that torch need not be imported.
DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, kw_only=True)
class StudyEstimate:
    """
    What the jobs that are left will take.

    Parameters
    ----------
    jobs, fine_tunings, updates : int
        Fine-tunings with those inside experiments, and their updates.
    hours : float
        Of one device.
    bytes : float
        On the disk.
    measured : float
        The share of the hours that follows from finished jobs of the same experiments.
    timed : int
        Fine-tunings in the store whose speed scales the rest; at 0 it follows from sizes alone.
    device : {"cuda", "cpu"}
    assumed : bool
        Whether the study leaves the device open.
    """

    jobs: int
    fine_tunings: int
    updates: int
    hours: float
    bytes: float
    measured: float
    timed: int
    device: str
    assumed: bool

    def document(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """The estimate in words."""
        worker = "GPU" if self.device == "cuda" else "CPU"
        assumed = "assumed, as the study names no device; " if self.assumed else ""
        source = "from sizes alone"
        if self.timed:
            source = f"from sizes and the speed of {counted(self.timed, 'fine-tuning')} here"
        if self.measured:
            source = f"{self.measured:.0%} from results of the same experiments, the rest {source}"
        return (
            f"left: {self.jobs:,} results, {self.fine_tunings:,} fine-tunings, {self.updates:,} updates; "
            f"about {duration(3600 * self.hours)} of one {worker} ({assumed}{source}) "
            f"and {self.bytes / 1e9:,.1f} GB"
        )


def estimate(grid: StudyGrid, left: Sequence[StudyJob], shelf: Shelf) -> StudyEstimate:
    """
    Estimate what jobs will take.

    Parameters
    ----------
    grid : StudyGrid
    left : sequence of StudyJob
        Not done yet.
    shelf : Shelf
        What jobs took that are done.

    Returns
    -------
    StudyEstimate
    """
    measured, device = _measured(grid, {job.address for job in left}, shelf), assumed_device(grid.study)
    scale, timed = 1.0, 0
    if any(job.table not in measured for job in left):
        scale, timed = _speed(shelf, device)
    fine_tunings = updates = 0
    seconds = known = size = 0.0
    for job in left:
        runs, steps, work = _work(grid, job, device)
        fine_tunings, updates = fine_tunings + runs, updates + steps
        spent = measured.get(job.table, scale * work)
        seconds += spent
        known += spent if job.table in measured else 0.0
        size += _bytes(grid, job)
    return StudyEstimate(
        jobs=len(left),
        fine_tunings=fine_tunings,
        updates=updates,
        hours=round(seconds / 3600, 4),
        bytes=size,
        measured=known / seconds if seconds else 0.0,
        timed=timed,
        device=device,
        assumed=grid.study.device == "auto",
    )


def assumed_device(study: Study) -> str:
    """The device of a study; where it leaves it open, a GPU if calls ask for one or this machine has one."""
    asks = any(resources.gpus for resources in study.resources.values())
    return study.device if study.device != "auto" else "cuda" if asks or DRIVER.exists() else "cpu"


def _measured(grid: StudyGrid, left: set[str], shelf: Shelf) -> dict[str, float]:
    """Mean seconds of finished jobs, by experiment."""
    seconds: dict[str, list[float]] = {}
    for job in grid.jobs:
        if job.address in left or len(seconds.get(job.table, ())) >= LOOKED_AT:
            continue
        try:
            entry = shelf.look(job.address)
        except WorkError:
            continue
        if entry is not None:
            seconds.setdefault(job.table, []).append(float(entry.provenance.get("seconds", 0.0)))
    return {table: sum(values) / len(values) for table, values in seconds.items()}


def _speed(shelf: Shelf, device: str) -> tuple[float, int]:
    """Measured seconds of an update to those that follow from sizes: median over fine-tunings stored."""
    ratios: list[float] = []
    for address in shelf.addresses()[:SEARCHED]:
        if len(ratios) == LOOKED_AT:
            break
        try:
            entry = shelf.look(address)
            if entry is None or entry.kind != "finetune" or "run.json" not in entry.files:
                continue
            run = read_record(entry.path("run.json"))
        except MicrotomeError:
            continue
        course, recipe = run["course"], run["recipe_values"]
        # What was cut off and went on has the seconds of its last part only.
        if not str(run["device"]).startswith(device) or course["resumed"] or not course["updates"]:
            continue
        blocks, width = StudyModel(name="", source=str(entry.folder)).shape
        expected = _update_seconds(device, blocks, width, TOKENS * recipe["batch"])
        ratios.append(course["seconds"] / course["updates"] / expected)
    return (median(ratios), len(ratios)) if ratios else (1.0, 0)


def _update_seconds(device: str, blocks: int, width: int, tokens: float) -> float:
    """Seconds of an update with a batch of so many tokens, where nothing was measured."""
    return PER_BLOCK[device] * blocks + 6 * 12 * blocks * width**2 * tokens / RATES[device]


def _work(grid: StudyGrid, job: StudyJob, device: str) -> tuple[int, int, float]:
    """Fine-tunings, updates and seconds of a job, from sizes."""
    study = grid.study
    models = [study.models[job.model]] if job.model else list(study.models.values())
    tasks = [study.tasks[job.task]] if job.task else list(study.tasks.values())
    seconds, fine_tunings, updates = START, 0, 0
    for model in models[:1]:
        blocks, width = _shape(model)
        weights = 12 * blocks * width**2
        for task in tasks or [None]:
            tokens = task.tokens if task is not None else 32
            evaluated = 2 * weights * tokens * _examples(task and task.task, task and task.text, 1_000)
            passes = PASSES.get(job.verb, 1.0)
            if job.verb == "skip":
                passes = blocks * (blocks + 1) / 4
            runs = _runs(job, blocks, task)
            for count, steps, batch in runs:
                fine_tunings, updates = fine_tunings + count, updates + count * steps
                seconds += count * steps * _update_seconds(device, blocks, width, tokens * batch)
            # Every fine-tuning is scored once.
            passes = max(passes, sum(count for count, _, _ in runs))
            seconds += passes * evaluated / RATES[device]
            if EXPERIMENTS[job.verb].takes == "models" or job.verb == FINETUNE:
                break
    return fine_tunings, updates, seconds


def _runs(job: StudyJob, blocks: int, task: Any) -> list[tuple[int, int, int]]:
    """Number of fine-tunings of a job with their updates and batch."""
    entry, options = EXPERIMENTS[job.verb], job.call["options"]
    if not entry.trains or task is None:
        return []
    kind = entry.load()
    recipe = find_recipe(
        options.get("recipe") or kind.__dataclass_fields__["recipe"].default or "devlin2019",
        **options.get("changes", {}),
    )
    size = options.get("train_size") or task.examples or _examples(task.task, "train", 5_000)
    sizes = [value or size for value in options.get("sizes") or [size]]
    count = _grid_runs(job.verb, blocks, _frozen(options)) if job.verb != FINETUNE else 1
    return [(max(1, count // len(sizes)), recipe.updates(value), recipe.batch) for value in sizes]


def _frozen(options: Mapping[str, Any]) -> str:
    """Options without what names models and tasks, as a key of a cache."""
    left_out = ("model", "task", "data", "column", "pairs", "held_out", "changes")
    return json.dumps({name: value for name, value in options.items() if name not in left_out})


@lru_cache(maxsize=1_000)
def _grid_runs(verb: str, blocks: int, options: str) -> int:
    """The number of fine-tunings of a grid for a model with so many blocks."""
    kind: Any = EXPERIMENTS[verb].load()
    if not hasattr(kind, "grid"):
        return 1
    runs = kind(model="", task="", **json.loads(options)).grid(encoder_of_blocks(blocks))
    # Several curves may share a point, such as the model with nothing frozen.
    return len({(run.interventions, run.seed, str(run.options)) for run in runs})


def encoder_of_blocks(blocks: int) -> Any:
    """What a grid looks at in an encoder that is not at hand."""
    family = SimpleNamespace(
        shared=False, title="", first_fixed=False, index_scaled=None, blocks_of=lambda _: range(blocks)
    )
    return SimpleNamespace(depth=blocks, family=family, model=SimpleNamespace(base_model=None))


@lru_cache(maxsize=1_000)
def _shape(model: StudyModel) -> tuple[int, int]:
    return model.shape


@lru_cache(maxsize=1_000)
def _examples(task: str | None, split: str | None, default: int) -> int:
    """The published number of examples of a split."""
    from ..tasks.table import TASKS

    return TASKS[task].sizes.get(split or "", default) if task and task in TASKS else default


def _bytes(grid: StudyGrid, job: StudyJob) -> float:
    """Weights of a fine-tuned model, rows of recorded layers, or a result."""
    model = grid.study.models.get(job.model) or next(iter(grid.study.models.values()))
    blocks, width = _shape(model)
    if job.verb == FINETUNE:
        return 4.0 * (12 * blocks * width**2 + VOCABULARY * width)
    rows = float(job.call["options"].get("sample") or 5_000)
    recorded = EXPERIMENTS[job.verb].takes in ("models", "changed", "layers", "checkpoints")
    return 1e5 + (4.0 * rows * width * (blocks + 1) if recorded else 0.0)
