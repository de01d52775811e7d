"""How are many fine-tunings run? Each known by its address, one after the other or side by side."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..encoders.encoder import Encoder
from ..errors import InputError, WorkError, must
from ..findings.results import X
from ..interventions.applying import apply
from ..runtime import using_threads
from ..store.address import address as make_address
from ..store.shelf import Shelf
from ..tasks.task import Task
from ..training.evaluating import read_answers
from ..training.finetuning import finetune
from ..training.multi_seed import open_asked
from ..training.progress import LOG
from ..training.recipe import Recipe, find_recipe
from ..training.request import ask
from ..training.stopping import in_child, stopping_children
from ..training.tuned import ANSWERS, RUN

if TYPE_CHECKING:
    import os

KIND = "outcome"
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    One fine-tuning of an experiment.

    Parameters
    ----------
    arm : str
        The curve that it belongs to.
    x : int, float or str
        The point of that curve.
    seed : int
    draw : int
        Which of several draws at one point it is, counted from 1; 0 where there is nothing to draw.
    interventions : tuple
        What is done to the encoder first, in order.
    options : mapping
        Of `finetune`, such as train_size, method or values of the recipe.
    """

    arm: str
    x: X
    seed: int
    draw: int = 0
    interventions: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> int | str:
        """What tells it from the other runs at its point."""
        return f"{self.draw}/{self.seed}" if self.draw else self.seed

    @property
    def work(self) -> tuple[Any, ...]:
        """What decides its outcome: runs of several arms may be the same work."""
        told = tuple(sorted((name, repr(value)) for name, value in self.options.items()))
        return self.interventions, self.seed, told


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """
    What became of a run.

    Parameters
    ----------
    run : Run
    address : str
        Of the fine-tuning.
    folder : Path
        What the store keeps of it: the whole checkpoint, or only what it answered and how it went.
    answers : tuple
        On the validation split, in its order.
    score : float
        Of the task; NaN where it has none.
    baseline : float
        The same score of the most frequent answer of the training split.
    failure : str, optional
        How it went wrong: it diverged, or collapsed to one answer to everything.
    course : mapping
        Updates, losses and seconds.
    """

    run: Run
    address: str
    folder: Path
    answers: tuple[Any, ...] = field(repr=False)
    score: float
    baseline: float = math.nan
    failure: str | None = None
    course: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)


def run_all(
    encoder: Encoder | Mapping[str, Any],
    task: Task | Mapping[str, Any],
    runs: Sequence[Run],
    *,
    recipe: str | Recipe = "devlin2019",
    at_once: int = 1,
    threads: int | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    store: str | os.PathLike[str] | None = None,
    keep_models: bool = False,
    progress: Progress | None = None,
    command: str = "",
    **values: Any,
) -> list[Done]:
    """
    Fine-tune an encoder in many ways; runs that are in the store are read from there.

    Parameters
    ----------
    encoder : Encoder or mapping
        A mapping is what `load` is called with, which processes of their own need.
    task : Task or mapping
        A mapping is what `task` is called with.
    runs : sequence of Run
    recipe : str or Recipe
    at_once : int
        Processes that train at the same time; 1 trains here.
    threads : int, optional
        Of each process; as many as here when absent.
    device, dtype, store, command
        As in `finetune`.
    keep_models : bool
        Whether the store keeps the weights of every run, or only its answers and its course. Runs whose
        weights were in the store before keep them; runs of which only answers are known are trained again
        where weights are asked for.
    progress : callable, optional
    **values
        Of `finetune`, for all runs.

    Returns
    -------
    list of Done
        In the order of the runs.
    """
    if not isinstance(at_once, int) or isinstance(at_once, bool) or at_once < 1:
        raise must("at_once", "a whole number above 0", at_once)
    if at_once > 1 and not (isinstance(encoder, Mapping) and isinstance(task, Mapping)):
        raise InputError(
            "at_once must be 1 for an encoder and a task that are open here, since other processes open them "
            f"anew: give what load and task are called with, such as {{'source': FOLDER}}; but got {at_once}."
        )
    import torch

    chosen = find_recipe(recipe)
    with using_threads(threads):
        options = {"recipe": chosen, "device": device, "dtype": dtype, **values}
        keeping = {"store": store, "command": command, "keep_models": keep_models}
        opened, asked = open_encoder(encoder), open_task(task)
        one = partial(_run_one, opened, asked, Shelf(store), options=options, keeping=keeping)
        distinct = {run.work: run for run in reversed(runs)}
        if at_once > 1:
            # By address: two plans may come to the same run, which two processes must not train at once.
            first: dict[str, Run] = {}
            for run in reversed(distinct.values()):
                first.setdefault(_asked(opened, asked, run, options)[-1], run)
            missing = [run for run in first.values() if one(run, train=False) is None]
            if missing:
                given = encoder, task, torch.get_num_threads()
                _in_processes(given, missing, at_once, options, keeping, progress)
        known: dict[Any, Done] = {}
        out = []
        for place, run in enumerate(runs):
            if run.work not in known:
                found = one(run, progress=_named(progress, run, place, len(runs)))
                assert found is not None
                known[run.work] = found
            out.append(replace(known[run.work], run=run))
        return out


