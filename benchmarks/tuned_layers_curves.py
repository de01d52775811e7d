"""Which layers tell a task, and which are missed when redrawn? Both as curves; for tuned_layers.py."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tuned_layers_job import Job, forget
from zoo_job import head_of, open_task

SOLVERS = ("published", "converged")


def read_curves(job: Job, encoder: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Read the task's answers out of every layer, by published and by logistic-regression heads."""
    from curve_agreement import seed_curves

    from microtome.experiments.probing.inputs import RANDOM_BASELINE
    from microtome.experiments.probing.probing import probe

    task = open_task(options["reinit_task"], options["data"])
    size = min(options["reads"], len(task.split(task.train)))
    found = probe(
        encoder,
        target=task,
        train_size=size,
        seeds=options["reinit_seeds"],
        store=options["store"],
        device=options["device"],
    )
    layers = list(range(1, encoder.depth + 1))
    curves: dict[str, Any] = {}
    for model, label in ((encoder.name, "base"), (RANDOM_BASELINE, "twin")):
        curves[label] = {
            solver: seed_curves(found.rows, "layer", layers, model=model, solver=solver).tolist()
            for solver in SOLVERS
        }
    return {
        "x": layers,
        "size": size,
        "score": found.score,
        "points": found.points,
        "guess": next(iter(found.lines.values())),
        "means": np.mean(curves["base"]["published"], axis=0).tolist(),
        "warnings": list(found.warnings),
        **curves,
    }


def redrawn_curves(job: Job, encoder: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the lowest k blocks, redraw those above, tune all on some examples, and score; for every k."""
    from microtome.experiments.surgery.reinitialization import Reinitialization
    from microtome.interventions.applying import apply
    from microtome.scores.table import find_score

    task = open_task(options["reinit_task"], options["data"])
    size = min(job.size, len(task.split(task.train)))
    # Updates are the same for every size: with fewer examples, passes would make fewer of them.
    common: dict[str, Any] = {
        "head": head_of("cls1", encoder),
        "dtype": options["precision"],
        "device": options["device"],
        "store": options["store"],
        "command": options["command"],
        "train_size": size,
        "rate": options["reinit_rate"],
        "batch": options["batch"],
        "steps": options["reinit_updates"],
        "epochs": None,
    }
    seeds, by_seed, failed = options["reinit_seeds"], [], []
    points = list(range(encoder.depth + 1))
    guess, means = float("nan"), {}
    for seed in seeds:
        plan = Reinitialization(
            model=encoder, task=task, seeds=seed, schemes=job.what, truncation_control=False
        )
        order = {run.x: run for run in plan.grid(encoder)}
        changed = [apply(encoder, *order[k].interventions) for k in points]
        tuned = _tuned(changed, task, seed, common, options["device"])
        means[seed] = [one.score.value for one in tuned]
        failed += [
            f"seed {seed}, {k} kept: {one.failure}"
            for k, one in zip(points, tuned, strict=True)
            if one.failure
        ]
        guess = statistics.fmean(tuned[0].evaluation.baseline[name] for name in task.main)
        full = tuned[-1].score
        by_seed.append({"seed": seed, "scores": means[seed], "low": full.low, "high": full.high})
        if not options["keep_models"]:
            forget(tuned, options)
    score = find_score(task.main)
    return {
        "x": points,
        "size": size,
        "score": score.name,
        "points": score.points,
        "guess": guess,
        "n": len(task.split(task.validation)),
        "runs": by_seed,
        "failed": failed,
        "means": np.mean(list(means.values()), axis=0).tolist(),
    }


def _tuned(
    encoders: Sequence[Any], task: Any, seed: int, common: Mapping[str, Any], device: str
) -> list[Any]:
    """Tune models of one shape: as one on a GPU, where each is too small to fill it."""
    import microtome as mt
    from microtome.training.multi_seed import finetune_vectorized

    if device == "cuda" and task.kind in ("classification", "regression"):
        return finetune_vectorized(encoders, task, "tamkin2020", seeds=[seed], **common)
    return [mt.finetune(one, task, "tamkin2020", seed=seed, **common) for one in encoders]
