"""Training loop, in which each update depends only on its number and the seed."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...context import Progress
from ...errors import must
from ...lazy import torch
from ...randomness import generator
from ..heads.losses import counted
from ..recipe import Recipe
from .cuda_graphs import CudaGraphs, can_capture
from .optimizer import make_optimizer, set_rate
from .progress import LOG, Log, read_state, write_state
from .sampler import updates as in_updates
from .stopping import Stopping

DTYPES = ("float32", "tf32", "bfloat16", "float16")
# Intervals at which the loss is logged (in updates) and the state of a training is saved (in seconds).
LOG_UPDATES = 10
STATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCourse:
    """
    TrainingCourse of a training.

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
        Called after each update in `save_at`, with the number of updates done; returns the current score.
    save_at : frozenset of int
    progress : callable, optional
        Called with a label, the number of updates done and their total.
    state_seconds : float
        Interval between saved states. A signal to stop (Ctrl-C, SIGTERM, SIGHUP) takes effect after the
        current update, once the state is saved.
    board : path, optional
        Folder for TensorBoard.
    """

    folder: Path | None = None
    save: Callable[[int], float] | None = None
    save_at: frozenset[int] = frozenset()
    progress: Progress | None = None
    state_seconds: float = STATE_SECONDS
    board: str | os.PathLike[str] | None = None


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
    Dropout is drawn from the seed and the number of the update, so no random state has to be saved.

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
    planned = recipe.updates(len(features))
    optimizer = make_optimizer(model, recipe)
    done, extra_state = (0, {}) if records.folder is None else read_state(records.folder, model, optimizer)
    # Of several processes, all restore the state, and only the first one writes.
    accelerator.wait_for_everyone()
    state_folder = records.folder if accelerator.is_main_process else None
    board_folder = records.board if accelerator.is_main_process else None
    log = Log(None if state_folder is None else state_folder / LOG, done, board_folder)
    resumed, start, saved_at = done, time.monotonic(), time.monotonic()
    prepared, prepared_optimizer = accelerator.prepare(model, optimizer)
    prepared.train()
    kernel_context = kernels(accelerator.device, tf32)
    order = in_updates(
        [len(feature) for feature in features],
        batch=recipe.batch,
        seed=seed,
        bucket=recipe.bucket,
        start=done,
    )
    losses = [(line["update"], line["loss"]) for line in log.lines if line.get("loss") is not None]
    loss_sum = extra_state.get("sum", torch.zeros(())).to(accelerator.device)
    loss_count = int(extra_state.get("count", 0))
    _restore_scale(accelerator.scaler, extra_state)
    diverged, score = None, None

    def wrong(batch: Any) -> Any:
        with accelerator.autocast():
            return model.loss(prepared(batch), batch)  # pyright: ignore[reportCallIssue]

    graphs = None
    if cuda_graphs and can_capture(model, accelerator, recipe.accumulate):
        learning = [weight for weight in model.parameters() if weight.requires_grad]
        graphs = CudaGraphs(wrong, learning, recipe.clip, optimizer.step)
    # Several processes must stop together, but each would stop at its own update.
    with Stopping(accelerator.num_processes == 1) as stopping:
        for update in range(done, planned):
            examples = next(order)
            rate = set_rate(optimizer, recipe, update, planned)
            torch.manual_seed(int(generator(seed, "dropout", update).integers(2**62)))
            batches = _parts(examples, recipe.accumulate, accelerator)
            ready = [
                collate([features[index] for index in (part if len(part) else examples[:1])])
                for part in batches
            ]
            if graphs is not None:
                with kernel_context():
                    loss_sum += graphs(ready[0])
            else:
                for batch, share in zip(ready, _shares(model, ready, batches, accelerator), strict=True):
                    with kernel_context():
                        loss = wrong(batch) if share is None else wrong(batch) * share
                        accelerator.backward(loss)
                    loss_sum += loss.detach()
                if recipe.clip is not None:
                    accelerator.clip_grad_norm_(prepared.parameters(), recipe.clip)
                prepared_optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            loss_count += 1
            done = update + 1
            last = done == planned
            if done % LOG_UPDATES == 0 or last:
                mean = float(accelerator.reduce(loss_sum, reduction="mean")) / loss_count
                loss_sum.zero_()
                loss_count = 0
                losses.append((done, mean))
                log.add(update=done, loss=mean, rate=rate, seconds=round(time.monotonic() - start, 3))
                if not math.isfinite(mean):
                    diverged = f"the loss was no number at update {done} of {planned}"
                    break
            if records.progress is not None:
                records.progress(_label(losses, score), done, planned)
            if records.save is not None and done in records.save_at and accelerator.is_main_process:
                prepared.eval()
                score = records.save(done)
                log.add(update=done, score=score)
                prepared.train()
            # The last state too: what follows the training can be interrupted as well.
            due = last or stopping.asked or time.monotonic() - saved_at >= records.state_seconds
            if state_folder is not None and due:
                extra_state = {
                    "sum": loss_sum,
                    "count": torch.tensor(loss_count),
                    **_scale(accelerator.scaler),
                }
                write_state(state_folder, model, optimizer, done, extra_state)
                saved_at = time.monotonic()
            if stopping.asked:
                log.close()
                break
    prepared.eval()
    log.close()
    return TrainingCourse(
        updates=done,
        planned=planned,
        seconds=time.monotonic() - start,
        resumed=resumed,
        losses=tuple(losses),
        diverged=diverged,
    )


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


def _shares(model: Any, ready: list[Any], parts: list[np.ndarray], accelerator: Any) -> list[Any]:
    """Weight the parts by their number of targets, such that together they equal one large batch."""
    if len(ready) == 1 and accelerator.num_processes == 1:
        return [None]
    counts = [
        counted(batch, causal=model.family.causal) * (len(part) > 0)
        for batch, part in zip(ready, parts, strict=True)
    ]
    total = accelerator.reduce(torch.stack(counts).sum(), reduction="sum").clamp(min=1)
    # Gradients of several processes are averaged, not added.
    return [count * accelerator.num_processes / total for count in counts]


def _label(losses: list[tuple[int, float]], score: float | None) -> str:
    parts = [f"loss {losses[-1][1]:.3f}"] if losses else []
    parts += [f"score {score:.3f}"] if score is not None else []
    return ", ".join(["training", *parts])


def kernels(device: torch.device, tf32: bool) -> Callable[[], Any]:
    """
    Choose attention kernels with deterministic gradients, which not all kernels on a GPU have.

    Parameters
    ----------
    device : torch.device
    tf32 : bool
        Whether matrix products on a GPU use TF32.

    Returns
    -------
    callable
        Returns a context in which they are used.
    """
    if device.type == "cpu":
        return contextlib.nullcontext
    from torch.nn.attention import SDPBackend, sdpa_kernel

    @contextlib.contextmanager
    def deterministic() -> Iterator[None]:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = tf32
        try:
            with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
                yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return deterministic


def check_dtype(device: str, dtype: str) -> None:
    """Check that a device and a dtype support training."""
    if device not in ("cpu", "cuda"):
        raise must(
            "device", "'cpu' or 'cuda' for training (CUDA_VISIBLE_DEVICES chooses among several)", device
        )
    if dtype not in DTYPES:
        raise must("dtype", f"one of {', '.join(DTYPES)}", dtype)
    if dtype == "tf32" and device == "cpu":
        raise must("dtype", "float32, bfloat16 or float16 on a CPU", dtype)


def make_accelerator(device: str, dtype: str) -> Any:
    """
    Make the accelerator, which manages the devices.

    Parameters
    ----------
    device : str
        "cpu" or "cuda".
    dtype : {"float32", "tf32", "bfloat16", "float16"}
        Of matrix products; weights are always float32. "tf32" rounds the factors, and needs a GPU.

    Returns
    -------
    accelerate.Accelerator
    """
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    check_dtype(device, dtype)
    mixed = {"bfloat16": "bf16", "float16": "fp16"}.get(dtype, "no")
    if device != "cpu":
        # Bit-identical results: kernels that add in a nondeterministic order are excluded.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        # Nothing here reads uninitialized memory, and filling it would take one kernel per tensor.
        settings: Any = torch.utils.deterministic
        settings.fill_uninitialized_memory = False
    # The accelerator's state is global and cannot be changed, so it is reset for each training, except among
    # several processes, which were set up together.
    AcceleratorState._reset_state(reset_partial_state=int(os.environ.get("WORLD_SIZE", "1")) == 1)
    return Accelerator(cpu=device == "cpu", mixed_precision=mixed)