def count_updates(runs: Sequence[Run], task: Task, recipe: str | Recipe, **values: Any) -> tuple[int, int]:
    """
    Count what runs will cost, if none of them is in the store.

    Parameters
    ----------
    runs : sequence of Run
    task : Task
    recipe : str or Recipe
    **values
        Of `finetune`, for all runs.

    Returns
    -------
    runs, updates : int
        Fine-tunings, each counted once however many arms it is in, and updates of all of them; long
        passages count as one example.
    """
    examples, total = len(task.split(task.train)), 0
    distinct = {run.work: run for run in runs}
    for run in distinct.values():
        options = {**values, **run.options}
        size = options.get("train_size") or examples
        changes = {name: options[name] for name in options if name in Recipe.__slots__}
        total += find_recipe(recipe, **changes).updates(min(size, examples))
    return len(distinct), total


def open_encoder(given: Any) -> Any:
    """Take an encoder as it is, or load it."""
    if isinstance(given, Mapping):
        from ..encoders.loading import load

        return load(**given)
    if not hasattr(given, "depth") or not hasattr(given, "base"):
        told = getattr(given, "name", type(given).__name__)
        raise InputError(f"{told} must be a model of transformers to be fine-tuned, but it is none.")
    return given


def open_task(given: Any) -> Task:
    """Take a task as it is, or open it."""
    if isinstance(given, Task):
        return given
    if isinstance(given, Mapping):
        return open_asked(given)
    raise must("task", "what microtome.task gives, or what it is called with", type(given).__name__)


def _named(progress: Progress | None, run: Run, place: int, count: int) -> Progress | None:
    if progress is None:
        return None
    label = f"{place + 1}/{count} {run.arm} {run.x} seed {run.name}"
    return lambda what, done, total: progress(f"{label}: {what}", done, total)


def _run_one(
    encoder: Any,
    task: Task,
    shelf: Shelf,
    run: Run,
    *,
    options: Mapping[str, Any],
    keeping: Mapping[str, Any],
    progress: Progress | None = None,
    train: bool = True,
) -> Done | None:
    changed, recipe, given, place = _asked(encoder, task, run, options)
    found = None
    with suppress(OSError, WorkError):  # what another experiment lets go just now is looked for again below
        found = _read(shelf, place, run, task, whole=keeping["keep_models"])
    if found is not None or not train:
        return found
    # Another experiment on this store may want the same run, and must not read what is let go here.
    with shelf.alone(_outcome(place)):
        found = _read(shelf, place, run, task, whole=keeping["keep_models"])
        if found is not None:
            return found
        finetune(
            changed,
            task,
            recipe,
            store=keeping["store"],
            command=keeping["command"],
            progress=progress,
            **given,
        )
        if not keeping["keep_models"]:
            _let_go(shelf, place)
        found = _read(shelf, place, run, task)
    if found is None:
        raise WorkError(f"{run.arm} {run.x} must be in the store after its training, but it is not.")
    return found


