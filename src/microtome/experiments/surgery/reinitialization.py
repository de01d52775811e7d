"""Re-initialization experiment (Tamkin et al. 2020): fine-tune with the weights of blocks re-initialized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...checks import several
from ...errors import InputError, must
from ...findings.claims.claim import MARGIN
from ...findings.results import Curve, Result
from ...findings.words import number, p_value
from ...inference.answers import Answers
from ...inference.baselines import Standing
from ...interventions.schemes import SCHEMES
from ...reading import read_names
from ...scores.table import find_score
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
    lost,
    tested_unit,
    within_margin,
)
from ..runs import Run
from .reinit_plan import AXES, FULL, PLANS, SCRATCH, TRUNCATED, ReinitArm
from .result import grid_result

BIASES = ("keep", "zero")


def read_sizes(typed: str) -> tuple[int | None, ...]:
    """
    Read numbers of examples; "all" is the complete training split.

    Examples
    --------
    >>> read_sizes("500,all")
    (500, None)
    """
    sizes: list[int | None] = []
    for part in (part.strip() for part in typed.split(",") if part.strip()):
        if part != "all" and not (part.isdecimal() and int(part)):
            raise must("--sizes", "numbers above 0 or all, with commas between them", typed)
        sizes.append(None if part == "all" else int(part))
    return tuple(sizes)


@dataclass(frozen=True, kw_only=True)
class Reinitialization(Grid):
    """
    Fine-tune with the weights of some blocks re-initialized, to see which pretrained weights matter.

    The plan progressive re-initializes all blocks above the first k, for every k; blocks, every window of
    `width` blocks; inverse, all blocks outside such a window; single, every single block. The result has one
    curve for each plan, scheme and number of examples, and one of its differences from the full model on as
    many examples (Tamkin et al. 2020). Models truncated to the same depth are a control: where re-initialized
    blocks do no better, depth explains the score (Merchant et al. 2020).

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> result = mt.reinit(base, task, epochs=1, seeds=[1], plans=["single"])
    >>> [curve.name for curve in result.curves]
    ['single, library', 'difference single, library']
    """

    name = "reinitialization"

    plans: Sequence[str] = option("Which blocks are re-initialized.", ("progressive",), choices=PLANS)
    width: int = option("Blocks per window in the plans blocks and inverse.", 3, least=1)
    schemes: Sequence[str] = option("Initialization schemes.", ("library",), choices=tuple(SCHEMES))
    bias: Sequence[str | None] | None = option(
        "Treatment of biases; that of the scheme when absent.",
        None,
        choices=BIASES,
        read=lambda typed: read_names("--bias", typed, BIASES),
    )
    layernorm: Sequence[str] = option("Treatment of norms.", ("reset",), choices=("reset", "keep"))
    sizes: Sequence[int | None] | None = option(
        "Numbers of training examples, as 500,5000,all; in Python None is all.",
        None,
        least=1,
        read=read_sizes,
        metavar="N,...",
    )
    truncation_control: bool = option("Also fine-tune the model truncated to the same depth.", True)
    fixed_updates: int | None = option(
        "Also fine-tune every model with N updates, since fewer examples mean fewer updates per epoch.",
        None,
        least=1,
        metavar="N",
    )
    reinit_seed: int | None = option(
        "Seed of the new weights; that of the training when absent.", None, least=0
    )
    recipe: str | Recipe = option(RECIPE_HELP, "tamkin2020")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes is None:
            return
        if self.train_size is not None:
            raise must("train_size", "left out where sizes are given", self.train_size)
        if not self.sizes or len(set(self.sizes)) != len(self.sizes):
            raise must("sizes", "one number or more, each once", list(self.sizes))

    def arms(self) -> list[ReinitArm]:
        """List the curves: those with re-initialized blocks, then their references."""
        sizes = (self.train_size,) if self.sizes is None else self.sizes
        updates = (None,) if self.fixed_updates is None else (None, self.fixed_updates)
        arms: list[ReinitArm] = []
        for size, fixed in product(sizes, updates):
            shared: dict[str, Any] = {"size": size, "updates": fixed}
            variants = product(self.plans, self.schemes, several(self.bias), self.layernorm)
            changed = [ReinitArm(plan=p, scheme=s, bias=b, layernorm=n, **shared) for p, s, b, n in variants]
            arms += changed
            if self.truncation_control and "progressive" in self.plans:
                arms.append(ReinitArm(plan=TRUNCATED, **shared))
            if set(self.plans) - {"progressive"}:
                arms.append(ReinitArm(plan=FULL, **shared))
                arms += list(dict.fromkeys(arm.like(SCRATCH, same_scheme=True) for arm in changed))
        return arms

    def grid(self, encoder: Any) -> list[Run]:
        """List the fine-tunings: every point of every arm with every seed."""
        if encoder.family.shared:
            raise InputError(
                "blocks must have weights of their own to be re-initialized one by one, but layers of "
                f"{encoder.family.title} share them."
            )
        if {"blocks", "inverse"} & set(self.plans) and self.width > encoder.depth:
            raise must("width", f"a number of blocks between 1 and {encoder.depth}", self.width)
        runs: list[Run] = []
        for arm in self.arms():
            by_point: dict[int, list[Run]] = {}
            for seed in self.seeds:
                weights = seed if self.reinit_seed is None else self.reinit_seed
                for x, interventions in arm.points(encoder.depth, self.width, weights):
                    run = Run(arm=arm.name, x=x, seed=seed, interventions=interventions, options=arm.options)
                    by_point.setdefault(x, []).append(run)
            runs += [run for at_point in by_point.values() for run in at_point]
        return runs

    def summarize(self, runs: GridRuns) -> Result:
        """Curves of scores and losses for each arm, and findings."""
        outcomes = _Outcomes(runs=runs, width=self.width)
        curves: list[Curve] = []
        findings: list[str] = []
        lines: dict[str, float] = {}
        weak: dict[str, Standing] = {}
        for arm in self.arms():
            arm_curves = outcomes.curves(arm)
            if arm.plan in (FULL, SCRATCH):
                lines[arm.name] = float(arm_curves[0].values[0])
                continue
            curves += arm_curves
            if len(arm_curves) == 1:
                continue
            standing = below_baseline(runs.task, outcomes.full(arm), runs.done, level=runs.context.level)
            if standing is None:
                findings += outcomes.findings(arm, arm_curves[1])
            else:
                weak[arm_curves[1].name] = standing
                findings.append(f"{arm.name}: {standing.sentence('the full model')}")
        return grid_result(
            self.name,
            runs,
            curves=curves,
            findings=findings,
            how=self._methods(runs.encoder),
            references=("tamkin2020", *(("merchant2020",) if self.truncation_control else ())),
            lines={name: value for name, value in lines.items() if value == value},
            more={
                "width": self.width,
                "plans": list(self.plans),
                "schemes": list(self.schemes),
                **plain_weak(weak),
            },
        )

    def _methods(self, encoder: Any) -> str:
        descriptions = {
            "progressive": "all blocks above the first k were re-initialized, for every k",
            "blocks": f"each window of {self.width} consecutive blocks was re-initialized",
            "inverse": f"all blocks outside each window of {self.width} were re-initialized",
            "single": "each single block was re-initialized",
        }
        control = " Models without their upper blocks were a control." if self.truncation_control else ""
        return (
            f"In {encoder.name}, of {encoder.depth} blocks, before fine-tuning: "
            f"{'; '.join(descriptions[plan] for plan in self.plans)}. Initialization schemes: "
            f"{', '.join(self.schemes)}; embeddings were not changed.{control}"
        )


reinit = as_function(Reinitialization, "reinit")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcomes:
    """Points, curves and findings of the arms of one task."""

    runs: GridRuns
    width: int

    @property
    def depth(self) -> int:
        return self.runs.encoder.depth

    def points(self, arm: ReinitArm) -> RunPoints:
        task = self.runs.task
        return gather_points(self.runs.done, task.split(task.validation), arm.name)

    def full(self, arm: ReinitArm) -> Answers | None:
        """The full model on the same examples: the arm's own, so that its difference from itself is zero."""
        return self.points(arm if arm.has_full else arm.like(FULL)).at(self.depth)

    def curves(self, arm: ReinitArm) -> list[Curve]:
        points = self.points(arm)
        # A point is the reference only if it is the same object.
        full = points.at(self.depth) if arm.has_full else self.full(arm)
        axis, level = AXES.get(arm.plan, "blocks kept"), self.runs.context.level
        return curves_of(points, self.runs.task, full, axis=axis, level=level, against="the full model")

    def findings(self, arm: ReinitArm, curve: Curve) -> list[str]:
        if arm.plan == TRUNCATED:
            return []
        if arm.plan == "progressive":
            return [*self._progressive_findings(arm, curve), *self._control_findings(arm)]
        return self._window_findings(arm, curve)

    def _progressive_findings(self, arm: ReinitArm, curve: Curve) -> list[str]:
        score, findings = find_score(self.runs.task.main), []
        level = f"{curve.level * 100:g} %"
        safe = [place for place in within_margin(curve, score) if curve.x[place] != self.depth]
        costly = beyond_margin(curve, score)
        if safe:
            place = min(safe, key=lambda at: int(curve.x[at]))
            findings.append(
                f"{arm.name}: with the top {self.depth - int(curve.x[place])} of {self.depth} blocks "
                f"re-initialized, a loss above {MARGIN:g} point is excluded at {level}: "
                f"{loss_text(curve, place, score, bound='most')}."
            )
        if costly:
            place = max(costly, key=lambda at: int(curve.x[at]))
            findings.append(
                f"{arm.name}: re-initializing the top {self.depth - int(curve.x[place])} blocks costs more "
                f"than {MARGIN:g} point: {loss_text(curve, place, score, bound='least')}."
            )
        return findings or [
            f"{arm.name}: inconclusive; at no number of blocks is a loss above or below {MARGIN:g} point "
            f"excluded at {level}."
        ]

    def _control_findings(self, arm: ReinitArm) -> list[str]:
        """Compare re-initialized blocks with none in their place."""
        task, level = self.runs.task, self.runs.context.level
        changed, cut = self.points(arm), self.points(arm.like(TRUNCATED))
        depths = [k for k in changed.x if k in cut.x and k != self.depth]
        tests = compare_points(task, changed, cut, points=depths, level=level)
        significant = [(k, comparison, p) for k, comparison, p in tests if p < 1 - level]
        if tests and not significant:
            return [
                f"{arm.name}: at none of {len(tests)} depths are re-initialized blocks significantly better "
                "or worse than none in their place."
            ]
        findings = []
        for k, comparison, p in significant:
            points = comparison.difference * comparison.points
            findings.append(
                f"{arm.name}: with {k} blocks kept, re-initializing the others is "
                f"{'better' if points > 0 else 'worse'} than removing them by {number(abs(points))} points "
                f"({p_value(p)}, unit: {tested_unit(comparison)}, adjusted for {len(tests)} tests)."
            )
        return findings

    def _window_findings(self, arm: ReinitArm, curve: Curve) -> list[str]:
        score = find_score(self.runs.task.main)
        loss = lost(curve, score)[0]
        places = [place for place in range(len(curve.x)) if loss[place] == loss[place]]
        if not places:
            return []
        size = 1 if arm.plan == "single" else self.width
        worst, best = (pick(places, key=lambda at: loss[at]) for pick in (max, min))
        verb = "keeping only" if arm.plan == "inverse" else "re-initializing"

        def window(place: int) -> str:
            first = int(curve.x[place])
            return f"block {first}" if size == 1 else f"blocks {first} to {first + size - 1}"

        if loss[worst] == loss[best]:
            return [f"{arm.name}: {verb} any of them costs {loss_text(curve, worst, score)}."]
        return [
            f"{arm.name}: {verb} {window(worst)} costs most, {loss_text(curve, worst, score)}; "
            f"{verb} {window(best)} costs least, {loss_text(curve, best, score)}."
        ]
