"""Time and memory of one update with frozen blocks, measured on a fixed batch in turns."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...context import Context
from ...interventions.applying import apply
from ...interventions.freeze import Freeze, frozen_names
from ...store.shelf import Shelf
from ...tasks.task import Task
from ...training.recipe import Recipe
from ...training.request import ask

if TYPE_CHECKING:
    from ...training.models.taskmodel import TaskModel

KIND, FILE = "cost", "cost.json"


def freezing_costs(
    encoder: Any,
    task: Task,
    cases: Mapping[str, Freeze | None],
    *,
    recipe: str | Recipe,
    context: Context,
    repeats: int = 5,
    dtype: str = "float32",
    **values: Any,
) -> list[dict[str, Any]]:
    """
    Measure time and memory of an update with frozen weights, or read earlier measurements.

    One model makes a forward and a backward pass on one batch in every case, in turns, so that other load of
    the machine slows all cases; ratios are to the case without an intervention in the same turn.

    Parameters
    ----------
    encoder : TransformerEncoder
    task : Task
        The batch has the longest of the first examples of its training split.
    cases : mapping of str to Freeze or None
        One of them None: nothing frozen.
    recipe, dtype
        As in `finetune`.
    context : Context
    repeats : int
        Turns, after one that warms up.
    **values
        Of `finetune`; the method among them decides what learns.

    Returns
    -------
    list of dict
        For each case: `learning` (trainable parameters), `forward_seconds` and `backward_seconds` (medians),
        `memory_bytes` (CPU: all activations kept for the backward pass; CUDA: the peak of allocated memory
        beyond the model), `optimizer_bytes` (gradients and Adam's averages), and `backward_ratio`,
        `update_ratio`, `memory_ratio` to nothing frozen, times as medians over turns with
        `backward_low` and `backward_high`, the smallest and the largest.
    """
    device = context.resolved().device
    request = ask(encoder, task, recipe, device=device, dtype=dtype, **values)
    specification = {
        "version": 2,
        "run": dict(request.specification),
        "cases": {name: repr(case) for name, case in cases.items()},
        "repeats": repeats,
    }
    with Shelf(context.store, context.command).work(kind=KIND, specification=specification) as work:
        entry = work.entry
        if entry is None:
            method = str(values.get("method", "full"))
            costs = _measure(request, cases, repeats, device, dtype, method)
            (work.folder / FILE).write_text(json.dumps(costs))
            entry = work.finish({"model": encoder.name, "task": task.name})
    return json.loads((Path(entry.folder) / FILE).read_text())


def _measure(
    request: Any,
    cases: Mapping[str, Freeze | None],
    repeats: int,
    device: str,
    dtype: str,
    method: Any,
) -> list[dict[str, Any]]:
    from ...training.inputs import collate, encode
    from ...training.models.methods import trainable
    from ...training.models.modeling import build
    from ...training.precision import make_accelerator

    encoder, task, batch_size = request.encoder, request.task, request.recipe.batch
    plain = apply(encoder)
    frozen = {name: _names(plain, case) for name, case in cases.items()}
    accelerator = make_accelerator(device, dtype)
    base = build(encoder, task, request.head, seed=request.seeds.init).to(accelerator.device)
    items = request.data.items[: 8 * batch_size]
    features = encode(
        items, task, encoder.tokenizer, longest=request.longest, stride=request.stride, mask=base.mask
    )
    longest = sorted(features, key=lambda feature: -len(feature))[:batch_size]
    batch = collate(longest, accelerator.device)
    learning, memory = {}, {}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    base.train()
    for turn in range(repeats + 1):
        for name in cases:
            # Adapters stay in a model, and depend on what is frozen: each case begins without them.
            model = copy.deepcopy(base) if method == "lora" else base
            trained = trainable(model, method, frozen=frozen[name])
            if not turn or model is not base:
                _times(model, batch, accelerator)  # the first update also allocates what later ones reuse
            model.zero_grad(set_to_none=True)
            if not turn:
                learning[name] = trained.learning
                memory[name] = _memory(model, batch, accelerator)
                continue
            times[name].append(_times(model, batch, accelerator))
    reference = next(name for name, case in cases.items() if case is None)
    return [_record(name, learning[name], memory, times, reference) for name in cases]


def _names(copy: Any, case: Freeze | None) -> frozenset[str]:
    """Weights that a case freezes, by means of a copy that serves all cases."""
    for parameter in copy.base.parameters():
        parameter.requires_grad_(True)
    if case is not None:
        case.edit(copy)
    return frozen_names(copy)


def _times(model: TaskModel, batch: Any, accelerator: Any) -> tuple[float, float]:
    """Seconds of the forward and of the backward pass."""
    start = _now(accelerator.device)
    with accelerator.autocast():
        loss = model.loss(model(batch), batch)
    middle = _now(accelerator.device)
    loss.backward()
    return middle - start, _now(accelerator.device) - middle


def _now(device: Any) -> float:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _memory(model: TaskModel, batch: Any, accelerator: Any) -> int:
    """Bytes that an update needs beside the weights and the state of the optimizer."""
    import torch

    device = accelerator.device
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        _times(model, batch, accelerator)
        return int(torch.cuda.max_memory_allocated(device) - before)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    # References, since the address of a freed tensor would be reused by another, which would not count.
    storages: dict[int, Any] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), accelerator.autocast():
        model.loss(model(batch), batch)
    return sum(storage.nbytes() for storage in storages.values())


def _record(
    name: str,
    learning: int,
    memory: Mapping[str, int],
    times: Mapping[str, Sequence[tuple[float, float]]],
    reference: str,
) -> dict[str, Any]:
    seconds, reference_seconds = np.array(times[name]), np.array(times[reference])
    backward = seconds[:, 1] / reference_seconds[:, 1]
    update = seconds.sum(axis=1) / reference_seconds.sum(axis=1)
    return {
        "case": name,
        "learning": learning,
        "forward_seconds": float(np.median(seconds[:, 0])),
        "backward_seconds": float(np.median(seconds[:, 1])),
        "memory_bytes": memory[name],
        # A gradient and two averages of four bytes each.
        "optimizer_bytes": 12 * learning,
        "backward_ratio": float(np.median(backward)),
        "backward_low": float(backward.min()),
        "backward_high": float(backward.max()),
        "update_ratio": float(np.median(update)),
        "memory_ratio": memory[name] / max(1, memory[reference]),
    }
