"""Training loop, in which each update depends only on its number and the seed."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...context import SILENT, Context
from ...lazy import torch
from ...randomness import generator
from ..heads.losses import counted
from ..precision import training_kernels
from ..recipe import Recipe
from .cuda_graphs import TrainingStep, can_capture
from .optimizer import make_optimizer, set_rate
from .progress import LOG, Log, read_state, write_state
from .sampler import updates as in_updates
from .stopping import Stopping

# Intervals at which the loss is logged (in updates) and the state of a training is saved (in seconds).
LOG_UPDATES = 10
STATE_SECONDS = 60.0

Write = Callable[[Path, int, "Mapping[str, torch.Tensor]"], None]


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
    """

    updates: int
    planned: int
    seconds: float
    resumed: int
    losses: tuple[tuple[int, float], ...]
    diverged: str | None = None


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


def seed_dropout(seed: int, update: int) -> None:
    """Seed the dropout of an update, so that no random state has to be saved."""
    torch.manual_seed(int(generator(seed, "dropout", update).integers(2**62)))


def train(
    model: torch.nn.Module,
    features: Sequence[Any],
    collate: Callable[[Sequence[Any]], dict[str, Any]],
    recipe: Recipe,
    *,
    seed: int,
    accelerator: Any,
    records: TrainingRecords | None = None,
    cuda_graphs: bool = False,
    tf32: bool = False,
) -> TrainingCourse:
    """
    Train a model.

    The same model, features, recipe, seed and device give the same weights, even after an interruption.

    Parameters
    ----------
    model : Module
        With `loss(outputs, batch)`; changed in place.
    features : sequence
        Encoded examples, each with a length.
    collate : callable
        Collates examples into a batch on the model's device.
    recipe : Recipe
    seed : int
        Of the order and of dropout.
    accelerator : accelerate.Accelerator
        Manages devices and mixed precision.
    records : TrainingRecords, optional
        Where state, log and checkpoints go.
    cuda_graphs : bool
        Whether updates may run as CUDA graphs, where that is possible: batches must contain all inputs of
        the model.
    tf32 : bool
        Whether matrix products on a GPU use TF32.

    Returns
    -------
    TrainingCourse
    """
    records = records or TrainingRecords()
    planned, optimizer = recipe.updates(len(features)), make_optimizer(dict(model.named_parameters()), recipe)
    done, sums = read_state(records.folder, model, optimizer)
    # Of several processes, all restore the state, and only the first one writes.
    accelerator.wait_for_everyone()
    prepared, prepared_optimizer = accelerator.prepare(model, optimizer)
    prepared.train()
    _restore_scale(accelerator.scaler, sums)
    lengths = [len(feature) for feature in features]
    order = in_updates(lengths, batch=recipe.batch, seed=seed, bucket=recipe.bucket, start=done)
    kernel_context = training_kernels(accelerator.device, tf32)

    def loss_of(batch: Any) -> Any:
        with accelerator.autocast():
            return model.loss(prepared(batch), batch)  # pyright: ignore[reportCallIssue]

    learning = [weight for weight in model.parameters() if weight.requires_grad]
    captured = None
    if cuda_graphs and can_capture(model, accelerator, recipe.accumulate):
        captured = TrainingStep(loss_of, learning, clip=recipe.clip, update=optimizer.step, capture=True)

    def step(update: int) -> list[torch.Tensor]:
        examples = next(order)
        set_rate(optimizer, recipe, update, planned)
        seed_dropout(seed, update)
        parts = _parts(examples, recipe.accumulate, accelerator)
        batches = [
            collate([features[index] for index in (part if len(part) else examples[:1])]) for part in parts
        ]
        if captured is not None:
            with kernel_context():
                return [captured(batches[0])]
        losses = []
        for batch, share in zip(batches, _shares(model, batches, parts, accelerator), strict=True):
            with kernel_context():
                loss = loss_of(batch) if share is None else loss_of(batch) * share
                accelerator.backward(loss)
            losses.append(loss.detach())
        if recipe.clip is not None:
            accelerator.clip_grad_norm_(prepared.parameters(), recipe.clip)
        prepared_optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return losses

    def summarize(loss_sum: torch.Tensor, count: int, update: int) -> dict[str, float]:
        mean = float(accelerator.reduce(loss_sum, reduction="mean")) / count
        return {"loss": mean, "rate": recipe.rate * recipe.factor(update, planned)}

    def save(update: int, evaluate: Any = records.save) -> float | None:
        prepared.eval()
        score = evaluate(update)
        prepared.train()
        return score

    def write(folder: Path, done: int, sums: Mapping[str, torch.Tensor]) -> None:
        write_state(folder, model, optimizer, done, {**sums, **_scale(accelerator.scaler)})

    if not accelerator.is_main_process:
        records = replace(records, folder=None, save=None, board=None)
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
    prepared.eval()
    return course


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
