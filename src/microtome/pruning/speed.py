"""Time, memory and parameters of a model before and after a cut, measured in turns."""

from __future__ import annotations

import copy
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encoders.cutting import keep_blocks
from ..findings.words import between
from ..tasks.items import Split
from ..tasks.task import Task

if TYPE_CHECKING:
    from ..training.cuts import Cut
    from ..training.models.taskmodel import TaskModel

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

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "timings": [asdict(timing) for timing in self.timings]}

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


def measure_speed(
    full: TaskModel,
    cut: TaskModel,
    split: Split,
    task: Task,
    tokenizer: Any,
    *,
    longest: int | None = None,
    stride: int | None = None,
    rounds: int = ROUNDS,
    single: bool = False,
) -> Speed:
    """
    Time two models on the same examples, in turns.

    Parameters
    ----------
    full, cut : TaskModel
        On one device.
    split : Split
        Whose examples are run: those nearest to the median length alone, and the first 32 together.
    task : Task
    tokenizer : Tokenizer
    longest, stride : int, optional
    rounds : int
    single : bool
        Whether texts go alone, as in a sentence encoder, which has no head.

    Returns
    -------
    Speed
    """
    import torch

    from ..training.inputs import collate, encode

    features = encode(
        split.items[: 4 * max(BATCHES)], task, tokenizer, longest=longest, stride=stride, mask=full.mask
    )
    lengths = [len(feature) for feature in features]
    middle = features[int(np.argsort(lengths)[len(lengths) // 2])]
    batches = [collate([middle], full.device), collate(features[: max(BATCHES)], full.device)]
    timings: list[Timing] = []
    for batch in batches:
        count = len(batch["input_ids"])
        calls = [_call(model, batch, bare=single) for model in (full, cut)]
        with torch.inference_mode():
            for what, timed in (("whole model", _seconds), ("blocks", _block_seconds)):
                spent = np.array(
                    [
                        [timed(model, call) for model, call in zip((full, cut), calls, strict=True)]
                        for _ in range(rounds + 1)
                    ]
                )[1:]  # the first round warms up
                ratios = spent[:, 1] / spent[:, 0]
                timings.append(
                    Timing(
                        what=what,
                        batch=count,
                        full=1000 * float(np.median(spent[:, 0])),
                        cut=1000 * float(np.median(spent[:, 1])),
                        ratio=float(np.median(ratios)),
                        low=float(ratios.min()),
                        high=float(ratios.max()),
                    )
                )
    with torch.inference_mode():
        peaks = tuple(_peak(_call(model, batches[-1], bare=single), model.device) for model in (full, cut))
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


def _call(model: TaskModel, batch: dict[str, Any], *, bare: bool) -> Callable[[], Any]:
    if bare:
        inputs = model.base_inputs(batch)
        return lambda: model.base(**inputs, **model.family.arguments)
    return lambda: model(batch)


def _both(full: TaskModel, cut: TaskModel, of: Callable[[Any], int]) -> tuple[int, int]:
    counts = [sum(of(tensor) for tensor in model.parameters()) for model in (full, cut)]
    return counts[0], counts[1]


def _wait(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _seconds(model: TaskModel, call: Callable[[], Any]) -> float:
    """Seconds of one call, from as many as the clock needs."""
    calls, start = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        _wait(model.device)
        spent = time.perf_counter() - start
        if spent >= LEAST_SECONDS:
            return spent / calls


def _block_seconds(model: TaskModel, call: Callable[[], Any]) -> float:
    """The same for the blocks alone."""
    blocks = model.family.blocks_of(model.base)
    total, begun, calls = 0.0, [0.0, 0], 0

    def before(*_: Any) -> None:
        # A block that runs for every layer is met several times.
        if begun[1] == 0:
            _wait(model.device)
            begun[0] = time.perf_counter()
        begun[1] += 1

    hooks = [block.register_forward_pre_hook(before) for block in dict.fromkeys(blocks)]

    def after(*_: Any) -> None:
        nonlocal total
        if begun[1] == len(blocks):
            _wait(model.device)
            total += time.perf_counter() - begun[0]
            begun[1] = 0

    hooks += [blocks[-1].register_forward_hook(after)]
    try:
        while total < LEAST_SECONDS:
            call()
            calls += 1
    finally:
        for handle in hooks:
            handle.remove()
    return total / calls


def _peak(call: Callable[[], Any], device: Any) -> int:
    """Most bytes that live at a time while a model runs, its weights and inputs not counted."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device) - before)
    return _peak_on_cpu(call)


def _peak_on_cpu(call: Callable[[], Any]) -> int:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    live: dict[int, list[int]] = {}
    held, most = 0, 0

    def gone(place: int) -> None:
        nonlocal held
        live[place][1] -= 1
        if live[place][1] == 0:
            held -= live.pop(place)[0]

    class Counting(TorchDispatchMode):
        """Count the memory behind what operations give, for as long as anybody holds it."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal held, most
            inputs = {_place(tensor) for tensor in _tensors((args, kwargs or {}))} - set(live)
            outputs = func(*args, **(kwargs or {}))
            for tensor in _tensors(outputs):
                place = _place(tensor)
                if place in inputs:  # a view of a weight or of an input
                    continue
                if place not in live:
                    live[place] = [tensor.untyped_storage().nbytes(), 0]
                    held += live[place][0]
                live[place][1] += 1
                weakref.finalize(tensor, gone, place)
            most = max(most, held)
            return outputs

    def _tensors(value: Any) -> Sequence[Any]:
        if isinstance(value, torch.Tensor):
            return [value]
        if isinstance(value, dict):
            value = tuple(value.values())
        if isinstance(value, list | tuple):
            return [tensor for part in value for tensor in _tensors(part)]
        return []

    def _place(tensor: Any) -> int:
        return tensor.untyped_storage().data_ptr()

    with Counting():
        call()
    return most
