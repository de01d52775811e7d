"""How is a model trained? One loop: an update at a time, each decided by its number and the seed alone."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import must
from ..randomness import generator
from .losses import counted
from .optimizer import make_optimizer, set_rate
from .order import updates as in_updates
from .progress import LOG, Log, read_state, write_state
from .recipe import Recipe
from .replay import Replay, can_replay
from .stopping import Stopping

if TYPE_CHECKING:
    import torch

PRECISIONS = ("float32", "tf32", "bfloat16", "float16")
# How often the loss is written down and the state of a long training kept, in updates and in seconds.
LOG_UPDATES = 10
STATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """
    How a training went.

    Parameters
    ----------
    updates : int
        How many were made.
    planned : int
    seconds : float
        Of this process; a resumed run counts from its resumption.
    resumed : int
        The update it went on from.
    losses : tuple of (int, float)
        Mean loss since the line before, at some updates.
    diverged : str, optional
        What went wrong, where the loss stopped being a number.
    """

    updates: int
    planned: int
    seconds: float
    resumed: int
    losses: tuple[tuple[int, float], ...]
    diverged: str | None = None


def train(
    model: torch.nn.Module,
    features: Sequence[Any],
    collate: Callable[[Sequence[Any]], dict[str, Any]],
    recipe: Recipe,
    *,
    seed: int,
    accelerator: Any,
    folder: Path | None = None,
    kept: Callable[[int], float] | None = None,
    keep_at: frozenset[int] = frozenset(),
    progress: Callable[[str, int, int], None] | None = None,
    state_seconds: float = STATE_SECONDS,
    board: str | os.PathLike[str] | None = None,
    replay: bool = False,
    rounded: bool = False,
) -> Course:
    """
    Train a model.

    Same model, features, recipe, seed and device: same weights, also after an interruption. Dropout is
    drawn from the seed and the number of the update, so nothing about chance has to be remembered.

    Parameters
    ----------
    model : Module
        With `loss(outputs, batch)`; changed in place.
    features : sequence
        Examples ready for the model, with a length each.
    collate : callable
        Puts examples into a batch on the model's device.
    recipe : Recipe
    seed : int
        Of the order and of dropout.
    accelerator : accelerate.Accelerator
        Owns devices and mixed precision.
    folder : Path, optional
        Where the state and the log are kept; an interrupted training in it is taken up.
    kept : callable, optional
        Called after each update of `keep_at`, with the number of updates done; says the score so far.
    keep_at : frozenset of int
    progress : callable, optional
        Called with what is done, how much of it, and of how much.
    state_seconds : float
        How often the state is kept. An interrupt (Ctrl-C) is heard after the update that runs, and the state
        is kept before it takes effect.
    board : path, optional
        Where TensorBoard looks.
    replay : bool
        Whether updates may be recorded and played again, where that is possible: batches must hold all that
        the model is given.
    rounded : bool
        Whether products on a GPU round what is multiplied (TF32).

    Returns
    -------
    Course
    """
    import torch

    planned = recipe.updates(len(features))
    optimizer = make_optimizer(model, recipe)
    done, adding = (0, {}) if folder is None else read_state(folder, model, optimizer)
    # Of several processes, all take a state up, and the first one writes.
    accelerator.wait_for_everyone()
    writing = folder if accelerator.is_main_process else None
    shown = board if accelerator.is_main_process else None
    log = Log(None if writing is None else writing / LOG, done, shown)
    resumed, start, saved = done, time.monotonic(), time.monotonic()
    prepared, stepping = accelerator.prepare(model, optimizer)
    prepared.train()
    attending = kernels(accelerator.device, rounded)
    order = in_updates(
        [len(feature) for feature in features],
        batch=recipe.batch,
        seed=seed,
        bucket=recipe.bucket,
        start=done,
    )
    losses = [(line["update"], line["loss"]) for line in log.lines if line.get("loss") is not None]
    recent = adding.get("sum", torch.zeros(())).to(accelerator.device)
    since = int(adding.get("count", 0))
    _restore_scale(accelerator.scaler, adding)
    diverged, score = None, None

    def wrong(batch: Any) -> Any:
        with accelerator.autocast():
            return model.loss(prepared(batch), batch)  # pyright: ignore[reportCallIssue]

    recorded = None
    if replay and can_replay(model, accelerator, recipe.accumulate):
        learning = [one for one in model.parameters() if one.requires_grad]
        recorded = Replay(wrong, learning, recipe.clip, optimizer.step)
    # Several processes must stop together, and each would stop where it is.
    with Stopping(accelerator.num_processes == 1) as stopping:
        for update in range(done, planned):
            chosen = next(order)
            rate = set_rate(optimizer, recipe, update, planned)
            torch.manual_seed(int(generator(seed, "dropout", update).integers(2**62)))
            batches = _parts(chosen, recipe.accumulate, accelerator)
            ready = [
                collate([features[place] for place in (part if len(part) else chosen[:1])])
                for part in batches
            ]
            if recorded is not None:
                with attending():
                    recent += recorded(ready[0])
            else:
                for batch, share in zip(ready, _shares(model, ready, batches, accelerator), strict=True):
                    with attending():
                        loss = wrong(batch) if share is None else wrong(batch) * share
                        accelerator.backward(loss)
                    recent += loss.detach()
                if recipe.clip is not None:
                    accelerator.clip_grad_norm_(prepared.parameters(), recipe.clip)
                stepping.step()
                optimizer.zero_grad(set_to_none=True)
            since += 1
            done = update + 1
            last = done == planned
            if done % LOG_UPDATES == 0 or last:
                mean = float(accelerator.reduce(recent, reduction="mean")) / since
                recent.zero_()
                since = 0
                losses.append((done, mean))
                log.add(update=done, loss=mean, rate=rate, seconds=round(time.monotonic() - start, 3))
                if not math.isfinite(mean):
                    diverged = f"the loss was no number at update {done} of {planned}"
                    break
            if progress is not None:
                progress(_label(losses, score), done, planned)
            if kept is not None and done in keep_at and accelerator.is_main_process:
                prepared.eval()
                score = kept(done)
                log.add(update=done, score=score)
                prepared.train()
            # The last state too: whatever follows the training can be interrupted as well.
            due = last or stopping.asked or time.monotonic() - saved >= state_seconds
            if writing is not None and due:
                adding = {"sum": recent, "count": torch.tensor(since), **_scale(accelerator.scaler)}
                write_state(writing, model, optimizer, done, adding)
                saved = time.monotonic()
            if stopping.asked:
                log.close()
                break
    prepared.eval()
    log.close()
    return Course(
        updates=done,
        planned=planned,
        seconds=time.monotonic() - start,
        resumed=resumed,
        losses=tuple(losses),
        diverged=diverged,
    )


def _scale(scaler: Any) -> dict[str, Any]:
    """What half precision has learned of the size of gradients."""
    import torch

    if scaler is None:
        return {}
    told = scaler.state_dict()
    return {"scale": torch.tensor(told["scale"]), "growth": torch.tensor(told["_growth_tracker"])}


def _restore_scale(scaler: Any, kept: Mapping[str, Any]) -> None:
    if scaler is not None and "scale" in kept:
        told = {"scale": float(kept["scale"]), "_growth_tracker": int(kept["growth"])}
        scaler.load_state_dict({**scaler.state_dict(), **told})


def _parts(chosen: np.ndarray, accumulate: int, accelerator: Any) -> list[np.ndarray]:
    """
    Cut the examples of an update into those that this process runs together.

    All processes run equally many parts, since each waits for the others after each of them; one that has
    nothing left runs the first example again, which then counts for nothing.
    """
    count = accelerator.num_processes
    mine = chosen[accelerator.process_index :: count]
    parts = min(accumulate, -(-len(chosen) // count))
    return [mine[i::parts] for i in range(parts)]


def _shares(model: Any, ready: list[Any], parts: list[np.ndarray], accelerator: Any) -> list[Any]:
    """Weigh parts by how much each has to learn from, such that together they are one large batch."""
    if len(ready) == 1 and accelerator.num_processes == 1:
        return [None]
    import torch

    found = [
        counted(batch, causal=model.family.causal) * (len(part) > 0)
        for batch, part in zip(ready, parts, strict=True)
    ]
    total = accelerator.reduce(torch.stack(found).sum(), reduction="sum").clamp(min=1)
    # Gradients of several processes are averaged, not added.
    return [one * accelerator.num_processes / total for one in found]


def _label(losses: list[tuple[int, float]], score: float | None) -> str:
    parts = [f"loss {losses[-1][1]:.3f}"] if losses else []
    parts += [f"score {score:.3f}"] if score is not None else []
    return ", ".join(["training", *parts])


def kernels(device: torch.device, rounded: bool) -> Callable[[], Any]:
    """
    Choose kernels: those of attention whose gradients are the same each time, as not all are on a GPU.

    Parameters
    ----------
    device : torch.device
    rounded : bool
        Whether products on a GPU round what is multiplied (TF32).

    Returns
    -------
    callable
        Makes a context in which they are used.
    """
    if device.type == "cpu":
        return contextlib.nullcontext
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    @contextlib.contextmanager
    def chosen() -> Iterator[None]:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = rounded
        try:
            with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
                yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return chosen


def make_accelerator(device: str, precision: str) -> Any:
    """
    Make what owns the devices.

    Parameters
    ----------
    device : str
        "cpu" or "cuda".
    precision : {"float32", "tf32", "bfloat16", "float16"}
        Of matrix products; weights are float32 always. "tf32" rounds what is multiplied, and needs a GPU.

    Returns
    -------
    accelerate.Accelerator
    """
    import torch
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    if device not in ("cpu", "cuda"):
        raise must(
            "device", "'cpu' or 'cuda' for training (CUDA_VISIBLE_DEVICES chooses among several)", device
        )
    if precision not in PRECISIONS:
        raise must("precision", f"one of {', '.join(PRECISIONS)}", precision)
    if precision == "tf32" and device == "cpu":
        raise must("precision", "float32, bfloat16 or float16 on a CPU", precision)
    mixed = {"bfloat16": "bf16", "float16": "fp16"}.get(precision, "no")
    if device != "cpu":
        # Same bits each time: kernels that add in the order of arrival are left out.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        # Nothing here reads memory that was not written; filling it would take a kernel for each result.
        settings: Any = torch.utils.deterministic
        settings.fill_uninitialized_memory = False
    # Its state is global and refuses a second value; each training has its own, except among several
    # processes, which were set up together.
    AcceleratorState._reset_state(reset_partial_state=int(os.environ.get("WORLD_SIZE", "1")) == 1)
    return Accelerator(cpu=device == "cpu", mixed_precision=mixed)
