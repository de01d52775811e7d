"""Freezing experiment (Wu et al. 2020, Merchant et al. 2020): fine-tune with frozen blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError, must
from ...findings.results import Curve, Result
from ...findings.words import number, p_value
from ...inference.baselines import Standing
from ...inference.holm import holm
from ...interventions.freeze import Freeze
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.recipe import Recipe
from ..base import as_function, option
from ..baselines import below_baseline
from ..grid import RECIPE_HELP, Grid, GridRuns
from ..run_curves import (
    MARGIN,
    Points,
    beyond_margin,
    compared,
    curves_of,
    gathered,
    rows_of,
    said_loss,
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
        arms = {part: gathered(runs.done, split, part) for part in self.parts}
        curves: list[Curve] = []
        findings: list[str] = []
        weak: dict[str, Standing] = {}
        for part, points in arms.items():
            own = curves_of(
                points, task, points.at(0), axis="blocks frozen", level=level, against="nothing frozen"
            )
            curves += own
            standing = below_baseline(task, points.at(0), runs.done, level=level)
            if standing is not None:
                weak[own[1].name] = standing
                findings.append(standing.sentence("the model with nothing frozen"))
                continue
            findings += _said_part(part, own[1] if len(own) > 1 else None, score, runs.encoder.depth)
        if not weak:
            findings += _said_sides(arms, task, level)
        cost = self._costs(runs) if self.measure_time else []
        return grid_result(
            self.name,
            runs,
            curves=curves,
            findings=[*findings, *_said_cost(cost)],
            how=_methods(runs.encoder, self.embeddings, self.cached),
            references=("wu2020", "merchant2020"),
            rows=_with_cost(rows_of(runs.done, task=task.name), cost),
            more={"cost": cost, "embeddings": self.embeddings, "cached": self.cached},
            weak=weak,
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
            store=runs.context.store,
            command=runs.context.command,
            train_size=self.train_size,
            **runs.settings,
        )


freeze = as_function(Freezing, "freeze")


def _with_cost(rows: Sequence[Mapping[str, Any]], cost: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    names = ("backward_ratio", "update_ratio", "memory_ratio")
    known = {one["case"]: one for one in cost}
    out = []
    for row in rows:
        case = known.get("none" if row["x"] == 0 else f"{row['arm']} {row['x']}", {})
        out.append({**row, **{name: case.get(name) for name in names}})
    return tuple(out)


def _methods(encoder: Any, embeddings: bool, cached: bool) -> str:
    below = "embeddings were frozen with the bottom" if embeddings else "embeddings were never frozen"
    dropout = "ran once an example without dropout" if cached else "kept its dropout"
    return (
        f"Of the {encoder.depth} blocks of {encoder.name}, more and more were frozen for the whole of the "
        f"fine-tuning, from the bottom up or from the top down; {below}, and a frozen bottom {dropout}."
    )


def _said_part(part: str, curve: Curve | None, score: Any, depth: int) -> list[str]:
    if curve is None:
        return [f"Nothing can be said of a frozen {part}: no run with nothing frozen is sound."]
    safe = [place for place in within_margin(curve, score) if curve.x[place] != 0]
    bad = beyond_margin(curve, score)
    said = []
    if safe:
        place = max(safe, key=lambda at: int(curve.x[at]))
        said.append(
            f"With the {part} {curve.x[place]} of {depth} blocks frozen, a loss of more than {MARGIN:g} "
            f"point is ruled out: {said_loss(curve, place, score, bound='most')}."
        )
    else:
        said.append(
            f"For no number of {part} blocks frozen is a loss of more than {MARGIN:g} point ruled out."
        )
    if bad:
        place = min(bad, key=lambda at: int(curve.x[at]))
        larger = [at for at, k in enumerate(curve.x) if int(k) >= int(curve.x[place])]
        # "On" is a claim about every larger number that is shown.
        where = (
            f"From the {part} {curve.x[place]} blocks on"
            if len(larger) > 1 and set(larger) <= set(bad)
            else f"With the {part} {curve.x[place]} blocks"
        )
        loss = said_loss(curve, place, score, bound="least")
        said.append(f"{where}, freezing costs more than {MARGIN:g} point: {loss}.")
    return said


def _said_sides(arms: Mapping[str, Points], task: Task, level: float) -> list[str]:
    """Whether a frozen bottom costs less than a frozen top of as many blocks."""
    if set(arms) != set(PARTS):
        return []
    ks = [k for k in arms["bottom"].x if k and k in arms["top"].x]
    found = [compared(task, arms["bottom"].at(k), arms["top"].at(k), level=level) for k in ks]
    tested = [(k, one) for k, one in zip(ks, found, strict=True) if one is not None]
    if not tested:
        return []
    p = holm([one.p for _, one in tested])
    sure = [(k, one, p[i]) for i, (k, one) in enumerate(tested) if p[i] < 1 - level]
    ahead = sum(one.difference * one.points > 0 for _, one in tested)
    said = [
        f"A frozen bottom scores above a frozen top of as many blocks at {ahead} of {len(tested)} numbers."
    ]
    for k, one, adjusted in sure:
        side = "bottom" if one.difference * one.points > 0 else "top"
        points = number(abs(one.difference * one.points))
        said.append(
            f"With {k} blocks, freezing the {side} is better by {points} points ({p_value(adjusted)}, "
            f"unit: {tested_unit(one)}, adjusted for {len(tested)} tests)."
        )
    if not sure:
        said.append(f"None of these {len(tested)} differences is sure.")
    return said


def _said_cost(cost: Sequence[Mapping[str, Any]]) -> list[str]:
    rest = [one for one in cost if one["case"] != "none"]
    if not rest:
        return []
    best = min(rest, key=lambda one: one["backward_ratio"])
    half = [one for one in rest if one["backward_ratio"] <= 0.5]
    said = [
        f"Freezing the {best['case']} blocks takes {number(best['backward_ratio'])} of the time of the way "
        f"back and {number(best['memory_ratio'])} of the memory for activations."
    ]
    if half:
        for part in PARTS:
            mine = {int(one["case"].split()[1]): one for one in rest if one["case"].startswith(part)}
            least = min((k for k, one in mine.items() if one in half), default=None)
            if least is None:
                continue
            all_on = sum(k >= least for k in mine) > 1 and all(mine[k] in half for k in mine if k >= least)
            where = f"from the {part} {least} blocks on" if all_on else f"with the {part} {least} blocks"
            said.append(f"The way back takes half of its time or less {where}.")
    return said
