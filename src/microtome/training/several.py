"""How do several seeds train? One after the other, side by side in processes of their own, or abreast."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..comparison.inputs import using_threads
from ..encoders.encoder import Encoder, TransformerEncoder
from ..errors import InputError, must
from ..inference.estimate import Estimate
from ..inference.seeds import Outcome, mean_over_seeds
from ..store.shelf import Shelf
from ..tasks.task import Task
from .asking import ask
from .finetuning import KIND, begin_run, finetune
from .heads import Head
from .loop import make_accelerator
from .recipe import Recipe
from .tuned import Tuned, open_tuned

Progress = Callable[[str, int, int], None]
# Options of `finetune` that models abreast do not have, and the only value they may have there.
_ALONE: Mapping[str, Any] = MappingProxyType(
    {"train_size": None, "method": "full", "cached": False, "checkpoints": [], "board": None}
)


def finetune_seeds(
    model: Mapping[str, Any],
    task: Mapping[str, Any],
    seeds: Sequence[int],
    *,
    at_once: int = 1,
    abreast: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[Tuned]:
    """
    Fine-tune one encoder with several seeds.

    A small model leaves most of a GPU idle: a few processes at once, or seeds abreast, use it far better.

    Parameters
    ----------
    model : mapping
        What `load` is called with: `source` and its options.
    task : mapping
        What `task` is called with: `name` and its options.
    seeds : sequence of int
    at_once : int
        Processes that train at the same time; 1 trains here.
    abreast : bool
        Whether seeds train as one model, as by `finetune_abreast`, which has fewer options.
    threads : int, optional
        Of each process; as many as here when absent.
    progress : callable, optional
        Called with what is done, how much of it, and of how much.
    **options
        Of `finetune`.

    Returns
    -------
    list of Tuned
        In the order of the seeds.
    """
    if not seeds or len(set(seeds)) != len(seeds):
        raise must("seeds", "one or more, each once", list(seeds))
    if not isinstance(at_once, int) or at_once < 1:
        raise must("at_once", "a whole number above 0", at_once)
    import torch

    if abreast:
        for name, value in options.items():
            if name in _ALONE and value != _ALONE[name]:
                raise must(name, "left as it is for seeds abreast", value)
        given = {name: value for name, value in options.items() if name not in _ALONE}
        with using_threads(threads):
            encoder, opened = _load(model, task)
            return finetune_abreast([encoder], opened, seeds=seeds, progress=progress, **given)
    with using_threads(threads):
        if at_once > 1 and len(seeds) > 1:
            _in_processes(model, task, seeds, at_once, torch.get_num_threads(), progress, options)
        # What the processes trained is in the store by now, and is opened here.
        encoder, opened = _load(model, task)
        return [
            finetune(encoder, opened, seed=seed, progress=_named(progress, seed, seeds), **_at(options, seed))
            for seed in seeds
        ]


def finetune_abreast(
    encoders: Sequence[Encoder],
    task: Task,
    recipe: str | Recipe = "devlin2019",
    *,
    seeds: Sequence[int],
    rates: Sequence[float] | None = None,
    head: str | Head | None = None,
    device: str = "cuda",
    precision: str = "float32",
    store: str | os.PathLike[str] | None = None,
    command: str = "",
    progress: Progress | None = None,
    **values: Any,
) -> list[Tuned]:
    """
    Fine-tune small encoders of one shape as one model, which uses a GPU far better than one by one.

    Each learns what it would learn alone, but for rounding and for the draws of dropout; runs are in the
    store under addresses of their own. A run that is stopped starts anew.

    Parameters
    ----------
    encoders : sequence of Encoder
        Of one class and shape, with one tokenizer.
    task : Task
        Of classification or regression.
    recipe : str or Recipe
    seeds : sequence of int
    rates : sequence of float, optional
        The recipe's when absent.
    head : str or Head, optional
    device, precision, store, command
        As in `finetune`.
    progress : callable, optional
    **values
        Other values of the recipe.

    Returns
    -------
    list of Tuned
        All seeds at the first rate of the first encoder, then at its next rate, and so on.
    """
    from .abreast import train_abreast

    if not encoders or not seeds:
        raise must("encoders and seeds", "one or more each", (len(encoders), len(seeds)))
    if len(set(seeds)) != len(seeds) or len({encoder.digest for encoder in encoders}) != len(encoders):
        raise must("encoders and seeds", "each there once", (len(encoders), list(seeds)))
    known = [encoder for encoder in encoders if isinstance(encoder, TransformerEncoder)]
    if len({encoder.tokenizer.digest for encoder in known}) > 1:
        raise InputError("encoders that are trained abreast must share one tokenizer, but these do not.")
    accelerator = make_accelerator(device, precision)
    given: list[dict[str, Any]] = [{}] if rates is None else [{"rate": rate} for rate in rates]
    asked = [
        ask(
            encoder,
            task,
            recipe,
            seed=seed,
            head=head,
            device=device,
            precision=precision,
            abreast=True,
            **values,
            **rate,
        )
        for encoder in encoders
        for rate in given
        for seed in seeds
    ]
    shelf = Shelf(store)
    with ExitStack() as stack:
        works = [
            stack.enter_context(shelf.work(kind=KIND, specification=one.specification, command=command))
            for one in asked
        ]
        new = [(one, work) for one, work in zip(asked, works, strict=True) if work.entry is None]
        runs = [
            begin_run(one, work.folder, accelerator=accelerator, shelf=shelf, progress=progress)
            for one, work in new
        ]
        if runs:
            courses = train_abreast(
                [run.model for run in runs],
                runs[0].features(),
                [run.asked.recipe for run in runs],
                seeds=[run.asked.seeds.order for run in runs],
                longest=runs[0].asked.longest,
                rounded=precision == "tf32",
                progress=progress,
            )
            for (_, work), run, course in zip(new, runs, courses, strict=True):
                work.finish(run.finish(course, []))
    places = [(shelf.get(one.address), one.address) for one in asked]
    return [
        open_tuned(entry.folder, task, address=address, shelf=shelf, device=device)
        for entry, address in places
        if entry is not None
    ]


def _at(options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Give each seed a folder of its own for TensorBoard."""
    board = options.get("board")
    return {**options, "board": None if board is None else str(Path(board) / f"seed-{seed}")}


