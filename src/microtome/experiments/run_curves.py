"""Curves of experiments that fine-tune: runs gathered by point or by random draw, and tables of the runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..context import Context
from ..findings.results import Curve, X
from ..findings.scorecurves import difference_curve, score_curve
from ..findings.words import Unit
from ..inference.answers import Answers
from ..inference.estimate import Confidence, quantile
from ..inference.scoring import ScoredExamples, example_groups
from ..inference.simultaneous import spread
from ..scores.table import find_score
from ..tasks.task import Split, Task
from ..training.cut_store import as_answers
from .runs import Done, Run

DRAWN = "intervals are over draws of blocks, each the mean of its seeds"
_ENDS = ("low", "high", "band_low", "band_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPoints:
    """
    The runs of one arm, by the point they belong to.

    Parameters
    ----------
    arm : str
    x : tuple
    answers : tuple of (Answers or None)
        Predictions of the runs of each point that did not diverge; None where all did.
    failed : tuple of (x, name, reason)
        Runs that diverged.
    collapsed : tuple of (str or None)
        For each point, how many of its runs predict one class for every example. They are included: the
        intervention may be the cause.
    """

    arm: str
    x: tuple[X, ...]
    answers: tuple[Answers | None, ...]
    failed: tuple[tuple[X, int | str, str], ...]
    collapsed: tuple[str | None, ...] = ()

    def at(self, x: X) -> Answers | None:
        """The predictions at one point; None where all runs diverged."""
        return dict(zip(self.x, self.answers, strict=True)).get(x)


def gather_points(outcomes: Sequence[Done], split: Split, arm: str) -> RunPoints:
    """
    Gather the runs of an arm by point.

    Parameters
    ----------
    outcomes : sequence of Done
        Of all arms.
    split : Split
        The split of their predictions.
    arm : str

    Returns
    -------
    RunPoints
        In the order in which the points come first.
    """
    points: dict[X, list[Done]] = {}
    for outcome in outcomes:
        if outcome.run.arm == arm:
            points.setdefault(outcome.run.x, []).append(outcome)
    answers, failed = [], []
    for at_point in points.values():
        sound = [outcome for outcome in at_point if counts(outcome)]
        predictions = [outcome.answers for outcome in sound]
        answers.append(as_answers(split, predictions, [o.run.name for o in sound]) if sound else None)
    for outcome in outcomes:
        if outcome.run.arm == arm and not counts(outcome):
            failed.append((outcome.run.x, outcome.run.name, outcome.failure or ""))
    return RunPoints(
        arm=arm,
        x=tuple(points),
        answers=tuple(answers),
        failed=tuple(failed),
        collapsed=tuple(_collapsed_note(at_point) for at_point in points.values()),
    )


def counts(outcome: Done) -> bool:
    """Whether a run is included in means: all are that did not diverge, also with one predicted class."""
    return outcome.failure is None or outcome.failure.kind == "collapsed"


def _collapsed_note(outcomes: Sequence[Done]) -> str | None:
    """How many runs of a point predict one class for every example, in words."""
    collapsed = sum(outcome.failure is not None and counts(outcome) for outcome in outcomes)
    if not collapsed:
        return None
    runs = "run" if len(outcomes) == 1 else "runs"
    predict, are = ("predicts", "is") if collapsed == 1 else ("predict", "are")
    return f"{collapsed} of {len(outcomes)} {runs} {predict} one class for every example, and {are} included"


def curves_of(
    points: RunPoints,
    task: Task,
    reference: Answers | None,
    *,
    axis: str,
    context: Context,
    against: str,
    pair_seeds: bool = False,
    note: str = "",
) -> list[Curve]:
    """
    Make the curves of an arm: its scores, and their differences from a reference on the same examples.

    Parameters
    ----------
    points : RunPoints
    task : Task
    reference : Answers or None
        Without one there is no curve of differences.
    axis : str
        Label of x.
    context : Context
    against : str
        The reference, in words.
    pair_seeds : bool
        Whether one trained model is behind all points of a seed. Models of separate trainings are paired by
        example only, also where their seeds are equal.
    note : str
        A note on the runs for the reader.

    Returns
    -------
    list of Curve
        The second is called "difference" and the name of the arm.
    """
    shared: dict[str, Any] = {
        "axis": axis,
        "level": context.level,
        "pair_seeds": pair_seeds,
        "failed": points.failed,
        "arm": points.arm,
    }
    curves = [score_curve(points.arm, points.x, points.answers, task.main, task.labels, note=note, **shared)]
    if reference is not None:
        curves.append(
            difference_curve(
                f"difference {points.arm}",
                points.x,
                points.answers,
                reference,
                task.main,
                task.labels,
                note="; ".join([f"score minus that of {against}", *([note] if note else [])]),
                label=points.arm,
                against=against,
                **shared,
            )
        )
    return [replace(curve, reasons=join_reasons(curve.reasons, points.collapsed)) for curve in curves]


def join_reasons(reasons: Sequence[str | None], further: Sequence[str | None]) -> tuple[str | None, ...]:
    """
    Join the reasons of each point.

    Examples
    --------
    >>> join_reasons(["one seed", None], ["all equal", None])
    ('one seed; all equal', None)
    """
    pairs = zip(reasons, further or (None,) * len(reasons), strict=True)
    return tuple("; ".join(reason for reason in pair if reason) or None for pair in pairs)


def rows_of(
    outcomes: Sequence[Done], task: str, columns: Callable[[Run], Mapping[str, Any]] | None = None
) -> tuple[dict[str, Any], ...]:
    """
    Make the long table: one record per run.

    Parameters
    ----------
    outcomes : sequence of Done
    task : str
    columns : callable, optional
        Further columns of a run.

    Returns
    -------
    tuple of dict
    """
    return tuple(
        {
            "arm": outcome.run.arm,
            "x": outcome.run.x,
            "seed": outcome.run.seed,
            "draw": outcome.run.draw,
            "score": outcome.score if math.isfinite(outcome.score) else None,
            "failure": outcome.failure,
            "interventions": "; ".join(map(repr, outcome.run.interventions)),
            "options": ", ".join(f"{name}={value!r}" for name, value in sorted(outcome.run.options.items())),
            "updates": outcome.course.get("updates"),
            "seconds": outcome.course.get("seconds"),
            "address": outcome.address,
            "task": task,
            **(columns(outcome.run) if columns else {}),
        }
        for outcome in outcomes
    )


def failures(outcomes: Sequence[Done]) -> tuple[str, ...]:
    """Warnings about runs that diverged, each once, and points where runs predict one class."""
    diverged = {outcome.address: outcome for outcome in reversed(outcomes) if not counts(outcome)}
    excluded = [
        f"{outcome.run.arm} {outcome.run.x}, seed {outcome.run.name} is excluded: {outcome.failure}."
        for outcome in reversed(diverged.values())
    ]
    points: dict[tuple[str, X], list[Done]] = {}
    for outcome in outcomes:
        points.setdefault((outcome.run.arm, outcome.run.x), []).append(outcome)
    notes = [(arm, x, _collapsed_note(at_point)) for (arm, x), at_point in points.items()]
    return (*excluded, *(f"{arm} {x}: {note}." for arm, x, note in notes if note))


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
    n, clusters = len(targets), example_groups(tuple(item.group for item in split), len(targets))
    examples = ScoredExamples(score=score, labels=task.labels, n=n, clusters=clusters)
    points: dict[X, dict[tuple[int, int], list[tuple[np.ndarray, float]]]] = {}
    for outcome in outcomes:
        run, answers = outcome.run, outcome.answers
        if run.arm == arm and counts(outcome):
            # The seeds of a draw are one unit; without draws, each seed is.
            unit = run.draw, 0 if run.draw else run.seed
            influence = examples.influence(answers, targets)
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
            spreads = spread([psi for psi, _ in parts], [v for _, v in parts], examples.dof, pair_seeds=False)
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
        corrected.append(replace(curve, **fields, unit=Unit(examples.unit, "draw"), reasons=reasons))
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
