"""Training loop, in which each update depends only on its number and the seed."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...context import SILENT, Context
from ...lazy import torch
from ...runtime import ahead, moved_to
from ..models.taskmodel import TaskModel, counted
from ..precision import training_kernels
from ..recipe import Recipe
from .cuda_graphs import TrainingStep, computed_once, obstacle
from .mixed_precision import training_loss
from .progress import LOG, Log, Stopping, read_state, write_state
from .updates import example_batches, make_optimizer, seed_dropout, set_rate

# Intervals at which the loss is logged (in updates) and the state of a training is saved (in seconds).
LOG_UPDATES = 10
STATE_SECONDS = 60.0

Write = Callable[[Path, int, "Mapping[str, torch.Tensor]"], None]
# Takes the batches of the parts of an update and the examples in them, and returns the losses.
Update = Callable[[list[Any], list[np.ndarray]], "list[torch.Tensor]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCourse:
    """
    Course of a training.

    Parameters
    ----------
    updates : int
        Number of updates made.
    planned : int
    seconds : float
        Of this process; a resumed run counts from its resumption.
    resumed : int
        The update from which it was resumed.
    losses : tuple of (int, float)
        Mean loss since the previous line of the log, at some updates.
    diverged : str, optional
        Description of the failure, where the loss became non-finite.
    launches : str, optional
        How kernels were launched on a GPU: as CUDA graphs, or one at a time and why.
    """

    updates: int
    planned: int
    seconds: float
    resumed: int
    losses: tuple[tuple[int, float], ...]
    diverged: str | None = None
    launches: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecords:
    """
    What a training leaves behind: state, log and checkpoints.

    Parameters
    ----------
    folder : Path, optional
        Folder of the state and the log; an interrupted training in it is resumed.
    save : callable, optional
        Called after each update in `save_at`, with the number of updates done; returns the current score, if
        there is one.
    save_at : frozenset of int
    context : Context
        To which the number of updates done and their total are reported.
    label : str
    state_seconds : float
        Interval between saved states. A signal to stop (Ctrl-C, SIGTERM, SIGHUP) takes effect after the
        current update, once the state is saved.
    log_updates : int
        Interval between lines of the log, in updates.
    board : path, optional
        Folder for TensorBoard.
    """

    folder: Path | None = None
    save: Callable[[int], float | None] | None = None
    save_at: frozenset[int] = frozenset()
    context: Context = SILENT
    label: str = "training"
    state_seconds: float = STATE_SECONDS
    log_updates: int = LOG_UPDATES
    board: str | os.PathLike[str] | None = None


def run_updates(
    step: Callable[[int], Sequence[torch.Tensor]],
    planned: int,
    records: TrainingRecords,
    *,
    summarize: Callable[[Any, int, int], Mapping[str, float]] = lambda *_: {},
    done: int = 0,
    sums: Mapping[str, torch.Tensor] | None = None,
    write: Write | None = None,
    defer: bool = True,
) -> TrainingCourse:
    """
    Make updates in order, and keep the log, the checkpoints and the state of the training.

    Parameters
    ----------
    step : callable
        Makes the update of a number, counted from 0, and returns the losses of its parts.
    planned : int
    records : TrainingRecords
    summarize : callable
        `summarize(sum, count, update)` turns the sum of the losses of some updates into a line of the log,
        with "loss" among its values. The training stops if one of them is not finite.
    done : int
        Number of updates that were made before an interruption.
    sums : mapping of str to Tensor, optional
        The sum and the count of the losses that were not logged by then.
    write : callable, optional
        `write(folder, done, sums)` saves the state.
    defer : bool
        Whether signals to stop take effect between two updates.

    Returns
    -------
    TrainingCourse
    """
    sums, resumed, start = sums or {}, done, time.monotonic()
    log = Log(None if records.folder is None else records.folder / LOG, done, records.board)
    losses = [(line["update"], line["loss"]) for line in log.lines if line.get("loss") is not None]
    loss_sum, loss_count = sums.get("sum"), int(sums.get("count", 0))
    saved_at, diverged, score = start, None, None
    with Stopping(defer) as stopping:
        for update in range(done, planned):
            for loss in step(update):
                loss_sum = loss.clone() if loss_sum is None else loss_sum.to(loss.device) + loss
            loss_count += 1
            done = update + 1
            last = done == planned
            if done % records.log_updates == 0 or last:
                line = summarize(loss_sum, loss_count, update)
                loss_sum, loss_count = None, 0
                if line:
                    losses.append((done, line["loss"]))
                    log.add(update=done, **line, seconds=round(time.monotonic() - start, 3))
                if not all(math.isfinite(value) for value in line.values()):
                    diverged = f"the loss was no number at update {done} of {planned}"
                    break
            records.context.report(_label(records.label, losses, score), done, planned)
            if records.save is not None and done in records.save_at:
                score = records.save(done)
                if score is not None:
                    log.add(update=done, score=score)
            # The last state too: what follows the training can be interrupted as well.
            due = last or stopping.asked or time.monotonic() - saved_at >= records.state_seconds
            if records.folder is not None and write is not None and due:
                since = {} if loss_sum is None else {"sum": loss_sum, "count": torch.tensor(loss_count)}
                write(records.folder, done, since)
                saved_at = time.monotonic()
            if stopping.asked:
                log.close()
                break
    log.close()
    return TrainingCourse(
        updates=done,
        planned=planned,
        seconds=time.monotonic() - start,
        resumed=resumed,
        losses=tuple(losses),
        diverged=diverged,
    )


def _label(name: str, losses: list[tuple[int, float]], score: float | None) -> str:
    parts = [f"loss {losses[-1][1]:.3f}"] if losses else []
    parts += [f"score {score:.3f}"] if score is not None else []
    return ", ".join([name, *parts])


def train(
    model: TaskModel,
    features: Sequence[Any],
    collate: Callable[[Sequence[Any]], dict[str, Any]],
    recipe: Recipe,
    *,
    seed: int,
    accelerator: Any,
    records: TrainingRecords | None = None,
    dtype: str = "float32",
    cached: bool = False,
) -> TrainingCourse:
    """
    Train a model.

    The same model, features, recipe, seed and device give the same weights, even after an interruption.

    Parameters
    ----------
    model : TaskModel
        Changed in place.
    features : sequence
        Encoded examples, each with a length.
    collate : callable
        Collates examples into a batch, of host memory.
    recipe : Recipe
    seed : int
        Of the order and of dropout.
    accelerator : accelerate.Accelerator
        Manages devices and mixed precision.
    records : TrainingRecords, optional
        Where state, log and checkpoints go.
    dtype : {"float32", "tf32", "bfloat16", "float16"}
        Of matrix products; that of the accelerator.
    cached : bool
        Whether batches contain the states of frozen blocks.

    Returns
    -------
    TrainingCourse
    """
    records, device = records or TrainingRecords(), accelerator.device
    planned, optimizer = recipe.updates(len(features)), make_optimizer(dict(model.named_parameters()), recipe)
    done, sums = read_state(records.folder, model, optimizer)
    # Of several processes, all restore the state, and only the first one writes.
    accelerator.wait_for_everyone()
    reason = obstacle(model, accelerator, recipe.accumulate, cached=cached)
    graphs = None
    if reason is None:
        graphs = TrainingStep(
            lambda batch: training_loss(model, batch, half=dtype == "bfloat16"),
            [weight for weight in model.parameters() if weight.requires_grad],
            clip=recipe.clip,
            update=optimizer.step,
            capture=True,
        )
    make_update = (
        _prepared_update(model, optimizer, recipe, accelerator) if graphs is None else _graph_update(graphs)
    )
    _restore_scale(accelerator.scaler, sums)
    model.train()
    kernel_context = training_kernels(device, tf32=dtype == "tf32")
    lengths = [len(feature) for feature in features]
    order = example_batches(lengths, batch=recipe.batch, seed=seed, bucket=recipe.bucket, start=done)

    def collated() -> Generator[tuple[list[Any], list[np.ndarray]]]:
        for _ in range(done, planned):
            examples = next(order)
            parts = _parts(examples, recipe.accumulate, accelerator)
            yield (
                [
                    collate([features[index] for index in (part if len(part) else examples[:1])])
                    for part in parts
                ],
                parts,
            )

    def step(update: int) -> list[torch.Tensor]:
        batches, parts = next(upcoming)
        set_rate(optimizer, recipe, update, planned)
        seed_dropout(seed, update)
        moved = [{name: moved_to(value, device) for name, value in batch.items()} for batch in batches]
        with kernel_context():
            return make_update(moved, parts)

    def summarize(loss_sum: torch.Tensor, count: int, update: int) -> dict[str, float]:
        mean = float(accelerator.reduce(loss_sum, reduction="mean")) / count
        return {"loss": mean, "rate": recipe.rate * recipe.factor(update, planned)}

    def save(update: int, evaluate: Any = records.save) -> float | None:
        model.eval()
        score = evaluate(update)
        model.train()
        return score

    def write(folder: Path, done: int, sums: Mapping[str, torch.Tensor]) -> None:
        write_state(folder, model, optimizer, done, {**sums, **_scale(accelerator.scaler)})

    if not accelerator.is_main_process:
        records = replace(records, folder=None, save=None, board=None)
    # A GPU works on an update while the batch of the next one is collated.
    upcoming = ahead(collated()) if device.type == "cuda" else collated()
    with contextlib.closing(upcoming), computed_once(model) if graphs else contextlib.nullcontext():
        course = run_updates(
            step,
            planned,
            records if records.save is None else replace(records, save=save),
            summarize=summarize,
            done=done,
            sums=sums,
            write=write,
            # Several processes must stop together, but each would stop at its own update.
            defer=accelerator.num_processes == 1,
        )
    model.eval()
    if device.type == "cpu":
        return course
    reason = reason if graphs is None else graphs.failure
    return replace(course, launches=f"one kernel at a time: {reason}" if reason else "as CUDA graphs")


def _graph_update(graphs: TrainingStep) -> Update:
    return lambda batches, _: [graphs(batches[0])]


def _prepared_update(
    model: TaskModel, optimizer: torch.optim.Optimizer, recipe: Recipe, accelerator: Any
) -> Update:
    """Make the function that updates a model whose devices and precision the accelerator manages."""
    prepared, prepared_optimizer = accelerator.prepare(model, optimizer)

    def make_update(batches: list[Any], parts: list[np.ndarray]) -> list[torch.Tensor]:
        losses = []
        for batch, share in zip(batches, _shares(model, batches, parts, accelerator), strict=True):
            with accelerator.autocast():
                loss = model.loss(prepared(batch), batch)
            loss = loss if share is None else loss * share
            accelerator.backward(loss)
            losses.append(loss.detach())
        if recipe.clip is not None:
            accelerator.clip_grad_norm_(prepared.parameters(), recipe.clip)
        prepared_optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return losses

    return make_update


def _scale(scaler: Any) -> dict[str, Any]:
    """State of the gradient scaler of half precision."""
    if scaler is None:
        return {}
    state = scaler.state_dict()
    return {"scale": torch.tensor(state["scale"]), "growth": torch.tensor(state["_growth_tracker"])}


def _restore_scale(scaler: Any, saved: Mapping[str, Any]) -> None:
    if scaler is not None and "scale" in saved:
        state = {"scale": float(saved["scale"]), "_growth_tracker": int(saved["growth"])}
        scaler.load_state_dict({**scaler.state_dict(), **state})


def _parts(examples: np.ndarray, accumulate: int, accelerator: Any) -> list[np.ndarray]:
    """
    Split the examples of an update into the parts that this process runs.

    All processes run equally many parts, since they synchronize after each part; a process that has no
    examples left runs the first example again, with weight 0.
    """
    count = accelerator.num_processes
    local = examples[accelerator.process_index :: count]
    parts = min(accumulate, -(-len(examples) // count))
    return [local[i::parts] for i in range(parts)]


def _shares(model: Any, batches: list[Any], parts: list[np.ndarray], accelerator: Any) -> list[Any]:
    """Weight the parts by their number of targets, such that together they equal one large batch."""
    if len(batches) == 1 and accelerator.num_processes == 1:
        return [None]
    counts = [
        counted(batch, causal=model.family.causal) * (len(part) > 0)
        for batch, part in zip(batches, parts, strict=True)
    ]
    total = accelerator.reduce(torch.stack(counts).sum(), reduction="sum").clamp(min=1)
    # Gradients of several processes are averaged, not added.
    return [count * accelerator.num_processes / total for count in counts]
