"""Fine-tuning with several seeds: one after the other, in parallel processes, or as one model (vmap)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..arguments import checked
from ..context import Context
from ..encoders.encoder import Encoder, TransformerEncoder
from ..errors import InputError, must
from ..inference.estimate import Estimate
from ..inference.seeds import SeedOutcome, mean_over_seeds
from ..lazy import torch
from ..runtime import using_threads
from ..store.shelf import Shelf
from ..tasks.task import Task
from .finetuning import KIND, TrainingRun, finetune
from .opening import open_model, open_task, open_tuned
from .optimization.stopping import in_child, stopping_children
from .precision import make_accelerator
from .recipe import Recipe
from .request import UNSUPPORTED, ask, check_many, split_context
from .tuned import Tuned


def finetune_seeds(
    model: Encoder | Mapping[str, Any],
    task: Task | Mapping[str, Any],
    seeds: Sequence[int],
    *,
    at_once: int = 1,
    vectorized: bool = False,
    **options: Any,
) -> list[Tuned]:
    """
    Fine-tune one encoder with several seeds.

    A small model leaves most of a GPU idle: a few processes, or seeds batched into one model, use it better.

    Parameters
    ----------
    model : Encoder or mapping
        A mapping holds the arguments of `load`, which separate processes need.
    task : Task or mapping
        A mapping holds the arguments of `task`, and `held_out`.
    seeds : sequence of int
    at_once : int
        Number of processes that train at the same time; 1 trains in this process.
    vectorized : bool
        Whether all seeds are batched into one model, as by `finetune_vectorized`, which has fewer options.
    **options
        Of `finetune`, and those of `Context`, or `context`.

    Returns
    -------
    list of Tuned
        In the order of the seeds.
    """
    context, options = split_context(options)
    check_many(seeds, at_once=at_once, vectorized=vectorized, **options)
    with using_threads(context.threads):
        if vectorized:
            shared_options = {name: value for name, value in options.items() if name not in UNSUPPORTED}
            encoder, opened = _open_both(model, task, context)
            return finetune_vectorized([encoder], opened, seeds=seeds, context=context, **shared_options)
        if at_once > 1 and len(seeds) > 1:
            _in_processes((model, task, torch.get_num_threads()), seeds, at_once, context, options)
        # The runs of the processes are in the store by now, and are only opened here.
        encoder, opened = _open_both(model, task, context)
        return [
            finetune(
                encoder,
                opened,
                seed=seed,
                context=context if len(seeds) == 1 else context.named(f"seed {seed}"),
                **_at(options, seed),
            )
            for seed in seeds
        ]


def finetune_vectorized(
    encoders: Sequence[Encoder],
    task: Task,
    recipe: str | Recipe = "devlin2019",
    *,
    seeds: Sequence[int],
    rates: Sequence[float] | None = None,
    **options: Any,
) -> list[Tuned]:
    """
    Fine-tune small encoders of one shape as one model, batched over seeds (vmap): faster on a GPU.

    Each encoder learns what it would learn alone, up to rounding and the dropout masks; each run has its own
    address in the store. A run that is stopped starts from scratch.

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
    **options
        Of `finetune` (head, dtype, values of the recipe), and those of `Context`, or `context`.

    Returns
    -------
    list of Tuned
        All seeds at the first rate of the first encoder, then at its next rate, and so on.
    """
    from .optimization.vmapped import train_vectorized

    if not encoders or not seeds:
        raise must("encoders and seeds", "one or more each", (len(encoders), len(seeds)))
    if len(set(seeds)) != len(seeds) or len({encoder.digest for encoder in encoders}) != len(encoders):
        raise must("encoders and seeds", "each there once", (len(encoders), list(seeds)))
    transformer_encoders = [encoder for encoder in encoders if isinstance(encoder, TransformerEncoder)]
    if len({encoder.tokenizer.digest for encoder in transformer_encoders}) > 1:
        raise InputError("encoders of vectorized training must share one tokenizer, but these do not.")
    context, options = split_context(options)
    dtype = options.get("dtype", "float32")
    accelerator = make_accelerator(context.device, dtype)
    rate_values: list[dict[str, Any]] = [{}] if rates is None else [{"rate": rate} for rate in rates]
    requests = [
        ask(encoder, task, recipe, seed=seed, device=context.device, vectorized=True, **options, **rate)
        for encoder in encoders
        for rate in rate_values
        for seed in seeds
    ]
    shelf = Shelf(context.store, context.command)
    with ExitStack() as stack:
        works = [
            stack.enter_context(shelf.work(kind=KIND, specification=request.specification))
            for request in requests
        ]
        pending = [
            (request, work) for request, work in zip(requests, works, strict=True) if work.entry is None
        ]
        runs = [
            TrainingRun.begin(request, work.folder, accelerator=accelerator, context=context)
            for request, work in pending
        ]
        if runs:
            courses = train_vectorized(
                [run.model for run in runs],
                runs[0].features(),
                [run.request.recipe for run in runs],
                seeds=[run.request.seeds.order for run in runs],
                longest=runs[0].request.longest,
                tf32=dtype == "tf32",
                context=context,
            )
            for (_, work), run, course in zip(pending, runs, courses, strict=True):
                work.finish(run.finish(course, []))
    entries = [(shelf.get(request.address), request.address) for request in requests]
    return [
        open_tuned(entry.folder, task, address=address, shelf=shelf, device=context.device)
        for entry, address in entries
        if entry is not None
    ]


def _at(options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Give each seed its own folder for TensorBoard."""
    board = options.get("board")
    return {**options, "board": None if board is None else str(Path(board) / f"seed-{seed}")}


