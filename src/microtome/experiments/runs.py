"""Fine-tunings of an experiment: each has an address, and runs in turn or in parallel processes."""

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
from typing import Any

from ..context import Context
from ..errors import InputError, WorkError
from ..findings.results import X
from ..interventions.applying import apply
from ..runtime import using_threads
from ..store.address import address as make_address
from ..store.shelf import Shelf
from ..tasks.task import Task
from ..training.evaluating import read_answers
from ..training.finetuning import finetune_in_store
from ..training.optimization.progress import LOG
from ..training.recipe import Recipe, find_recipe
from ..training.request import ask
from ..training.tuned import ANSWERS, RUN, Failure, read_failure

KIND = "outcome"


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
        Number of the random draw at its point, counted from 1; 0 where nothing is drawn.
    interventions : tuple
        Interventions on the encoder before the fine-tuning, in order.
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
        """Its name among the runs at its point: the seed, after the draw where there are several."""
        return f"{self.draw}/{self.seed}" if self.draw else self.seed

    @property
    def work(self) -> tuple[Any, ...]:
        """All that decides its outcome: runs of several arms may be the same work."""
        options = tuple(sorted((name, repr(value)) for name, value in self.options.items()))
        return self.interventions, self.seed, options


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """
    The outcome of a run.

    Parameters
    ----------
    run : Run
    address : str
        Of the fine-tuning.
    folder : Path
        Folder of the store: the checkpoint, or only its predictions and the log of its training.
    answers : tuple
        Predictions on the validation split, in its order.
    score : float
        The score of the task; NaN where it is undefined.
    baseline : float
        The same score of the majority baseline.
    failure : Failure, optional
        How the training failed: it diverged, or collapsed to one prediction for every example.
    course : mapping
        Updates, losses and seconds.
    """

    run: Run
    address: str
    folder: Path
    answers: tuple[Any, ...] = field(repr=False)
    score: float
    baseline: float = math.nan
    failure: Failure | None = None
    course: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)


def count_updates(runs: Sequence[Run], task: Task, recipe: str | Recipe) -> tuple[int, int]:
    """
    Count the runs and their updates, if none of them is in the store.

    Parameters
    ----------
    runs : sequence of Run
    task : Task
    recipe : str or Recipe

    Returns
    -------
    runs, updates : int
        Fine-tunings, each counted once however many arms it is in, and updates of all of them; long
        passages count as one example.
    """
    examples, total = len(task.split(task.train)), 0
    distinct = {run.work: run for run in runs}
    for run in distinct.values():
        size = run.options.get("train_size") or examples
        changes = {name: value for name, value in run.options.items() if name in Recipe.__slots__}
        total += find_recipe(recipe, **changes).updates(min(size, examples))
    return len(distinct), total


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """
    All that the runs of an experiment share.

    Parameters
    ----------
    encoder : TransformerEncoder
    task : Task
    recipe : Recipe
    options : mapping
        Of `finetune`, for all runs.
    context : Context
    keep_models : bool
        Whether the store keeps the weights of every run, or only its predictions and its log. Weights that
        were in the store before stay there; a run whose weights are not is trained again where they are
        required.
    """

    encoder: Any
    task: Task
    recipe: Recipe
    options: Mapping[str, Any]
    context: Context
    keep_models: bool = False

    def run_all(self, runs: Sequence[Run]) -> list[Done]:
        """Fine-tune once per run, or read what the store has; outcomes are in the order of the runs."""
        with using_threads(self.context.threads):
            outcomes: dict[Any, Done] = {}
            for place, run in enumerate(runs):
                if run.work not in outcomes:
                    label = f"{place + 1}/{len(runs)} {run.arm} {run.x} seed {run.name}"
                    outcomes[run.work] = self._run(run, self.context.named(label))
            return [replace(outcomes[run.work], run=run) for run in runs]

    def _run(self, run: Run, context: Context) -> Done:
        changed, options, address = self._request(run)
        outcome = self._stored(address, run)
        if outcome is not None:
            return outcome
        shelf = Shelf(self.context.store)
        # Another experiment on this store may train the same run, and must not read what is removed below.
        with shelf.alone(_outcome_address(address)):
            outcome = _read(shelf, address, run, self.task, weights=self.keep_models)
            if outcome is not None:
                return outcome
            finetune_in_store(changed, self.task, self.recipe, context=context, **options)
            if not self.keep_models:
                _remove_weights(shelf, address)
            outcome = _read(shelf, address, run, self.task)
        if outcome is None:
            raise WorkError(f"{run.arm} {run.x} must be in the store after its training, but it is not.")
        return outcome

    def pieces(self, runs: Sequence[Run]) -> dict[str, Callable[[], object]]:
        """The fine-tunings that the store does not have yet, by name."""
        return {
            f"{self.task.name}: {run.arm} {run.x} seed {run.name}": partial(self.run_all, [run])
            for run in self._missing(runs)
        }

    def _missing(self, runs: Sequence[Run]) -> list[Run]:
        """Runs that are not in the store, one per address: two processes must not train the same one."""
        with using_threads(self.context.threads):
            first: dict[str, Run] = {}
            for run in reversed({run.work: run for run in reversed(runs)}.values()):
                first.setdefault(self._request(run)[-1], run)
            return [run for address, run in first.items() if self._stored(address, run) is None]

    def _request(self, run: Run) -> tuple[Any, dict[str, Any], str]:
        """The encoder of a run, the arguments of `finetune`, and the address."""
        changed = apply(self.encoder, *run.interventions) if run.interventions else self.encoder
        options = {"device": self.context.device, **self.options, "seed": run.seed, **run.options}
        return changed, options, ask(changed, self.task, self.recipe, **options).address

    def _stored(self, address: str, run: Run) -> Done | None:
        with suppress(OSError, InputError, WorkError):  # another experiment may remove weights at this moment
            return _read(Shelf(self.context.store), address, run, self.task, weights=self.keep_models)
        return None


def _outcome_address(address: str) -> str:
    """The address of predictions and log of a run whose weights are not in the store."""
    return make_address({"run": address})


def _remove_weights(shelf: Shelf, address: str) -> None:
    """Keep the predictions and the log of a run, and remove its weights."""
    entry = shelf.get(address)
    if entry is None:
        return
    source = Path(entry.folder)

    def files(folder: Path) -> None:
        for name in (RUN, ANSWERS, LOG):
            if (source / name).is_file():
                shutil.copyfile(source / name, folder / name)

    facts = {name: entry.provenance.get(name) for name in ("model", "task", "recipe", "score", "failure")}
    shelf.put(files, kind=KIND, specification={"run": address}, provenance=facts)
    shelf.remove(address)


def _read(shelf: Shelf, address: str, run: Run, task: Task, *, weights: bool = False) -> Done | None:
    """Read the outcome of a run; None where it is not in the store, with its weights if required."""
    entry = shelf.get(address)
    if entry is None and not weights:
        entry = shelf.get(_outcome_address(address))
    if entry is None:
        return None
    folder = Path(entry.folder)
    record = json.loads((folder / RUN).read_text())
    evaluation = record["evaluation"]
    score = evaluation["score"]["value"]
    majority = [evaluation["baseline"].get(name) for name in task.main]
    defined = bool(majority) and all(value is not None for value in majority)
    return Done(
        run=run,
        address=address,
        folder=folder,
        answers=tuple(read_answers(folder / ANSWERS, task.split(task.validation))),
        score=math.nan if score is None else float(score),
        baseline=sum(majority) / len(majority) if defined else math.nan,
        failure=read_failure(record),
        course=MappingProxyType(record["course"]),
    )