def _asked(
    encoder: Any, task: Task, run: Run, options: Mapping[str, Any]
) -> tuple[Any, Recipe, dict[str, Any], str]:
    """The encoder of a run, its recipe, what else `finetune` is asked with, and the address."""
    changed = apply(encoder, *run.interventions) if run.interventions else encoder
    given = {**options, "seed": run.seed, **run.options}
    recipe = given.pop("recipe")
    return changed, recipe, given, ask(changed, task, recipe, **given).address


def _outcome(place: str) -> str:
    """The address of what is kept of a run whose weights are not."""
    return make_address({"run": place})


def _let_go(shelf: Shelf, place: str) -> None:
    """Keep what a run answered, and remove its weights."""
    entry = shelf.get(place)
    if entry is None:
        return
    source = Path(entry.folder)

    def files(folder: Path) -> None:
        for name in (RUN, ANSWERS, LOG):
            if (source / name).is_file():
                shutil.copyfile(source / name, folder / name)

    told = {name: entry.provenance.get(name) for name in ("model", "task", "recipe", "score", "failure")}
    shelf.put(files, kind=KIND, specification={"run": place}, provenance=told)
    shelf.remove(place)


def _read(shelf: Shelf, place: str, run: Run, task: Task, *, whole: bool = False) -> Done | None:
    """Read what became of a run, with its weights where the whole of it is asked for."""
    entry = shelf.get(place)
    if entry is None and not whole:
        entry = shelf.get(_outcome(place))
    if entry is None:
        return None
    folder = Path(entry.folder)
    told = json.loads((folder / RUN).read_text())
    found = told["evaluation"]
    value = found["score"]["value"]
    guessed = [found["baseline"].get(name) for name in task.main]
    known = bool(guessed) and all(each is not None for each in guessed)
    return Done(
        run=run,
        address=place,
        folder=folder,
        answers=tuple(read_answers(folder / ANSWERS, task.split(task.validation))),
        score=math.nan if value is None else float(value),
        baseline=sum(guessed) / len(guessed) if known else math.nan,
        failure=told["failure"],
        course=MappingProxyType(told["course"]),
    )


def _in_processes(
    given: tuple[Any, Any, int],
    runs: Sequence[Run],
    at_once: int,
    options: Mapping[str, Any],
    keeping: Mapping[str, Any],
    progress: Progress | None,
) -> None:
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # Fresh processes: a forked one would inherit a GPU that it cannot use.
    pool = ProcessPoolExecutor(
        min(at_once, len(runs)), mp_context=get_context("spawn"), initializer=_open_here, initargs=given
    )
    try:
        with stopping_children(pool):
            running = [pool.submit(in_child, _work_here, run, dict(options), dict(keeping)) for run in runs]
            for done, finished in enumerate(as_completed(running), start=1):
                finished.result()
                if progress is not None:
                    progress("runs", done, len(runs))
    finally:
        pool.shutdown(cancel_futures=True)


# What a process of the pool has opened: every run of it begins with the same encoder and task.
_HERE: dict[str, Any] = {}


def _open_here(encoder: Mapping[str, Any], task: Mapping[str, Any], threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    _HERE.update(encoder=open_encoder(encoder), task=open_task(task))


def _work_here(run: Run, options: dict[str, Any], keeping: dict[str, Any]) -> None:
    shelf = Shelf(keeping["store"])
    _run_one(_HERE["encoder"], _HERE["task"], shelf, run, options=options, keeping=keeping)
