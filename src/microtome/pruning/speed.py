"""Time, memory and parameters of a model before and after a cut, measured in turns."""

from __future__ import annotations

import copy
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encoders.cutting import keep_blocks
from ..findings.words import between
from ..lazy import torch
from ..tasks.task import Split, Task

if TYPE_CHECKING:
    from ..training.cuts import Cut
    from ..training.models.taskmodel import TaskModel
    from ..training.opening import Model

BATCHES = (1, 32)
ROUNDS = 15
BUSY = 4.0  # largest over smallest ratio beyond which nothing can be read from them
LEAST_SECONDS = 0.01  # that one timing lasts, lest the clock be measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """
    One thing that was timed.

    Parameters
    ----------
    what : str
        "whole model" or "blocks": the latter are the time from the first block's input to the last one's
        output.
    batch : int
        Examples at a time.
    full, cut : float
        Median milliseconds.
    ratio, low, high : float
        Cut over full: the median of the rounds, and their smallest and largest.
    """

    what: str
    batch: int
    full: float
    cut: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """
    What a cut saves.

    Parameters
    ----------
    device : str
    threads : int
    rounds : int
        In each, both models were timed one after the other.
    timings : tuple of Timing
    parameters : tuple of int
        Of the full and of the cut model.
    bytes : tuple of int
        That these take.
    peak : tuple of int
        Most bytes of intermediate results at a time, at the largest batch.
    tokens : tuple of int
        Length of the examples of each batch, padding counted.
    """

    device: str
    threads: int
    rounds: int
    timings: tuple[Timing, ...]
    parameters: tuple[int, int]
    bytes: tuple[int, int]
    peak: tuple[int, int]
    tokens: tuple[int, ...]

    @property
    def doubt(self) -> str:
        """A sentence where times varied too much to be read; empty otherwise."""
        unstable = [timing for timing in self.timings if timing.high > BUSY * timing.low]
        busy = [f"{timing.what}, batch {timing.batch}" for timing in unstable]
        if not busy:
            return ""
        return (
            f"times of {'; '.join(busy)} differed so much between rounds, more than {BUSY:g}-fold in their "
            "ratio, as where other work runs beside, that they tell little."
        )

    def table(self) -> list[list[str]]:
        """As rows of text: what, before, after, ratio."""
        rows = [
            [
                f"{timing.what}, batch {timing.batch}",
                f"{timing.full:.2f} ms",
                f"{timing.cut:.2f} ms",
                f"{timing.ratio:.2f} {between(timing.low, timing.high)}",
            ]
            for timing in self.timings
        ]
        for what, (full, cut), unit in (
            ("parameters", self.parameters, ""),
            ("weights", self.bytes, " bytes"),
            ("intermediate results at most", self.peak, " bytes"),
        ):
            ratio = f"{cut / full:.2f}" if full else ""
            rows.append([what, f"{full:,}{unit}", f"{cut:,}{unit}", ratio])
        return rows


def cut_model(model: TaskModel, kept: Cut) -> TaskModel:
    """
    Make a copy of a model with some of its blocks.

    Parameters
    ----------
    model : TaskModel
        Stays as it is.
    kept : tuple of int
        Blocks that stay.

    Returns
    -------
    TaskModel
        A model that the library could have built.
    """
    small = copy.deepcopy(model)
    keep_blocks(small.net, small.family, kept)
    return small.eval()


def measure_speed(model: Model, cut: TaskModel, split: Split, task: Task, *, rounds: int = ROUNDS) -> Speed:
    """
    Time a model and a smaller one on the same examples, in turns.

    Parameters
    ----------
    model : Model
        The whole model. Texts go alone in a sentence encoder, which has no head.
    cut : TaskModel
        On the same device.
    split : Split
        Whose examples are run: those nearest to the median length alone, and the first 32 together.
    task : Task
    rounds : int

    Returns
    -------
    Speed
    """
    from ..training.inputs import collate, encode

    full: TaskModel = model.task_model
    window: dict[str, Any] = {"longest": model.longest, "stride": model.stride, "mask": full.mask}
    features = encode(split.items[: 4 * max(BATCHES)], task, model.tokenizer, **window)
    middle = sorted(features, key=len)[len(features) // 2]
    batches = [collate(part, full.device) for part in ([middle], features[: max(BATCHES)])]
    timings, peaks = [], []
    with torch.inference_mode():
        for batch in batches:
            count = len(batch["input_ids"])
            calls = [_call(net, batch, bare=model.pooling is not None) for net in (full, cut)]
            timings += _timings(count, [full, cut], calls, rounds)
            on_gpu = full.device.type == "cuda"
            peaks = [peak_on_gpu(call, full.device) if on_gpu else _peak_on_cpu(call) for call in calls]
    return Speed(
        device=str(full.device),
        threads=torch.get_num_threads(),
        rounds=rounds,
        timings=tuple(timings),
        parameters=_both(full, cut, lambda tensor: tensor.numel()),
        bytes=_both(full, cut, lambda tensor: tensor.numel() * tensor.element_size()),
        peak=(peaks[0], peaks[1]),
        tokens=tuple(int(batch["input_ids"].shape[-1]) for batch in batches),
    )


def _timings(
    batch: int, models: Sequence[TaskModel], calls: Sequence[Callable[[], Any]], rounds: int
) -> list[Timing]:
    """Time two models and their blocks in turns, after a first round that warms up."""
    turns = [
        [_seconds(model, call) for model, call in zip(models, calls, strict=True)] for _ in range(rounds + 1)
    ]
    out = []
    for what, (full, cut) in zip(("whole model", "blocks"), np.array(turns[1:]).T, strict=True):
        ratios = cut / full
        out.append(
            Timing(
                what=what,
                batch=batch,
                full=1000 * float(np.median(full)),
                cut=1000 * float(np.median(cut)),
                ratio=float(np.median(ratios)),
                low=float(ratios.min()),
                high=float(ratios.max()),
            )
        )
    return out


def _call(model: TaskModel, batch: dict[str, Any], *, bare: bool) -> Callable[[], Any]:
    if bare:
        inputs = model.base_inputs(batch)
        return lambda: model.base(**inputs, **model.family.arguments)
    return lambda: model(batch)


def _both(full: TaskModel, cut: TaskModel, of: Callable[[Any], int]) -> tuple[int, int]:
    counts = [sum(of(tensor) for tensor in model.parameters()) for model in (full, cut)]
    return counts[0], counts[1]


def now(device: Any) -> float:
    """Seconds on a clock, when the work on a device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _seconds(model: TaskModel, call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of one call, and of the blocks in it, from as many calls as the clock needs."""
    blocks = model.family.blocks_of(model.base)
    # A block that runs for every layer is met several times.
    entered, entry, inside = 0, 0.0, 0.0

    def before(*_: Any) -> None:
        nonlocal entered, entry
        if entered == 0:
            entry = now(model.device)
        entered += 1

    def after(*_: Any) -> None:
        nonlocal entered, inside
        if entered == len(blocks):
            inside += now(model.device) - entry
            entered = 0

    with ExitStack() as hooks:
        for block in dict.fromkeys(blocks):
            hooks.enter_context(block.register_forward_pre_hook(before))
        hooks.enter_context(blocks[-1].register_forward_hook(after))
        calls, start = 0, now(model.device)
        while inside < LEAST_SECONDS:
            call()
            calls += 1
        spent = now(model.device) - start
    return spent / calls, inside / calls


def peak_on_gpu(call: Callable[[], Any], device: Any) -> int:
    """Most bytes of a GPU that a call holds at a time, beside those that were held before."""
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize(device)
    return int(torch.cuda.max_memory_allocated(device) - before)


def _peak_on_cpu(call: Callable[[], Any]) -> int:
    """Most bytes that live at a time while a model runs, its weights and inputs not counted."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    # Bytes and number of tensors of every piece of memory, by its address.
    live: dict[int, list[int]] = {}
    held, most = 0, 0

    def gone(place: int) -> None:
        nonlocal held
        live[place][1] -= 1
        if live[place][1] == 0:
            held -= live.pop(place)[0]

    def tensors(values: Any) -> dict[int, list[Any]]:
        by_place: dict[int, list[Any]] = {}
        for value in tree_leaves(values):
            if isinstance(value, torch.Tensor):
                by_place.setdefault(value.untyped_storage().data_ptr(), []).append(value)
        return by_place

    class Counting(TorchDispatchMode):
        """Count the memory behind what operations give, for as long as anybody holds it."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal held, most
            inputs = set(tensors((args, kwargs))) - set(live)
            outputs = func(*args, **(kwargs or {}))
            for place, views in tensors(outputs).items():
                if place in inputs:  # views of a weight or of an input
                    continue
                if place not in live:
                    live[place] = [views[0].untyped_storage().nbytes(), 0]
                    held += live[place][0]
                live[place][1] += len(views)
                for tensor in views:
                    weakref.finalize(tensor, gone, place)
            most = max(most, held)
            return outputs

    with Counting():
        call()
    return most
