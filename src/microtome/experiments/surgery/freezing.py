"""Freezing experiment (Wu et al. 2020, Merchant et al. 2020): fine-tune with frozen blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...errors import InputError, must
from ...findings.claims.claim import Claim
from ...findings.results import Result
from ...interventions.freeze import Freeze
from ...training.recipe import Recipe
from ..base import as_function, option
from ..grid import RECIPE_HELP, Grid, GridRuns
from ..run_curves import gather_points
from ..runs import Run
from .claims import comparison_claims
from .costs import extent_claims
from .result import grid_result, summarize_arm
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
        """Curves of scores and costs for each part, and what freezing saves."""
        depth, split = runs.encoder.depth, runs.task.split(runs.task.validation)
        points = {part: gather_points(runs.done, split, part) for part in self.parts}
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
