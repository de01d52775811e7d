"""Which blocks' pretrained weights matter, against depth alone? Draw some anew, fine-tune, and see."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...arguments import checked
from ...checks import check_level, check_seeds, several
from ...encoders.encoder import Encoder
from ...findings.results import Curve, Result
from ...findings.words import number, p_value
from ...inference.answers import Answers
from ...inference.baselines import Standing
from ...inference.holm import holm
from ...scores.table import find_score
from ...tasks.items import Split
from ...tasks.task import Task
from ...training.recipe import Recipe
from ..baselines import below_baseline
from ..run_curves import (
    MARGIN,
    Points,
    beyond_margin,
    compared,
    curves_of,
    gathered,
    lost,
    said_loss,
    tested_unit,
    within_margin,
)
from ..runs import Done, open_encoder, open_task, run_all
from .reinit_plan import AXES, FULL, SCRATCH, TRUNCATED, Arm, arms
from .reinit_plan import planned as planned
from .result import grid_result as concluded


@checked
def reinitialization(
    encoder: Encoder | Mapping[str, Any],
    task: Task | Mapping[str, Any],
    *,
    plan: str | Sequence[str] = "progressive",
    width: int = 3,
    schemes: str | Sequence[str] = ("library",),
    bias: Any = None,
    layernorm: str | Sequence[str] = "reset",
    sizes: int | Sequence[int | None] | None = (None,),
    seeds: int | Sequence[int] = (1, 2, 3),
    reinit_seed: int | None = None,
    control: bool = True,
    fixed_updates: int | None = None,
    recipe: str | Recipe = "tamkin2020",
    level: float = 0.95,
    **options: Any,
) -> Result:
    """
    Draw the weights of some blocks anew, fine-tune all, and see what is missed.

    Parameters
    ----------
    encoder : Encoder or mapping
        A mapping is what `load` is called with, which `at_once` needs.
    task : Task or mapping
    plan : {"progressive", "blocks", "inverse", "single"} or several
        Redraw all blocks above the first k, for every k; every run of `width` blocks; all but such a run;
        every single block. The last three come with the full model and one with all blocks redrawn.
    width : int
    schemes, bias, layernorm : str or several
        How weights are drawn; see `Reinit`. Of several, every combination is a curve.
    sizes : int, None or several
        Examples to train on; None is all. Those of a seed are the same at every point.
    seeds : int or sequence of int
    reinit_seed : int, optional
        Of the drawn weights; that of the run when absent.
    control : bool
        Whether models with the same blocks kept and none above them are fine-tuned beside the progressive
        plan: what redrawn blocks do better than that, depth alone may explain.
    fixed_updates : int, optional
        Also train everything with so many updates: with fewer examples a recipe of passes makes fewer.
    recipe : str or Recipe
    level : float
    **options
        Of `run_all` (at_once, threads, device, dtype, store, keep_models, progress, command), of
        `finetune`, and values of the recipe.

    Returns
    -------
    Result
        A curve for each plan, scheme and size, and one of its differences from the full model on as many
        examples.
    """
    started = time.monotonic()
    level, seeds = check_level(level), check_seeds(seeds)
    opened, asked = open_encoder(encoder), open_task(task)
    which: dict[str, Any] = {
        "plan": plan,
        "schemes": schemes,
        "bias": bias,
        "layernorm": layernorm,
        "sizes": sizes,
        "control": control,
        "fixed_updates": fixed_updates,
    }
    runs = planned(opened, width=width, seeds=seeds, reinit_seed=reinit_seed, **which)
    apart = options.get("at_once", 1) != 1
    done = run_all(encoder if apart else opened, task if apart else asked, runs, recipe=recipe, **options)
    found = _Found(
        task=asked, done=tuple(done), split=asked.split(asked.validation), depth=opened.depth, level=level
    )
    curves: list[Curve] = []
    said: list[str] = []
    lines: dict[str, float] = {}
    weak: dict[str, Standing] = {}
    for arm in arms(**which):
        if arm.plan in (FULL, SCRATCH):
            level_line = found.curves(arm)[0].values[0]
            lines[arm.name] = float(level_line)
            continue
        some = found.curves(arm)
        curves += some
        if len(some) > 1:
            standing = below_baseline(asked, found.full(arm), done, level=level)
            if standing is None:
                said += found.said(arm, some[1], width)
            else:
                weak[some[1].name] = standing
                said.append(f"{arm.name}: {standing.sentence('the full model')}")
    return concluded(
        "reinitialization",
        opened,
        asked,
        done,
        curves=curves,
        findings=said,
        how=_methods(opened, several(plan), several(schemes), width, control),
        references=("tamkin2020", *(("merchant2020",) if control else ())),
        recipe=recipe,
        options=options,
        level=level,
        started=started,
        lines={name: value for name, value in lines.items() if value == value},
        more={"width": width, "plans": list(several(plan)), "schemes": list(several(schemes))},
        weak=weak,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """All runs, and what can be asked of them."""

    task: Task
    done: tuple[Done, ...]
    split: Split
    depth: int
    level: float

    def points(self, arm: Arm) -> Points:
        return gathered(self.done, self.split, arm.name)

    def full(self, arm: Arm) -> Answers | None:
        """The full model on the same examples: the arm's own, so that it differs from itself by nothing."""
        own = arm.plan in ("progressive", TRUNCATED, FULL)
        return self.points(arm if own else arm.like(FULL)).at(self.depth)

    def curves(self, arm: Arm) -> list[Curve]:
        points = self.points(arm)
        # A point is the reference itself only if it is the same object.
        own = arm.plan in ("progressive", TRUNCATED, FULL)
        full = points.at(self.depth) if own else self.full(arm)
        axis = AXES.get(arm.plan, "blocks kept")
        return curves_of(points, self.task, full, axis=axis, level=self.level, against="the full model")

    def said(self, arm: Arm, curve: Curve, width: int) -> list[str]:
        if arm.plan == TRUNCATED:
            return []
        if arm.plan == "progressive":
            return [*self._progressive(arm, curve), *self._against_depth(arm)]
        return self._windows(arm, curve, width)

    def _progressive(self, arm: Arm, curve: Curve) -> list[str]:
        score, said = find_score(self.task.main), []
        safe, bad = within_margin(curve, score), beyond_margin(curve, score)
        rest = [place for place in safe if curve.x[place] != self.depth]
        if rest:
            place = min(rest, key=lambda at: int(curve.x[at]))
            count = self.depth - int(curve.x[place])
            said.append(
                f"{arm.name}: with the top {count} of {self.depth} blocks redrawn, a loss of more than "
                f"{MARGIN:g} point is ruled out: {said_loss(curve, place, score, bound='most')}."
            )
        if bad:
            place = max(bad, key=lambda at: int(curve.x[at]))
            count = self.depth - int(curve.x[place])
            said.append(
                f"{arm.name}: redrawing the top {count} blocks costs more than {MARGIN:g} point: "
                f"{said_loss(curve, place, score, bound='least')}."
            )
        return said or [
            f"{arm.name}: where the loss passes {MARGIN:g} point is not sure at any number of blocks."
        ]

    def _against_depth(self, arm: Arm) -> list[str]:
        """Whether redrawn blocks are better than none."""
        drawn, cut = self.points(arm), self.points(arm.like(TRUNCATED))
        ks = [k for k in drawn.x if k in cut.x and k != self.depth]
        found = [(k, compared(self.task, drawn.at(k), cut.at(k), level=self.level)) for k in ks]
        tested = [(k, one) for k, one in found if one is not None]
        if not tested:
            return []
        p = holm([one.p for _, one in tested])
        sure = [(k, one, p[i]) for i, (k, one) in enumerate(tested) if p[i] < 1 - self.level]
        if not sure:
            return [
                f"{arm.name}: at none of {len(tested)} depths is it sure that redrawn blocks do better or "
                "worse than none in their place."
            ]
        said = []
        for k, one, adjusted in sure:
            points = one.difference * one.points
            verb = "better" if points > 0 else "worse"
            said.append(
                f"{arm.name}: with {k} blocks kept, redrawing the others is {verb} than leaving them out by "
                f"{number(abs(points))} points ({p_value(adjusted)}, unit: {tested_unit(one)}, adjusted for "
                f"{len(tested)} tests)."
            )
        return said

    def _windows(self, arm: Arm, curve: Curve, width: int) -> list[str]:
        score = find_score(self.task.main)
        value = lost(curve, score)[0]
        known = [place for place in range(len(curve.x)) if value[place] == value[place]]
        if not known:
            return []
        size = 1 if arm.plan == "single" else width
        worst, best = (pick(known, key=lambda at: value[at]) for pick in (max, min))
        verb = "keeping only" if arm.plan == "inverse" else "redrawing"

        def named(place: int) -> str:
            first = int(curve.x[place])
            return f"block {first}" if size == 1 else f"blocks {first} to {first + size - 1}"

        if value[worst] == value[best]:
            return [f"{arm.name}: {verb} any of them costs alike, {said_loss(curve, worst, score)}."]
        return [
            f"{arm.name}: {verb} {named(worst)} costs most, {said_loss(curve, worst, score)}; {verb} "
            f"{named(best)} costs least, {said_loss(curve, best, score)}."
        ]


def _methods(encoder: Any, plans: Sequence[str], schemes: Sequence[str], width: int, control: bool) -> str:
    told = {
        "progressive": "all blocks above the first k were redrawn, for every k",
        "blocks": f"each run of {width} consecutive blocks was redrawn",
        "inverse": f"all but each run of {width} consecutive blocks were redrawn",
        "single": "each block alone was redrawn",
    }
    beside = " Models that had their upper blocks left out instead served as a control." if control else ""
    return (
        f"In {encoder.name}, of {encoder.depth} blocks, before fine-tuning: "
        f"{'; '.join(told[plan] for plan in plans)}. Weights were drawn by the schemes "
        f"{', '.join(schemes)}; embeddings stayed.{beside}"
    )