def _open_both(model: Any, task: Any, context: Context) -> tuple[Any, Task]:
    """Load an encoder and open a task, where they are given as mappings."""
    encoder = open_model(model, context=context).encoder if isinstance(model, Mapping) else model
    return encoder, open_task(task)


def _in_processes(
    references: tuple[Any, Any, int],
    seeds: Sequence[int],
    at_once: int,
    context: Context,
    options: Mapping[str, Any],
) -> None:
    """Train in processes that open model and task themselves, with this number of threads."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # Spawned processes: a forked one would inherit a GPU that it cannot use.
    with (
        ProcessPoolExecutor(min(at_once, len(seeds)), mp_context=get_context("spawn")) as pool,
        stopping_children(pool),
    ):
        running = [
            pool.submit(in_child, _train, references, seed, replace(context, progress=None), dict(options))
            for seed in seeds
        ]
        for done, finished in enumerate(as_completed(running), start=1):
            finished.result()
            context.report("seeds", done, len(seeds))


def _train(references: tuple[Any, Any, int], seed: int, context: Context, options: dict[str, Any]) -> str:
    model, task, threads = references
    torch.set_num_threads(threads)
    encoder, opened = _open_both(model, task, context)
    return finetune(encoder, opened, seed=seed, context=context, **_at(options, seed)).address


@checked
def over_seeds(runs: Sequence[Any], *, level: float = 0.95) -> Estimate:
    """
    Average the score of the task over runs; diverged or collapsed runs are counted, never averaged.

    Parameters
    ----------
    runs : sequence of Tuned
    level : float

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> runs = [mt.finetune(base, task, epochs=1, seed=seed) for seed in (0, 1)]
    >>> mt.over_seeds(runs).estimator
    'mean over seeds'
    """
    if not isinstance(runs, Sequence) or not runs or not all(hasattr(run, "evaluation") for run in runs):
        raise must("runs", "fine-tuned models, at least one", runs)
    outcomes = [
        SeedOutcome(seed=run.seeds.order, value=run.score.value, failed=run.failure or "") for run in runs
    ]
    return mean_over_seeds(outcomes, runs[0].evaluation.main, level=level)
