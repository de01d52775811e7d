"""What do random draws say together? Each draw counts once, however many seeds it was trained with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...findings.results import Curve, X
from ...inference.scoring import example_groups, freedom, quantile, unit_influence, unit_of
from ...inference.simultaneous import spread
from ...scores.table import find_score
from ...tasks.task import Task
from ..run_curves import both_said, counts
from ..runs import Done

DRAWN = "draws of blocks are the runs that count, each the mean of its seeds"
_ENDS = ("low", "high", "band_low", "band_high")


def curves_over_draws(
    curves: Sequence[Curve], done: Sequence[Done], task: Task, arm: str, reference: X
) -> list[Curve]:
    """
    Take draws as what is independent, not each draw with each seed.

    Parameters
    ----------
    curves : sequence of Curve
        Of `curves_of`: the scores of an arm, and how they differ from those of its point `reference`.
    done : sequence of Done
    task : Task
    arm : str
    reference : int, float or str

    Returns
    -------
    list of Curve
        Each value is a mean over draws of the mean over seeds of a draw. Intervals are t over draws and
        examples (over seeds, where nothing is drawn); bands are those of Bonferroni. Draws count with as
        many degrees of freedom as there are, also at a point where they agree by luck.
    """
    split, score = task.split(task.validation), find_score(task.main)
    targets = tuple(item.target for item in split)
    clusters = example_groups(tuple(item.group for item in split), len(targets))
    dof = freedom(clusters, len(targets))
    points: dict[X, dict[tuple[int, int], list[tuple[np.ndarray, float]]]] = {}
    for one in done:
        if one.run.arm == arm and counts(one):
            # Seeds of one draw are one run; where nothing is drawn, each seed is.
            key = one.run.draw, 0 if one.run.draw else one.run.seed
            found = unit_influence(score, one.answers, targets, task.labels, clusters)
            told = float(score.compute(one.answers, targets, task.labels))
            points.setdefault(one.run.x, {}).setdefault(key, []).append((found, told))
    sides = {
        x: (
            np.stack([np.mean([psi for psi, _ in some], axis=0) for some in by_draw.values()]),
            np.array([np.mean([value for _, value in some]) for some in by_draw.values()], dtype=np.float64),
        )
        for x, by_draw in points.items()
    }
    out = []
    for place, curve in enumerate(curves):
        against = [sides[reference]] if place else []
        estimated = [x for x in sides if not (place and x == reference)]
        ends = (-math.inf, math.inf) if place else score.range
        fields = {name: getattr(curve, name).copy() for name in ("values", *_ENDS)}
        few: list[str | None] = [None] * len(curve.x)
        for x in estimated:
            parts = [sides[x], *against]
            spreads = spread([psi for psi, _ in parts], [v for _, v in parts], dof, pair_seeds=False)
            at = curve.x.index(x)
            if x != reference and len(sides[x][1]) == 1:
                few[at] = "one draw says nothing of others"
            value = parts[0][1].mean() - sum(v.mean() for _, v in against)
            fields["values"][at] = value
            if not spreads.se:
                continue  # all draws do the same on every example: then any unit gives the same interval
            for names, level in (
                (_ENDS[:2], curve.level),
                (_ENDS[2:], 1 - (1 - curve.level) / len(estimated)),
            ):
                reach = spreads.alone(level)
                for name, sign in zip(names, (-1, 1), strict=True):
                    fields[name][at] = np.clip(value + sign * reach, *ends)
        unit = f"{unit_of(clusters)} and draw"
        out.append(replace(curve, **fields, unit=unit, reasons=both_said(curve.reasons, few)))
    return out


def score_by_draw(done: Sequence[Done], arm: str, x: Any) -> list[float]:
    """Mean score over the seeds that count, for each draw."""
    found: dict[int, list[float]] = {}
    for one in done:
        if one.run.arm == arm and one.run.x == x and counts(one) and math.isfinite(one.score):
            found.setdefault(one.run.draw, []).append(one.score)
    return [float(np.mean(values)) for values in found.values()]


def welch_reach(values: np.ndarray, whole: np.ndarray, level: float) -> float:
    """Half of Welch's interval: the orders vary, and so does what all of them are held against."""
    parts = [(side.var(ddof=1) / len(side), len(side) - 1) for side in (values, whole) if len(side) > 1]
    total = sum(part for part, _ in parts)
    if not total:
        return 0.0
    dof = total**2 / sum(part**2 / free for part, free in parts)
    return quantile(level, dof) * math.sqrt(total)
