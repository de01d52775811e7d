"""Freezing experiment (Wu et al. 2020, Merchant et al. 2020): fine-tune with frozen blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError, must
from ...findings.claims.claim import MARGIN
from ...findings.results import Curve, Result
from ...findings.words import number, p_value
from ...inference.baselines import Standing
from ...interventions.freeze import Freeze
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.recipe import Recipe
from ..base import as_function, option
from ..baselines import below_baseline, plain_weak
from ..grid import RECIPE_HELP, Grid, GridRuns
from ..run_curves import (
    RunPoints,
    beyond_margin,
    compare_points,
    curves_of,
    gather_points,
    loss_text,
    rows_of,
    tested_unit,
    within_margin,
)
from ..runs import Run
from .result import grid_result
from .timing import freezing_costs

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
        """Curves of scores and losses for each part, what freezing saves, and findings."""
        task, level = runs.task, runs.context.level
        score, split = find_score(task.main), task.split(task.validation)
        arms = {part: gather_points(runs.done, split, part) for part in self.parts}
        curves: list[Curve] = []
        findings: list[str] = []
        weak: dict[str, Standing] = {}
        for part, points in arms.items():
            part_curves = curves_of(
                points, task, points.at(0), axis="blocks frozen", level=level, against="nothing frozen"
            )
            curves += part_curves
            standing = below_baseline(task, points.at(0), runs.done, level=level)
            if standing is not None:
                weak[part_curves[1].name] = standing
                findings.append(standing.sentence("the model with nothing frozen"))
                continue
            losses = part_curves[1] if len(part_curves) > 1 else None
            findings += _loss_findings(part, losses, score, runs.encoder.depth)
        if not weak:
            findings += _side_findings(arms, task, level)
        cost = self._costs(runs) if self.measure_time else []
        return grid_result(
            self.name,
            runs,
            curves=curves,
            findings=[*findings, *_cost_findings(cost)],
            how=_methods(runs.encoder, self.embeddings, self.cached),
            references=("wu2020", "merchant2020"),
            rows=_with_cost(rows_of(runs.done, task=task.name), cost),
            more={
                "cost": cost,
                "embeddings": self.embeddings,
                "cached": self.cached,
                **plain_weak(weak),
            },
        )

    def _costs(self, runs: GridRuns) -> list[dict[str, Any]]:
        """Time and memory of an update for every number of frozen blocks, without the cache."""
        cases: dict[str, Freeze | None] = {"none": None}
        for done in runs.done:
            if done.run.x:
                cases[f"{done.run.arm} {done.run.x}"] = done.run.interventions[0]
        return freezing_costs(
            runs.encoder,
            runs.task,
            cases,
            recipe=runs.recipe,
            repeats=self.repeats,
            context=runs.context,
            train_size=self.train_size,
            **runs.settings,
        )


freeze = as_function(Freezing, "freeze")


def _with_cost(rows: Sequence[Mapping[str, Any]], cost: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    names = ("backward_ratio", "update_ratio", "memory_ratio")
    cases = {record["case"]: record for record in cost}
    extended = []
    for row in rows:
        case = cases.get("none" if row["x"] == 0 else f"{row['arm']} {row['x']}", {})
        extended.append({**row, **{name: case.get(name) for name in names}})
    return tuple(extended)


def _methods(encoder: Any, embeddings: bool, cached: bool) -> str:
    below = "embeddings were frozen with the bottom" if embeddings else "embeddings were never frozen"
    dropout = "ran once per example, without dropout" if cached else "kept its dropout"
    return (
        f"Of the {encoder.depth} blocks of {encoder.name}, more and more were frozen during the whole "
        f"fine-tuning, from the bottom up or from the top down; {below}, and a frozen bottom {dropout}."
    )


def _loss_findings(part: str, curve: Curve | None, score: Any, depth: int) -> list[str]:
    if curve is None:
        return [f"Nothing is concluded about a frozen {part}: all runs with nothing frozen diverged."]
    level = f"{curve.level * 100:g} %"
    safe = [place for place in within_margin(curve, score) if curve.x[place] != 0]
    costly = beyond_margin(curve, score)
    findings = []
    if safe:
        place = max(safe, key=lambda at: int(curve.x[at]))
        findings.append(
            f"With the {part} {curve.x[place]} of {depth} blocks frozen, a loss above {MARGIN:g} point is "
            f"excluded at {level}: {loss_text(curve, place, score, bound='most')}."
        )
    else:
        findings.append(
            f"For no number of {part} blocks frozen is a loss above {MARGIN:g} point excluded at {level}."
        )
    if costly:
        place = min(costly, key=lambda at: int(curve.x[at]))
        larger = [at for at, k in enumerate(curve.x) if int(k) >= int(curve.x[place])]
        # "On" is a claim about every larger number in the curve.
        where = (
            f"From the {part} {curve.x[place]} blocks on"
            if len(larger) > 1 and set(larger) <= set(costly)
            else f"With the {part} {curve.x[place]} blocks"
        )
        loss = loss_text(curve, place, score, bound="least")
        findings.append(f"{where}, freezing costs more than {MARGIN:g} point: {loss}.")
    return findings


def _side_findings(arms: Mapping[str, RunPoints], task: Task, level: float) -> list[str]:
    """Compare a frozen bottom with a frozen top of as many blocks."""
    if set(arms) != set(PARTS):
        return []
    ks = [k for k in arms["bottom"].x if k and k in arms["top"].x]
    tests = compare_points(task, arms["bottom"], arms["top"], points=ks, level=level)
    if not tests:
        return []
    gains = [comparison.difference * comparison.points for _, comparison, _ in tests]
    ahead = sum(gain > 0 for gain in gains)
    findings = [
        f"A frozen bottom scores above a frozen top of as many blocks at {ahead} of {len(tests)} numbers."
    ]
    significant = [(test, gain) for test, gain in zip(tests, gains, strict=True) if test[2] < 1 - level]
    for (k, comparison, p), gain in significant:
        findings.append(
            f"With {k} blocks, freezing the {'bottom' if gain > 0 else 'top'} is better by "
            f"{number(abs(gain))} points ({p_value(p)}, unit: {tested_unit(comparison)}, adjusted for "
            f"{len(tests)} tests)."
        )
    if not significant:
        findings.append(f"None of these {len(tests)} differences is significant.")
    return findings


def _cost_findings(cost: Sequence[Mapping[str, Any]]) -> list[str]:
    frozen = [record for record in cost if record["case"] != "none"]
    if not frozen:
        return []
    best = min(frozen, key=lambda record: record["backward_ratio"])
    findings = [
        f"Freezing the {best['case']} blocks takes {number(best['backward_ratio'])} of the time of the "
        f"backward pass and {number(best['memory_ratio'])} of the memory for activations."
    ]
    for part in PARTS:
        ratios = {
            int(record["case"].split()[1]): record["backward_ratio"]
            for record in frozen
            if record["case"].startswith(part)
        }
        least = min((k for k, ratio in ratios.items() if ratio <= 0.5), default=None)
        if least is None:
            continue
        larger = [ratio for k, ratio in ratios.items() if k >= least]
        on = len(larger) > 1 and all(ratio <= 0.5 for ratio in larger)
        where = f"from the {part} {least} blocks on" if on else f"with the {part} {least} blocks"
        findings.append(f"The backward pass takes half of its time or less {where}.")
    return findings