def _named(progress: Progress | None, seed: int, seeds: Sequence[int]) -> Progress | None:
    if progress is None or len(seeds) == 1:
        return progress
    return lambda what, done, total: progress(f"seed {seed}: {what}", done, total)


def _load(model: Mapping[str, Any], task: Mapping[str, Any]) -> tuple[Any, Task]:
    from ..encoders.loading import load

    return load(**model), open_asked(task)


def open_asked(asked: Mapping[str, Any]) -> Task:
    """
    Open a task as it was asked for.

    Parameters
    ----------
    asked : mapping
        What `task` is called with, and `held_out`: how many examples of the validation split are scored on
        while the others are trained on, for tasks whose training split is not at hand.

    Returns
    -------
    Task
    """
    from ..tasks.loading import task as open_task
    from ..tasks.subset import held_out

    options = dict(asked)
    size = options.pop("held_out", None)
    found = open_task(**options)
    return found if size is None else held_out(found, size)


def _in_processes(
    model: Mapping[str, Any],
    task: Mapping[str, Any],
    seeds: Sequence[int],
    at_once: int,
    threads: int,
    progress: Progress | None,
    options: Mapping[str, Any],
) -> None:
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # Fresh processes: a forked one would inherit a GPU that it cannot use.
    with ProcessPoolExecutor(min(at_once, len(seeds)), mp_context=get_context("spawn")) as pool:
        running = [
            pool.submit(_train, dict(model), dict(task), seed, threads, dict(options)) for seed in seeds
        ]
        for done, finished in enumerate(as_completed(running), start=1):
            finished.result()
            if progress is not None:
                progress("seeds", done, len(seeds))


def _train(
    model: dict[str, Any], task: dict[str, Any], seed: int, threads: int, options: dict[str, Any]
) -> str:
    import torch

    torch.set_num_threads(threads)
    encoder, opened = _load(model, task)
    return finetune(encoder, opened, seed=seed, **_at(options, seed)).address


def over_seeds(runs: Sequence[Tuned], *, level: float = 0.95) -> Estimate:
    """
    Average the score of the task over runs; those that diverged or collapsed are counted, never averaged.

    Parameters
    ----------
    runs : sequence of Tuned
    level : float

    Returns
    -------
    Estimate
    """
    outcomes = [
        Outcome(seed=run.seeds.order, value=run.score.value, failed=run.failure or "") for run in runs
    ]
    return mean_over_seeds(outcomes, runs[0].evaluation.main, level=level)
