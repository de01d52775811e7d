"""Which layers tell a task, and which are missed when redrawn? Both as curves; for tuned_layers.py."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tuned_layers_job import Job, forget
from zoo_job import head_of, open_task

DRAWS = 10_000
LEAST = 3  # seeds: two can be drawn in so few ways that an interval says nothing
SOLVERS = ("published", "converged")


def read_curves(job: Job, encoder: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Read the task's answers out of every layer, by published heads and by converged readouts."""
    from microtome.experiments.agreeing import seed_curves
    from microtome.experiments.probing import TWIN
    from microtome.experiments.taskprobing import task_probing

    task = open_task(options["reinit_task"], options["data"])
    size = min(options["reads"], len(task.split(task.train)))
    found = task_probing(
        encoder,
        task,
        train_size=size,
        seeds=options["reinit_seeds"],
        store=options["store"],
        device=options["device"],
    )
    layers = list(range(1, encoder.depth + 1))
    curves: dict[str, Any] = {}
    for model, label in ((encoder.name, "base"), (TWIN, "twin")):
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
    from microtome.experiments.redrawing import planned
    from microtome.interventions.applying import apply
    from microtome.tasks.scores import find_score

    task = open_task(options["reinit_task"], options["data"])
    size = min(job.size, len(task.split(task.train)))
    # Updates are the same for every size: with fewer examples, passes would make fewer of them.
    common: dict[str, Any] = {
        "head": head_of("cls1", encoder),
        "precision": options["precision"],
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
        runs = planned(encoder, seeds=[seed], plan="progressive", schemes=(job.what,), control=False)
        order = {run.x: run for run in runs}
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
    from microtome.training.several import finetune_abreast

    if device == "cuda" and task.kind in ("classification", "regression"):
        return finetune_abreast(encoders, task, "tamkin2020", seeds=[seed], **common)
    return [mt.finetune(one, task, "tamkin2020", seed=seed, **common) for one in encoders]


def agreement_change(
    reads: np.ndarray, small: np.ndarray, large: np.ndarray, *, level: float = 0.95, draws: int = DRAWS
) -> dict[str, float]:
    """
    How much more the curve of few examples runs like the probing curve than that of many does.

    Parameters
    ----------
    reads : ndarray of shape (seeds, layers)
        What is read at each layer.
    small, large : ndarray of shape (seeds, layers)
        Scores with so many blocks kept, tuned on few examples and on many.
    level : float
    draws : int
        Of the bootstrap over seeds; the probing curve of a draw is the same for both sizes.

    Returns
    -------
    dict
        `value`: Spearman's correlation with few examples minus that with many; `low` and `high` where there
        are seeds enough to draw.

    Examples
    --------
    >>> up, down = np.array([[0.1, 0.2, 0.3]]), np.array([[0.3, 0.2, 0.1]])
    >>> agreement_change(up, up, down)["value"]
    2.0
    """
    from scipy.stats import rankdata

    from microtome.randomness import generator

    def spearman(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        ranks = [rankdata(np.round(each, 12), axis=1) for each in (one, other)]
        ranks = [each - each.mean(1, keepdims=True) for each in ranks]
        spreads = np.sqrt(np.prod([(each**2).sum(1) for each in ranks], axis=0))
        together = (ranks[0] * ranks[1]).sum(1)
        return np.divide(together, spreads, out=np.full(len(together), np.nan), where=spreads > 0)

    sides = [np.atleast_2d(each) for each in (reads, small, large)]
    means = [each.mean(0, keepdims=True) for each in sides]
    value = float(spearman(means[0], means[1])[0] - spearman(means[0], means[2])[0])
    told = {"value": value, "low": float("nan"), "high": float("nan")}
    if min(len(sides[1]), len(sides[2])) >= LEAST and np.isfinite(value):
        draw = generator(0, "agreement change")
        some = [each[draw.integers(len(each), size=(draws, len(each)))].mean(1) for each in sides]
        found = spearman(some[0], some[1]) - spearman(some[0], some[2])
        known = found[np.isfinite(found)]
        if len(known):
            told["low"], told["high"] = map(float, np.quantile(known, [(1 - level) / 2, (1 + level) / 2]))
    return told
