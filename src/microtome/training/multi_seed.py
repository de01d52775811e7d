"""Fine-tuning with several seeds: one after the other or as one model (vmap)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..encoders.encoder import Encoder, TransformerEncoder
from ..errors import InputError, must
from ..runtime import using_threads
from ..store.shelf import Shelf
from ..tasks.task import Task
from .finetuning import KIND, TrainingRun, finetune
from .opening import open_tuned
from .optimization.vmapped import train_vectorized
from .precision import make_accelerator
from .recipe import Recipe
from .request import UNSUPPORTED, ask, check_many, split_context
from .tuned import Tuned


def finetune_seeds(
    encoder: Encoder,
    task: Task,
    seeds: Sequence[int],
    *,
    vectorized: bool = False,
    **options: Any,
) -> list[Tuned]:
    """
    Fine-tune one encoder with several seeds.

    Parameters
    ----------
    encoder : Encoder
    task : Task
    seeds : sequence of int
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
    check_many(seeds, vectorized=vectorized, **options)
    with using_threads(context.threads):
        if vectorized:
            shared_options = {name: value for name, value in options.items() if name not in UNSUPPORTED}
            return finetune_vectorized([encoder], task, seeds=seeds, context=context, **shared_options)
        return [
            finetune(
                encoder,
                task,
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
    if not encoders or not seeds:
        raise must("encoders and seeds", "one or more each", (len(encoders), len(seeds)))
    if len(set(seeds)) != len(seeds) or len({encoder.digest for encoder in encoders}) != len(encoders):
        raise must("encoders and seeds", "each there once", (len(encoders), list(seeds)))
    transformer_encoders = [encoder for encoder in encoders if isinstance(encoder, TransformerEncoder)]
    if len({encoder.tokenizer.digest for encoder in transformer_encoders}) > 1:
        raise InputError("encoders of vectorized training must share one tokenizer, but these do not.")
    context, options = split_context(options)
    rate_values: list[dict[str, Any]] = [{}] if rates is None else [{"rate": rate} for rate in rates]
    requests = [
        ask(encoder, task, recipe, seed=seed, device=context.device, vectorized=True, **options, **rate)
        for encoder in encoders
        for rate in rate_values
        for seed in seeds
    ]
    dtype = requests[0].specification["precision"]
    accelerator = make_accelerator(context.device, dtype)
    shelf = Shelf(context.store, context.command)
    with ExitStack() as stack:
        works = [
            stack.enter_context(shelf.work(kind=KIND, specification=request.specification))
            for request in requests
        ]
        pending = [
            (request, work) for request, work in zip(requests, works, strict=True) if work.entry is None
        ]
        runs = [TrainingRun(request, accelerator, context, work.folder) for request, work in pending]
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
