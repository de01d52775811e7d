"""Does the order of the blocks matter, and alike in different tasks? Reorder them, fine-tune, and see."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from ...arguments import checked
from ...checks import check_level, check_seeds, several, whole_number
from ...encoders.cutting import refusal
from ...encoders.encoder import Encoder
from ...errors import InputError, must, unknown
from ...findings.results import WEAK, Curve, Result
from ...findings.words import between, number
from ...inference.baselines import Standing
from ...inference.scoring import quantile
from ...interventions.permute import Permute
from ...interventions.reinit import Reinit
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.recipe import Recipe
from ..baselines import below_baseline
from ..run_curves import counts, curves_of, gathered, rows_of
from ..runs import Done, Run, open_encoder, open_task, run_all
from .random_choice import welch_reach
from .result import grid_result as concluded

KINDS = ("random", "swap", "reverse", "move")
FULL, SCRATCH, GIVEN = "full", "scratch", "given"
FEWEST = 4  # permutations behind an interval of a correlation


def planned(
    encoder: Any,
    *,
    permutations: Sequence[int] = range(1, 11),
    orders: Sequence[Sequence[int]] = (),
    kinds: str | Sequence[str] = ("random",),
    seeds: int | Sequence[int] = (1,),
    train_size: int | None = None,
) -> list[Run]:
    """
    List the fine-tunings that `permutation` needs for one task.

    Parameters
    ----------
    encoder : TransformerEncoder
    permutations, orders, kinds, seeds, train_size
        As in `permutation`.

    Returns
    -------
    list of Run
    """
    depth = encoder.depth
    named = several(kinds)
    for kind in named:
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS)
    drawn = tuple(whole_number("permutations", p) for p in several(permutations))
    if len(set(drawn)) != len(drawn):
        raise must("permutations", "seeds of orders, each once", list(drawn))
    shared = {} if train_size is None else {"train_size": train_size}
    every = tuple(range(1, depth + 1))
    found: list[tuple[str, int, tuple[int, ...]]] = [(FULL, 0, every)]
    if "random" in named:
        found += [("random", p, Permute(seed=p).order_of(depth)) for p in drawn]
    if "swap" in named:
        found += [("swap", i, _swapped(every, i)) for i in range(1, depth)]
    if "reverse" in named:
        found.append(("reverse", 1, every[::-1]))
    if "move" in named:
        found += [("move", i, (*every[: i - 1], *every[i:], i)) for i in range(1, depth)]
    for place, order in enumerate(orders, start=1):
        found.append((GIVEN, place, tuple(whole_number("orders", block) for block in several(order))))
    _check_orders(encoder, found)
    runs = []
    for arm, x, order in found:
        # Blocks in their own order are the model itself, and not trained a second time.
        done = () if order == every else (Permute(order=order),)
        runs += [
            Run(arm=arm, x=x, seed=seed, interventions=done, options=shared) for seed in check_seeds(seeds)
        ]
    runs += [
        Run(arm=SCRATCH, x=0, seed=seed, interventions=(Reinit(blocks=every, seed=seed),), options=shared)
        for seed in check_seeds(seeds)
    ]
    return runs


def _check_orders(encoder: Any, found: Sequence[tuple[str, int, tuple[int, ...]]]) -> None:
    """Say before anything is trained that an order cannot be had."""
    if encoder.family.shared:
        raise InputError(
            f"blocks must have weights of their own to be permuted, but layers of {encoder.family.title} "
            "share them."
        )
    for arm, x, order in found:
        if sorted(order) != list(range(1, encoder.depth + 1)):
            raise must("orders", f"all of the {encoder.depth} blocks of {encoder.name} in some order", order)
        reason = refusal(encoder.model, encoder.family, order)
        if reason is not None:
            told = "the reversed order" if arm == "reverse" else f"order {x} of {arm!r}"
            raise InputError(f"{told} must be one that {encoder.name} can have: {reason}")


def _swapped(every: tuple[int, ...], lower: int) -> tuple[int, ...]:
    order = list(every)
    order[lower - 1], order[lower] = order[lower], order[lower - 1]
    return tuple(order)


@checked
def permutation(
    encoder: Encoder | Mapping[str, Any],
    task: Task | Mapping[str, Any] | Sequence[Any],
    *,
    permutations: Sequence[int] = range(1, 11),
    orders: Sequence[Sequence[int]] = (),
    kinds: str | Sequence[str] = ("random",),
    seeds: int | Sequence[int] = (1,),
    train_size: int | None = None,
    recipe: str | Recipe = "tamkin2020",
    level: float = 0.95,
    **options: Any,
) -> Result:
    """
    Put the blocks into other orders, with their weights as they are, and fine-tune.

    Parameters
    ----------
    encoder : Encoder or mapping
        A mapping is what `load` is called with, which `at_once` needs.
    task : Task or mapping, or several
        With several, the scores of the same orders are correlated between tasks.
    permutations : sequence of int
        Seeds of random orders; see `Permute`.
    orders : sequence of sequence of int
        Other orders, each with all blocks, numbered from 1.
    kinds : {"random", "swap", "reverse", "move"} or several
        Random orders; each pair of neighbors swapped; all blocks from top to bottom; each block alone
        moved to the top.
    seeds : int or sequence of int
    train_size : int, optional
    recipe : str or Recipe
    level : float
    **options
        Of `run_all` (at_once, threads, device, dtype, store, keep_models, progress, command), of
        `finetune`, and values of the recipe.

    Returns
    -------
    Result
        A curve for each kind over its orders, and one of its differences from the model as it is;
        `lines` has the full model and one with all blocks redrawn. `more["correlations"]` has Pearson's
        and Spearman's correlation for each pair of tasks.
    """
    started = time.monotonic()
    level, seeds = check_level(level), check_seeds(seeds)
    opened = open_encoder(encoder)
    given: list[Any] = list(task) if isinstance(task, list | tuple) else [task]
    tasks = [open_task(one) for one in given]
    if not tasks or len({one.name for one in tasks}) != len(tasks):
        raise must("tasks", "one or more, each once", [one.name for one in tasks])
    runs = planned(
        opened,
        permutations=permutations,
        orders=orders,
        kinds=kinds,
        seeds=seeds,
        train_size=train_size,
    )
    apart = options.get("at_once", 1) != 1
    parts: list[Result] = []
    means: dict[str, dict[tuple[str, Any], float]] = {}
    for one, asked in zip(given, tasks, strict=True):
        done = run_all(encoder if apart else opened, one if apart else asked, runs, recipe=recipe, **options)
        means[asked.name] = _means(done)
        parts.append(_one_task(opened, asked, done, recipe, options, level, started))
    if len(parts) == 1:
        return parts[0]
    correlations = correlate(means, level)
    return _joined(parts, correlations)


def _one_task(
    encoder: Any,
    task: Task,
    done: Sequence[Done],
    recipe: str | Recipe,
    options: Mapping[str, Any],
    level: float,
    started: float,
) -> Result:
    split, score = task.split(task.validation), find_score(task.main)
    full, scratch = (gathered(done, split, arm) for arm in (FULL, SCRATCH))
    curves: list[Curve] = []
    said: list[str] = []
    weak: dict[str, Standing] = {}
    standing = below_baseline(task, full.at(0), done, level=level)
    for arm in (*KINDS, GIVEN):
        points = gathered(done, split, arm)
        if not points.x:
            continue
        found = curves_of(
            points, task, full.at(0), axis=AXES[arm], level=level, against="the blocks in their own order"
        )
        curves += found
        if len(found) > 1 and standing is not None:
            weak[found[1].name] = standing
            said.append(f"{task.name}: {standing.sentence('the model with its blocks in order')}")
        elif len(found) > 1:
            whole = [one.score for one in done if one.run.arm == FULL and counts(one)]
            said += _said(arm, found[1], score, task, np.array(whole))
    lines = {}
    for name, points in ((FULL, full), (SCRATCH, scratch)):
        value = curves_of(points, task, None, axis="", level=level, against="")[0].values[0]
        if math.isfinite(value):
            lines[name] = float(value)
    return concluded(
        "permutation",
        encoder,
        task,
        done,
        curves=curves,
        findings=said,
        how=_methods(encoder),
        references=("tamkin2020",),
        recipe=recipe,
        options=options,
        level=level,
        started=started,
        rows=_rows(done, task, encoder.depth),
        lines=lines,
        weak=weak,
    )


AXES = {
    "random": "seed of the order",
    "swap": "lower of the swapped blocks",
    "reverse": "reversed",
    "move": "block moved to the top",
    GIVEN: "order",
}


def _methods(encoder: Any) -> str:
    return (
        f"The {encoder.depth} blocks of {encoder.name} were put into other orders before fine-tuning, with "
        "all weights as they were. The model with its own order and one with all blocks redrawn as the "
        "library draws a new model served as references."
    )


def _rows(done: Sequence[Done], task: Task, depth: int) -> list[dict[str, Any]]:
    out = []
    for one, row in zip(done, rows_of(done, task=task.name), strict=True):
        own = tuple(range(1, depth + 1))
        made = [each for each in one.run.interventions if isinstance(each, Permute)]
        order = made[0].order_of(depth) if made else own
        pairs = sum(a > b for a, b in combinations(order, 2))
        out.append({**row, "order": " ".join(map(str, order)), "inversions": pairs})
    return out


def _said(arm: str, curve: Curve, score: Any, task: Task, whole: np.ndarray) -> list[str]:
    """Say what orders of a kind change against the scores of the whole model, one a seed."""
    sign = score.points if score.higher_is_better else -score.points
    values = sign * curve.values[np.isfinite(curve.values)]
    if not len(values):
        return []
    name = {
        "random": "random orders change",
        "swap": "swaps of neighbors change",
        "reverse": "the reversed order changes",
        "move": "moves of one block to the top change",
    }.get(arm, "given orders change")
    worse = sign * np.where(sign > 0, curve.band_high, curve.band_low) < 0
    text = f"{task.name}: {name} {score.name} by {number(float(values.mean()))} points in the mean"
    # Only random orders are draws of something that has others.
    if arm == "random" and len(values) > 1:
        reach = welch_reach(values, sign * whole, curve.level)
        low, high = values.mean() - reach, values.mean() + reach
        told = (
            "order, and seed of the model as it is"
            if len(whole) > 1
            else "order; on these trainings, other seeds are not covered"
        )
        text += f" {between(float(low), float(high))} ({curve.level * 100:g}%, unit: {told})"
    share = f"{int(worse.sum())} of {len(values)}"
    return [f"{text}; {share} are worse by the {curve.level * 100:g}% band (unit: {curve.unit})."]


def _means(done: Sequence[Done]) -> dict[tuple[str, Any], float]:
    """Mean score over the seeds of each order that count."""
    found: dict[tuple[str, Any], list[float]] = {}
    for one in done:
        if counts(one) and one.run.arm not in (FULL, SCRATCH):
            found.setdefault((one.run.arm, one.run.x), []).append(one.score)
    return {key: float(np.mean(values)) for key, values in found.items()}


def correlate(means: Mapping[str, Mapping[tuple[str, Any], float]], level: float) -> list[dict[str, Any]]:
    """
    Correlate the scores of the same orders between tasks.

    Parameters
    ----------
    means : mapping of str to mapping
        For each task, the score of each order, known by its kind and its number.
    level : float

    Returns
    -------
    list of dict
        One a pair of tasks: `n` orders, and `pearson` and `spearman` with `value`, `low` and `high` (Fisher's
        z; for ranks with the variance of Bonett and Wright), or the `reason` why they are undefined. Random
        orders are draws of one kind, so intervals hold for others of it; where there are too few of them
        all orders are taken, and `over` says so.
    """
    out = []
    for one, two in combinations(means, 2):
        common = [key for key in means[one] if key in means[two]]
        drawn = [key for key in common if key[0] == "random"]
        keys, over = (drawn, "random orders") if len(drawn) >= FEWEST else (common, "all orders")
        x, y = (np.array([means[name][key] for key in keys]) for name in (one, two))
        record: dict[str, Any] = {"tasks": [one, two], "n": len(keys), "over": over, "level": level}
        for name, spread in (("pearson", lambda r: 1.0), ("spearman", lambda r: 1 + r * r / 2)):
            record[name] = _correlation(x, y, name, spread, level)
        out.append(record)
    return out


def _correlation(x: np.ndarray, y: np.ndarray, name: str, spread: Any, level: float) -> dict[str, Any]:
    from scipy.stats import rankdata

    if len(x) < FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        why = f"fewer than {FEWEST} orders" if len(x) < FEWEST else "all scores of a task are the same"
        return {"value": None, "low": None, "high": None, "reason": why}
    if name == "spearman":
        x, y = rankdata(x), rankdata(y)
    value = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    if abs(value) == 1:
        return {"value": value, "low": None, "high": None, "reason": "the orders lie on a line"}
    reach = quantile(level) * math.sqrt(spread(value) / (len(x) - 3))
    low, high = (math.tanh(math.atanh(value) + sign * reach) for sign in (-1, 1))
    return {"value": value, "low": low, "high": high, "reason": None}


def _joined(parts: Sequence[Result], correlations: list[dict[str, Any]]) -> Result:
    """One result of several tasks."""
    first = parts[0]
    curves = [replace(curve, name=f"{one.task}: {curve.name}") for one in parts for curve in one.curves]
    said = [sentence for one in parts for sentence in one.findings]
    weak = {f"{one.task}: {name}": found for one in parts for name, found in one.more.get(WEAK, {}).items()}
    failed = {one.task for one in parts if WEAK in one.more}
    for record in correlations:
        # No order was asked for, or nothing was learned that an order could change.
        if not record["n"] or failed & set(record["tasks"]):
            continue
        one, two = record["tasks"]
        for name in ("pearson", "spearman"):
            found = record[name]
            label = f"{one} and {two}: {name.title()}'s correlation over {record['n']} {record['over']}"
            if found["value"] is None:
                said.append(f"{label} is undefined: {found['reason']}.")
                continue
            text = f"{label} is {number(found['value'])}"
            if found["low"] is not None:
                bounds = between(found["low"], found["high"])
                text += f" {bounds} ({record['level'] * 100:g}%, unit: order)"
            said.append(f"{text}.")
    scores = dict.fromkeys(one.score for one in parts)
    return replace(
        first,
        task=", ".join(one.task for one in parts),
        score=", ".join(scores),
        curves=tuple(curves),
        lines={f"{one.task}: {name}": value for one in parts for name, value in one.lines.items()},
        rows=tuple(row for one in parts for row in one.rows),
        findings=tuple(said),
        methods="\n\n".join(one.methods for one in parts),
        warnings=tuple(dict.fromkeys(f"{one.task}: {text}" for one in parts for text in one.warnings)),
        more={"correlations": correlations, **({WEAK: weak} if weak else {})},
        provenance={**first.provenance, "tasks": {one.task: dict(one.provenance) for one in parts}},
    )
