"""What does freezing save? Time and memory of one update, measured on a fixed batch in turns."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...interventions.applying import apply
from ...interventions.freeze import Freeze, frozen_names
from ...store.shelf import Shelf
from ...tasks.task import Task
from ...training.recipe import Recipe
from ...training.request import ask

if TYPE_CHECKING:
    import os

    from ...training.taskmodel import TaskModel

KIND, FILE = "cost", "cost.json"


def freezing_costs(
    encoder: Any,
    task: Task,
    cases: Mapping[str, Freeze | None],
    *,
    recipe: str | Recipe,
    repeats: int = 5,
    device: str = "cpu",
    dtype: str = "float32",
    store: str | os.PathLike[str] | None = None,
    command: str = "",
    **values: Any,
) -> list[dict[str, Any]]:
    """
    Measure what an update costs with some weights frozen, or read what was measured before.

    One model goes forward and back on one batch in every case, in turns, so that whatever slows the machine
    down slows all of them; ratios are to the case without an intervention in the same turn.

    Parameters
    ----------
    encoder : TransformerEncoder
    task : Task
        The longest examples of its training split's beginning make the batch.
    cases : mapping of str to Freeze or None
        One of them None: nothing frozen.
    recipe, device, dtype, store, command
        As in `finetune`.
    repeats : int
        Turns that count, after one that does not.
    **values
        Of `finetune`; the method among them decides what learns.

    Returns
    -------
    list of dict
        For each case: `learning` (numbers that learn), `forward_seconds` and `backward_seconds` (medians),
        `memory_bytes` (CPU: of all activations kept for the way back; CUDA: the most that is allocated
        beyond the model), `optimizer_bytes` (gradients and Adam's averages), and `backward_ratio`,
        `update_ratio`, `memory_ratio` to nothing frozen, times as medians over turns with
        `backward_low` and `backward_high`, the smallest and the largest.
    """
    asked = ask(encoder, task, recipe, device=device, dtype=dtype, **values)
    told = {"cases": {name: repr(case) for name, case in cases.items()}, "repeats": repeats}
    specification = {"version": 2, "run": dict(asked.specification), **told}
    with Shelf(store).work(kind=KIND, specification=specification, command=command) as work:
        entry = work.entry
        if entry is None:
            method = str(values.get("method", "full"))
            found = _measure(asked, cases, repeats, device, dtype, method)
            (work.folder / FILE).write_text(json.dumps(found))
            entry = work.finish({"model": encoder.name, "task": task.name})
    return json.loads((Path(entry.folder) / FILE).read_text())


def _measure(
    asked: Any,
    cases: Mapping[str, Freeze | None],
    repeats: int,
    device: str,
    dtype: str,
    method: Any,
) -> list[dict[str, Any]]:
    from ...training.inputs import collate, encode
    from ...training.loop import make_accelerator
    from ...training.methods import trainable
    from ...training.modeling import build

    plain = apply(asked.encoder)
    frozen = {name: _names(plain, case) for name, case in cases.items()}
    accelerator = make_accelerator(device, dtype)
    whole = build(asked.encoder, asked.task, asked.head, seed=asked.seeds.init).to(accelerator.device)
    some = asked.data.items[: 8 * asked.recipe.batch]
    features = encode(
        some, asked.task, asked.encoder.tokenizer, longest=asked.longest, stride=asked.stride, mask=whole.mask
    )
    chosen = sorted(features, key=lambda feature: -len(feature))[: asked.recipe.batch]
    batch = collate(chosen, accelerator.device)
    learning, memory = {}, {}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    whole.train()
    for turn in range(repeats + 1):
        for name in cases:
            # Adapters stay where they are put, and depend on what is frozen: each case begins without them.
            model = copy.deepcopy(whole) if method == "lora" else whole
            found = trainable(model, method, frozen=frozen[name])
            if not turn or model is not whole:
                _times(model, batch, accelerator)  # the first one also makes what the others find
            model.zero_grad(set_to_none=True)
            if not turn:
                learning[name] = found.learning
                memory[name] = _memory(model, batch, accelerator)
                continue
            times[name].append(_times(model, batch, accelerator))
    free = next(name for name, case in cases.items() if case is None)
    return [_told(name, learning[name], memory, times, free) for name in cases]


def _names(copy: Any, case: Freeze | None) -> frozenset[str]:
    """Which weights a case freezes, found on a copy that serves all of them."""
    for parameter in copy.base.parameters():
        parameter.requires_grad_(True)
    if case is not None:
        case.edit(copy)
    return frozen_names(copy)


def _times(model: TaskModel, batch: Any, accelerator: Any) -> tuple[float, float]:
    """Seconds of the way forward and of the way back."""
    start = _now(accelerator.device)
    with accelerator.autocast():
        loss = model.loss(model(batch), batch)
    there = _now(accelerator.device)
    loss.backward()
    return there - start, _now(accelerator.device) - there


def _now(device: Any) -> float:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _memory(model: TaskModel, batch: Any, accelerator: Any) -> int:
    """Bytes that an update needs beside the weights and what the optimizer keeps."""
    import torch

    device = accelerator.device
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        _times(model, batch, accelerator)
        return int(torch.cuda.max_memory_allocated(device) - before)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    # Kept alive: a freed tensor's place would be given to another one, which would not count.
    kept: dict[int, Any] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), accelerator.autocast():
        model.loss(model(batch), batch)
    return sum(storage.nbytes() for storage in kept.values())


def _told(
    name: str,
    learning: int,
    memory: Mapping[str, int],
    times: Mapping[str, Sequence[tuple[float, float]]],
    free: str,
) -> dict[str, Any]:
    mine, theirs = np.array(times[name]), np.array(times[free])
    back, whole = mine[:, 1] / theirs[:, 1], mine.sum(axis=1) / theirs.sum(axis=1)
    return {
        "case": name,
        "learning": learning,
        "forward_seconds": float(np.median(mine[:, 0])),
        "backward_seconds": float(np.median(mine[:, 1])),
        "memory_bytes": memory[name],
        # A gradient and two averages of four bytes each.
        "optimizer_bytes": 12 * learning,
        "backward_ratio": float(np.median(back)),
        "backward_low": float(back.min()),
        "backward_high": float(back.max()),
        "update_ratio": float(np.median(whole)),
        "memory_ratio": memory[name] / max(1, memory[free]),
    }
