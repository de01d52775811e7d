"""Permutation experiment (Tamkin et al. 2020): fine-tune with the blocks in other orders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from ...context import Context
from ...encoders.cutting import refusal
from ...errors import InputError, must
from ...findings.claims.claim import Claim, Quantity
from ...findings.results import WEAK, Result
from ...findings.words import Unit
from ...inference.estimate import quantile
from ...interventions.blocks import Permute
from ...interventions.reinit import Reinit
from ...reading import read_numbers
from ...training.recipe import Recipe
from ..base import as_function, option
from ..grid import RECIPE_HELP, Grid, GridRuns
from ..run_curves import counts, curves_of, welch_reach
from ..runs import Done, Run
from .claims import Costs, extreme_claims
from .result import ArmSummary, grid_result, summarize_arm

KINDS = ("random", "swap", "reverse", "move")
FULL, SCRATCH, GIVEN = "full", "scratch", "given"
AXES = {
    "random": "seed of the order",
    "swap": "lower of the swapped blocks",
    "reverse": "reversed",
    "move": "block moved to the top",
    GIVEN: "order",
}
FEWEST = 4  # permutations behind an interval of a correlation

Order = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Permutation(Grid):
    """
    Put the blocks into other orders, fine-tune, and compare with the original order.

    Kinds of orders: random ones, every pair of neighbors swapped, all blocks reversed, and each block moved
    to the top. The result has one curve for each kind over its orders, and one of its differences from the
    original order; `lines` has the full model and one with all blocks re-initialized. With several tasks,
    `more["correlations"]` has Pearson's and Spearman's correlation of the scores of the same orders for each
    pair of tasks (Tamkin et al. 2020).

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> result = mt.permute(base, task, epochs=1, seeds=[1], order_seeds=[1])
    >>> [curve.name for curve in result.curves]
    ['random', 'difference random']
    """

    name = "permutation"
    together = True

    order_seeds: Sequence[int] = option("Seeds of the random orders, as 1-10.", tuple(range(1, 11)))
    kinds: Sequence[str] = option(
        "Kinds of orders: random, neighbors swapped, all reversed, or one block moved to the top.",
        ("random",),
        choices=KINDS,
        empty=True,
    )
    orders: Sequence[Sequence[int]] = option(
        "Your own order of all blocks, as 3,2,1. May be repeated.",
        (),
        name="order",
        repeated=True,
        read=lambda typed: tuple(read_numbers("--order", typed)),
        metavar="N,...",
    )
    seeds: Sequence[int] = option("Seeds of the trainings, as 1,2,3 or 1-3.", (1,))
    recipe: str | Recipe = option(RECIPE_HELP, "tamkin2020")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kinds and not self.orders:
            raise must("kinds", f"one or more of {', '.join(KINDS)}, or orders of your own", [])

    def grid(self, encoder: Any) -> list[Run]:
        """List the fine-tunings of one task: every order with every seed, and the references."""
        original = tuple(range(1, encoder.depth + 1))
        orders = self._orders(original)
        _check_orders(encoder, orders)
        size = {} if self.train_size is None else {"train_size": self.train_size}
        runs = []
        for arm, x, order in orders:
            # The original order is the model itself, which is not trained a second time.
            moved = () if order == original else (Permute(order=order),)
            runs += [Run(arm=arm, x=x, seed=seed, interventions=moved, options=size) for seed in self.seeds]
        for seed in self.seeds:
            fresh = (Reinit(blocks=original, seed=seed),)
            runs.append(Run(arm=SCRATCH, x=0, seed=seed, interventions=fresh, options=size))
        return runs

    def _orders(self, original: Order) -> list[tuple[str, int, Order]]:
        """Kind, number and blocks of every order, the original one first."""
        depth, inner = len(original), range(1, len(original))
        orders: dict[str, list[tuple[int, Order]]] = {
            "random": [(int(seed), Permute(seed=seed).order_of(depth)) for seed in self.order_seeds],
            "swap": [(i, (*original[: i - 1], i + 1, i, *original[i + 1 :])) for i in inner],
            "reverse": [(1, original[::-1])],
            "move": [(i, (*original[: i - 1], *original[i:], i)) for i in inner],
        }
        named = {FULL: [(0, original)], **{kind: orders[kind] for kind in KINDS if kind in self.kinds}}
        named[GIVEN] = [(place, tuple(map(int, order))) for place, order in enumerate(self.orders, start=1)]
        return [(kind, x, order) for kind, of_kind in named.items() for x, order in of_kind]

    def summarize(self, runs: GridRuns) -> Result:
        """Curves of scores and costs for each kind of order."""
        full, scratch = runs.points(FULL), runs.points(SCRATCH)
        full_scores = np.array([run.score for run in runs.done if run.run.arm == FULL and counts(run)])
        arms: list[ArmSummary] = []
        claims: list[Claim] = []
        for kind in (*KINDS, GIVEN):
            points = runs.points(kind)
            if not points.x:
                continue
            names: dict[str, Any] = {"axis": AXES[kind], "against": "the blocks in their own order"}
            model = "the model with its blocks in order"
            summary = summarize_arm(self.name, runs, points, full.at(0), model=model, **names)
            arms.append(summary)
            if summary.costs is not None:
                claims += _order_claims(kind, summary.costs, full_scores, runs.encoder.depth)
        lines = {}
        for name, points in ((FULL, full), (SCRATCH, scratch)):
            value = curves_of(points, runs.task, None, axis="", context=runs.context, against="")[0].values[0]
            if math.isfinite(value):
                lines[name] = float(value)
        return grid_result(
            self.name,
            runs,
            arms,
            claims,
            how=_methods(runs.encoder),
            references=("tamkin2020",),
            columns=partial(_order_of, runs.encoder.depth),
            lines=lines,
        )

    def combine(self, results: Sequence[Result], runs: Sequence[GridRuns]) -> Result:
        """One result of several tasks, with correlations of the same orders between them."""
        if len(results) == 1:
            return results[0]
        means = {task_runs.task.name: _means(task_runs.done) for task_runs in runs}
        return _join(results, correlate(means, runs[0].context))


permute = as_function(Permutation, "permute")


def _check_orders(encoder: Any, orders: Sequence[tuple[str, int, Order]]) -> None:
    """Refuse orders that the encoder cannot have, before anything is trained."""
    if encoder.family.shared:
        raise InputError(
            f"blocks must have weights of their own to be permuted, but layers of {encoder.family.title} "
            "share them."
        )
    for arm, x, order in orders:
        if sorted(order) != list(range(1, encoder.depth + 1)):
            raise must("orders", f"all of the {encoder.depth} blocks of {encoder.name} in some order", order)
        reason = refusal(encoder.model, encoder.family, order)
        if reason is not None:
            name = "the reversed order" if arm == "reverse" else f"order {x} of {arm!r}"
            raise InputError(f"{name} must be one that {encoder.name} can have: {reason}")


def _methods(encoder: Any) -> str:
    return (
        f"The {encoder.depth} blocks of {encoder.name} were put into other orders before fine-tuning, with "
        "all weights as they were. The model with the original order and one with all blocks re-initialized "
        "by the library were the references."
    )


def _order_of(depth: int, run: Run) -> dict[str, Any]:
    """The order of the blocks of a run, as columns of the long table."""
    orders = [move.order_of(depth) for move in run.interventions if isinstance(move, Permute)]
    order = orders[0] if orders else tuple(range(1, depth + 1))
    return {"order": " ".join(map(str, order)), "inversions": sum(a > b for a, b in combinations(order, 2))}


def _order_claims(kind: str, costs: Costs, full_scores: np.ndarray, depth: int) -> list[Claim]:
    """Claim what orders of a kind cost, with the scores of the original order, one per seed."""
    places = costs.defined()
    values = costs.value[places]
    if not places:
        return []
    mean, low, high, unit = float(values.mean()), math.nan, math.nan, Unit("order")
    # Only random orders are a sample of a larger population.
    if kind == "random" and len(values) > 1:
        reach = welch_reach(values, costs.score.points * full_scores, costs.level)
        low, high = mean - reach, mean + reach
        unit = Unit("order", "seed" if len(full_scores) > 1 else "")
    claim = Claim(
        kind="orders",
        verdict="holds",
        score=costs.score.name,
        points=costs.score.points,
        subject=kind,
        depth=depth,
        estimate=Quantity(
            value=mean, low=low, high=high, level=costs.level, unit=unit, seeds=len(full_scores)
        ),
        facts={"orders": len(values), "worse": int(np.sum(costs.least > 0)), "unit": costs.unit},
    )
    if kind not in ("swap", "move"):
        return [claim]
    moved = {place: (int(x), int(x) + 1)[: 2 if kind == "swap" else 1] for place, x in enumerate(costs.x)}
    return [claim, *extreme_claims(costs, kind, moved, depth=depth)]


def _means(outcomes: Sequence[Done]) -> dict[tuple[str, Any], float]:
    """Mean score of each order over its seeds, without runs that diverged."""
    scores: dict[tuple[str, Any], list[float]] = {}
    for outcome in outcomes:
        if counts(outcome) and outcome.run.arm not in (FULL, SCRATCH):
            scores.setdefault((outcome.run.arm, outcome.run.x), []).append(outcome.score)
    return {order: float(np.mean(values)) for order, values in scores.items()}


def correlate(means: Mapping[str, Mapping[tuple[str, Any], float]], context: Context) -> list[dict[str, Any]]:
    """
    Correlate the scores of the same orders between tasks.

    Parameters
    ----------
    means : mapping of str to mapping
        For each task, the score of each order, by kind and number.
    context : Context

    Returns
    -------
    list of dict
        One per pair of tasks: `n` orders, and `pearson` and `spearman` with `value`, `low` and `high`
        (Fisher's z; for ranks with the variance of Bonett and Wright), or the `reason` why they are
        undefined. Random orders are a sample, so intervals cover other random orders; where there are too
        few of them all orders are used, and `over` says so.
    """
    records = []
    for first, second in combinations(means, 2):
        common = [key for key in means[first] if key in means[second]]
        random = [key for key in common if key[0] == "random"]
        keys, over = (random, "random orders") if len(random) >= FEWEST else (common, "all orders")
        x, y = (np.array([means[name][key] for key in keys]) for name in (first, second))
        record: dict[str, Any] = {
            "tasks": [first, second],
            "n": len(keys),
            "over": over,
            "level": context.level,
        }
        for name, spread in (("pearson", lambda r: 1.0), ("spearman", lambda r: 1 + r * r / 2)):
            record[name] = _correlation(x, y, name, spread, quantile(context.level))
        records.append(record)
    return records


def _correlation(x: np.ndarray, y: np.ndarray, name: str, spread: Any, critical: float) -> dict[str, Any]:
    from scipy.stats import rankdata

    if len(x) < FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        why = f"fewer than {FEWEST} orders" if len(x) < FEWEST else "all scores of a task are the same"
        return {"value": None, "low": None, "high": None, "reason": why}
    if name == "spearman":
        x, y = rankdata(x), rankdata(y)
    value = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    if abs(value) == 1:
        return {"value": value, "low": None, "high": None, "reason": "the orders lie on a line"}
    reach = critical * math.sqrt(spread(value) / (len(x) - 3))
    low, high = (math.tanh(math.atanh(value) + sign * reach) for sign in (-1, 1))
    return {"value": value, "low": low, "high": high, "reason": None}


def _join(results: Sequence[Result], correlations: list[dict[str, Any]]) -> Result:
    """One result of several tasks."""
    first = results[0]
    failed = {result.task for result in results if WEAK in result.more}
    weak = {
        f"{result.task}: {name}": scores
        for result in results
        for name, scores in result.more.get(WEAK, {}).items()
    }
    claims = [replace(claim, task=result.task) for result in results for claim in result.claims]
    for record in correlations:
        # Without orders, and of a model that learned nothing, there is nothing to correlate.
        if record["n"] and not failed & set(record["tasks"]):
            claims += [_correlation_claim(record, name) for name in ("pearson", "spearman")]
    return replace(
        first,
        task=", ".join(result.task for result in results),
        score=", ".join(dict.fromkeys(result.score for result in results)),
        curves=tuple(
            replace(curve, name=f"{result.task}: {curve.name}", label=f"{result.task}: {curve.label}")
            for result in results
            for curve in result.curves
        ),
        lines={f"{result.task}: {name}": value for result in results for name, value in result.lines.items()},
        rows=tuple(row for result in results for row in result.rows),
        claims=tuple(claims),
        findings=(),
        methods="\n\n".join(result.methods for result in results),
        warnings=tuple(
            dict.fromkeys(f"{result.task}: {text}" for result in results for text in result.warnings)
        ),
        more={"correlations": correlations, **({WEAK: weak} if weak else {})},
        provenance={
            **first.provenance,
            "tasks": {result.task: dict(result.provenance) for result in results},
        },
    )


def _correlation_claim(record: Mapping[str, Any], statistic: str) -> Claim:
    facts: dict[str, Any] = {"tasks": record["tasks"], "orders": record["n"], "over": record["over"]}
    numbers, estimate = dict(record[statistic]), None
    reason = numbers.pop("reason")
    if numbers["value"] is None:
        facts["reason"] = reason
    else:
        ends: dict[str, Any] = {name: math.nan if value is None else value for name, value in numbers.items()}
        estimate = Quantity(**ends, level=record["level"], unit=Unit("order"))
    return Claim(
        kind="order correlation",
        verdict="inconclusive" if estimate is None else "holds",
        score=statistic,
        points=1.0,
        estimate=estimate,
        facts=facts,
    )
