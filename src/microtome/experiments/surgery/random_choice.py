"""Intervals over random draws: each draw counts once, whatever its number of seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...findings.intervals import Unit
from ...findings.results import Curve, X
from ...inference.estimate import Confidence, quantile
from ...inference.scoring import example_groups, freedom, unit_influence, unit_of
from ...inference.simultaneous import spread
from ...scores.table import find_score
from ...tasks.task import Task
from ..run_curves import counts, join_reasons
from ..runs import Done

DRAWN = "intervals are over draws of blocks, each the mean of its seeds"
_ENDS = ("low", "high", "band_low", "band_high")


def curves_over_draws(
    curves: Sequence[Curve], outcomes: Sequence[Done], task: Task, arm: str, reference: X
) -> list[Curve]:
    """
    Take draws as the independent unit, not each draw with each seed.

    Parameters
    ----------
    curves : sequence of Curve
        Of `curves_of`: the scores of an arm, and their differences from its point `reference`.
    outcomes : sequence of Done
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
    for outcome in outcomes:
        run, answers = outcome.run, outcome.answers
        if run.arm == arm and counts(outcome):
            # The seeds of a draw are one unit; without draws, each seed is.
            unit = run.draw, 0 if run.draw else run.seed
            influence = unit_influence(score, answers, targets, task.labels, clusters)
            value = float(score.compute(answers, targets, task.labels))
            points.setdefault(run.x, {}).setdefault(unit, []).append((influence, value))
    sides = {
        x: (
            np.stack([np.mean([psi for psi, _ in runs], axis=0) for runs in units.values()]),
            np.array([np.mean([value for _, value in runs]) for runs in units.values()], dtype=np.float64),
        )
        for x, units in points.items()
    }
    corrected = []
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
                few[at] = "one draw does not cover others"
            value = parts[0][1].mean() - sum(v.mean() for _, v in against)
            fields["values"][at] = value
            if not spreads.se:
                continue  # all draws agree on every example: any unit gives the same interval
            for names, level in (
                (_ENDS[:2], curve.level),
                (_ENDS[2:], 1 - (1 - curve.level) / len(estimated)),
            ):
                reach = spreads.arm(Confidence(level=level).reach)
                for name, sign in zip(names, (-1, 1), strict=True):
                    fields[name][at] = np.clip(value + sign * reach, *ends)
        reasons = join_reasons(curve.reasons, few)
        corrected.append(replace(curve, **fields, unit=Unit(unit_of(clusters), "draw"), reasons=reasons))
    return corrected


def score_by_draw(outcomes: Sequence[Done], arm: str, x: X) -> list[float]:
    """Mean score over seeds for each draw, without runs that diverged."""
    scores: dict[int, list[float]] = {}
    for outcome in outcomes:
        run = outcome.run
        if run.arm == arm and run.x == x and counts(outcome) and math.isfinite(outcome.score):
            scores.setdefault(run.draw, []).append(outcome.score)
    return [float(np.mean(values)) for values in scores.values()]


def welch_reach(values: np.ndarray, reference: np.ndarray, level: float) -> float:
    """Half the width of Welch's interval of a mean minus the mean of a reference that varies too."""
    parts = [(side.var(ddof=1) / len(side), len(side) - 1) for side in (values, reference) if len(side) > 1]
    total = sum(part for part, _ in parts)
    if not total:
        return 0.0
    dof = total**2 / sum(part**2 / free for part, free in parts)
    return quantile(level, dof) * math.sqrt(total)
