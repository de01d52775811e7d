"""Freezing experiment (Wu et al. 2020, Merchant et al. 2020): fine-tune with frozen blocks, and time it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...context import Context
from ...errors import InputError, must
from ...findings.claims.claim import Claim
from ...findings.results import Result
from ...interventions.applying import apply
from ...interventions.blocks import Freeze, frozen_names
from ...pruning.speed import now, peak_on_gpu
from ...store.shelf import Shelf
from ...tasks.task import Task
from ...training.recipe import Recipe
from ...training.request import ask
from ..base import as_function, option
from ..grid import RECIPE_HELP, Grid, GridRuns
from ..runs import Run
from .claims import comparison_claims, extent_claims
from .result import grid_result, summarize_arm

if TYPE_CHECKING:
    from ...training.models.taskmodel import TaskModel

KIND, FILE = "cost", "cost.json"
PARTS = ("bottom", "top")


def _freeze(part: str, k: int, embeddings: bool) -> Freeze:
    return Freeze(bottom=k, embeddings=embeddings) if part == "bottom" else Freeze(top=k)


@dataclass(frozen=True, kw_only=True)
class Freezing(Grid):
    """
    Fine-tune with more and more blocks frozen, from the bottom or from the top.

    Nothing frozen is always among the points: it is the plain fine-tuning, at the same address in the store.
    The result has one curve for each part over the number of frozen blocks, and one of its differences from
    nothing frozen; `more["cost"]` has the measured time and memory (Wu et al. 2020, Merchant et al. 2020).

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> result = mt.freeze(base, task, epochs=1, seeds=[1], parts=["bottom"], measure_time=False)
    >>> result.curves[0].x
    (0, 1, 2)
    """

    name = "freezing"

    ks: Sequence[int] | None = option(
        "Numbers of frozen blocks, as 4,6 or 1-12; all when absent.", None, metavar="K,..."
    )
    parts: Sequence[str] = option("Which end is frozen.", PARTS, choices=PARTS)
    embeddings: bool = option(
        "Freeze the embeddings with the bottom; otherwise the backward pass still goes through all blocks.",
        True,
    )
    cached: bool = option(
        "Run a frozen bottom once per example, without dropout; frozen blocks keep their dropout otherwise, "
        "as in the papers.",
        False,
    )
    measure_time: bool = option("Measure time and memory of an update for every number of blocks.", True)
    repeats: int = option("Number of repeats of each time measurement.", 5, least=1)
    recipe: str | Recipe | None = option(RECIPE_HELP, "wu2020")

    def grid(self, encoder: Any) -> list[Run]:
        """List the fine-tunings: every part, number of frozen blocks and seed."""
        depth = encoder.depth
        counts = tuple(dict.fromkeys((0, *(range(depth + 1) if self.ks is None else self.ks))))
        for k in counts:
            if not 0 <= k <= depth:
                raise must("ks", f"numbers of blocks between 0 and {depth}", k)
        if encoder.family.shared and set(counts) - {0, depth}:
            raise InputError(
                f"ks must be 0 or {depth} for {encoder.family.title}, whose layers share their weights, but "
                f"got {sorted(set(counts) - {0, depth})}."
            )
        size = {} if self.train_size is None else {"train_size": self.train_size}
        runs = []
        for part in self.parts:
            for k in sorted(counts):
                frozen = () if k == 0 else (_freeze(part, k, self.embeddings),)
                # Only a bottom below which nothing learns has states to keep.
                cached = self.cached and part == "bottom" and k and self.embeddings
                options = {**size, "cached": True} if cached else size
                runs += [
                    Run(arm=part, x=k, seed=seed, interventions=frozen, options=options)
                    for seed in self.seeds
                ]
        return runs

    def summarize(self, runs: GridRuns) -> Result:
        """Curves of scores and costs for each part, and what freezing saves."""
        depth, points = runs.encoder.depth, {part: runs.points(part) for part in self.parts}
        arms, claims = [], []
        names: dict[str, Any] = {
            "axis": "blocks frozen",
            "against": "nothing frozen",
            "model": "the model with nothing frozen",
        }
        for part, runs_of_part in points.items():
            arm = summarize_arm(self.name, runs, runs_of_part, runs_of_part.at(0), **names)
            arms.append(arm)
            if arm.costs is not None:
                frozen = {
                    place: _blocks(part, int(k), depth) for place, k in enumerate(runs_of_part.x) if k != 0
                }
                claims += extent_claims(arm.costs, "frozen", frozen, subject=part, depth=depth)
        if len(points) == 2 and not any(arm.weak for arm in arms):
            ks = [k for k in points["bottom"].x if k and k in points["top"].x]
            bottom, top = points["bottom"], points["top"]
            claims += comparison_claims("frozen sides", runs, bottom, top, ks, depth=depth)
        cost = self._costs(runs) if self.measure_time else []
        return grid_result(
            self.name,
            runs,
            arms,
            [*claims, *_saving_claims(cost, depth)],
            how=_methods(runs.encoder, self.embeddings, self.cached),
            references=("wu2020", "merchant2020"),
            columns=partial(_ratios, cost),
            more={"cost": cost, "embeddings": self.embeddings, "cached": self.cached},
        )

    def _costs(self, runs: GridRuns) -> list[dict[str, Any]]:
        """Time and memory of an update for every number of frozen blocks, without the cache."""
        points = {f"{done.run.arm} {done.run.x}": done.run for done in runs.done if done.run.x}
        cases = {"none": None, **{case: run.interventions[0] for case, run in points.items()}}
        records = freezing_costs(
            runs.encoder,
            runs.task,
            cases,
            recipe=runs.recipe,
            repeats=self.repeats,
            context=runs.context,
            train_size=self.train_size,
            **runs.settings,
        )
        points["none"] = Run(arm="", x=0, seed=0)
        cases_of = [points[record["case"]] for record in records]
        return [
            {**record, "part": run.arm, "blocks": run.x}
            for record, run in zip(records, cases_of, strict=True)
        ]


freeze = as_function(Freezing, "freeze")


def _ratios(cost: Sequence[Mapping[str, Any]], run: Run) -> dict[str, Any]:
    """What a run saves, as columns of the long table."""
    part = run.arm if run.x else ""
    record = next((r for r in cost if (r["part"], r["blocks"]) == (part, run.x)), {})
    return {name: record.get(name) for name in ("backward_ratio", "update_ratio", "memory_ratio")}


def _methods(encoder: Any, embeddings: bool, cached: bool) -> str:
    below = "embeddings were frozen with the bottom" if embeddings else "embeddings were never frozen"
    dropout = "ran once per example, without dropout" if cached else "kept its dropout"
    return (
        f"Of the {encoder.depth} blocks of {encoder.name}, more and more were frozen during the whole "
        f"fine-tuning, from the bottom up or from the top down; {below}, and a frozen bottom {dropout}."
    )


def _blocks(part: str, k: int, depth: int) -> tuple[int, ...]:
    return tuple(range(1, k + 1) if part == "bottom" else range(depth - k + 1, depth + 1))


def _saving_claims(cost: Sequence[Mapping[str, Any]], depth: int) -> list[Claim]:
    """Claim what freezing saves at most, and from how many blocks on it halves the backward pass."""
    frozen = sorted((record for record in cost if record["blocks"]), key=lambda record: record["blocks"])
    if not frozen:
        return []

    def claim(kind: str, record: Mapping[str, Any], **facts: Any) -> Claim:
        part = record["part"]
        layers = _blocks(part, record["blocks"], depth)
        about = {"subject": part, "layers": layers, "depth": depth, "facts": facts}
        return Claim(kind=kind, verdict="holds", score="", **about)

    best = min(frozen, key=lambda record: record["backward_ratio"])
    claims = [claim("saving", best, backward=best["backward_ratio"], memory=best["memory_ratio"])]
    for part in PARTS:
        records = [record for record in frozen if record["part"] == part]
        halved = [record["backward_ratio"] <= 0.5 for record in records]
        if any(halved):
            first = halved.index(True)
            onward = len(halved[first:]) > 1 and all(halved[first:])
            claims.append(claim("halving", records[first], onward=onward))
    return claims


def freezing_costs(
    encoder: Any,
    task: Task,
    cases: Mapping[str, Freeze | None],
    *,
    recipe: str | Recipe,
    context: Context,
    repeats: int = 5,
    dtype: str = "auto",
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
        Of `finetune`.

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
            costs = _measure(request, cases, repeats)
            (work.folder / FILE).write_text(json.dumps(costs))
            entry = work.finish({"model": encoder.name, "task": task.name})
    return json.loads((Path(entry.folder) / FILE).read_text())


def _measure(request: Any, cases: Mapping[str, Freeze | None], repeats: int) -> list[dict[str, Any]]:
    from ...training.inputs import collate, encode
    from ...training.models.methods import trainable
    from ...training.models.modeling import build
    from ...training.precision import make_accelerator

    encoder, task, batch_size = request.encoder, request.task, request.recipe.batch
    plain = apply(encoder)
    frozen = {name: _names(plain, case) for name, case in cases.items()}
    specification = request.specification
    accelerator = make_accelerator(specification["device"], specification["precision"])
    model = build(encoder, task, request.head, seed=request.seeds.init).to(accelerator.device)
    items = request.data.items[: 8 * batch_size]
    features = encode(
        items, task, encoder.tokenizer, longest=request.longest, stride=request.stride, mask=model.mask
    )
    longest = sorted(features, key=lambda feature: -len(feature))[:batch_size]
    batch = collate(longest, accelerator.device)
    learning, memory = {}, {}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    model.train()
    for turn in range(repeats + 1):
        for name in cases:
            trained = trainable(model, "full", frozen=frozen[name])
            if not turn:
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
    start = now(accelerator.device)
    with accelerator.autocast():
        loss = model.loss(model(batch), batch)
    middle = now(accelerator.device)
    loss.backward()
    return middle - start, now(accelerator.device) - middle


def _memory(model: TaskModel, batch: Any, accelerator: Any) -> int:
    """Bytes that an update needs beside the weights and the state of the optimizer."""
    import torch

    device = accelerator.device
    if device.type == "cuda":
        return peak_on_gpu(lambda: _times(model, batch, accelerator), device)
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
