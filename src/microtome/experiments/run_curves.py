"""What do many runs say together? Points with their sound runs, curves with bands, and sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..findings.intervals import bound_for_all, with_own_interval
from ..findings.results import Curve, X
from ..findings.scorecurves import difference_curve, score_curve
from ..inference.answers import Answers
from ..inference.pairing import Comparison, compare_scores
from ..scores.declare import Score
from ..scores.table import find_score
from ..tasks.items import Split
from ..tasks.task import Task
from .models import as_answers
from .runs import Done

MARGIN = 1.0  # points of 100 that findings call a loss
COLLAPSED = "collapsed"  # how the failure of a run begins that gave one answer to everything


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """
    The runs of one arm, put together by the point they belong to.

    Parameters
    ----------
    arm : str
    x : tuple
    answers : tuple of (Answers or None)
        Of the sound runs of each point; None where there is none.
    failed : tuple of (x, name, reason)
        Runs that diverged.
    same : tuple of (str or None)
        For each point, how many of its runs gave one answer to everything: what was done to the model may
        be why, so they count.
    """

    arm: str
    x: tuple[X, ...]
    answers: tuple[Answers | None, ...]
    failed: tuple[tuple[X, int | str, str], ...]
    same: tuple[str | None, ...] = ()

    def at(self, x: X) -> Answers | None:
        """What the sound runs of one point answered."""
        return dict(zip(self.x, self.answers, strict=True)).get(x)


def gathered(done: Sequence[Done], split: Split, arm: str) -> Points:
    """
    Put the runs of an arm together.

    Parameters
    ----------
    done : sequence of Done
        Of all arms.
    split : Split
        That they answered.
    arm : str

    Returns
    -------
    Points
        In the order in which the points come first.
    """
    mine = [one for one in done if one.run.arm == arm]
    points: dict[X, list[Done]] = {}
    for one in mine:
        points.setdefault(one.run.x, []).append(one)
    sound = {x: [one for one in some if counts(one)] for x, some in points.items()}
    answers = [
        as_answers(split, [one.answers for one in some], [one.run.name for one in some]) if some else None
        for some in sound.values()
    ]
    failed = tuple((one.run.x, one.run.name, one.failure or "") for one in mine if not counts(one))
    same = tuple(_said_same(some) for some in points.values())
    return Points(arm=arm, x=tuple(points), answers=tuple(answers), failed=failed, same=same)


def counts(one: Done) -> bool:
    """Whether a run is averaged with others: all are that did not diverge, also with one answer to all."""
    return one.failure is None or one.failure.startswith(COLLAPSED)


def _said_same(some: Sequence[Done]) -> str | None:
    """Say how many runs of a point gave one answer to everything."""
    bad = sum(one.failure is not None and counts(one) for one in some)
    if not bad:
        return None
    told = "run" if len(some) == 1 else "runs"
    verb = "counts" if bad == 1 else "count"
    return f"{bad} of {len(some)} {told} gave one answer to everything, and {verb}"


def curves_of(
    points: Points,
    task: Task,
    reference: Answers | None,
    *,
    axis: str,
    level: float,
    against: str,
    pair_seeds: bool = False,
    note: str = "",
) -> list[Curve]:
    """
    Draw an arm: its scores, and how they differ from a reference on the same examples.

    Parameters
    ----------
    points : Points
    task : Task
    reference : Answers or None
        Without one there is no curve of differences.
    axis : str
        What x is.
    level : float
    against : str
        What the reference is, in words.
    pair_seeds : bool
        Whether one training runs through all points. Models that were trained apart are not pairs for
        having equal seeds: then examples are paired, and seeds are not.
    note : str
        What a reader must know of the runs.

    Returns
    -------
    list of Curve
        The second is called "difference" and the name of the arm.
    """
    given: dict[str, Any] = {"axis": axis, "level": level, "pair_seeds": pair_seeds, "failed": points.failed}
    found = [score_curve(points.arm, points.x, points.answers, task.main, task.labels, note=note, **given)]
    if reference is not None:
        found.append(
            difference_curve(
                f"difference {points.arm}",
                points.x,
                points.answers,
                reference,
                task.main,
                task.labels,
                note="; ".join([f"score minus that of {against}", *([note] if note else [])]),
                **given,
            )
        )
    return [replace(one, reasons=both_said(one.reasons, points.same)) for one in found]


def both_said(reasons: Sequence[str | None], more: Sequence[str | None]) -> tuple[str | None, ...]:
    """Say both of each point."""
    pairs = zip(reasons, more or (None,) * len(reasons), strict=True)
    return tuple("; ".join(one for one in pair if one) or None for pair in pairs)


def lost(
    curve: Curve, score: Score, ends: tuple[str, str] = ("band_low", "band_high")
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Turn differences into losses in points of 100.

    Parameters
    ----------
    curve : Curve
        Of differences.
    score : Score
    ends : pair of str
        Those of the simultaneous band, or ("low", "high") for those of each point alone.

    Returns
    -------
    value, least, most : ndarray of shape (points,)
        Positive where something is lost.
    """
    low, high = (getattr(curve, name) for name in ends)
    sides = (-curve.values, -high, -low) if score.higher_is_better else (curve.values, low, high)
    value, least, most = (score.points * (side + 0.0) for side in sides)
    return value, least, most


def said_loss(
    curve: Curve,
    place: int,
    score: Score,
    by_seed: Sequence[float] = (),
    *,
    bound: str = "",
    family: str = "all points",
) -> str:
    """
    Say the loss at one point of a curve of differences, with its own interval.

    Parameters
    ----------
    curve : Curve
    place : int
    score : Score
    by_seed : sequence of float
        What each seed lost there, in points of 100.
    bound : {"", "most", "least"}
        Which end of the band of all points a claim rests on, to be told with it.
    family : str
        What these points are.
    """
    value, low, high = (float(side[place]) for side in lost(curve, score, ("low", "high")))
    text = with_own_interval(
        value,
        low,
        high,
        level=curve.level,
        unit=curve.unit,
        noun="points",
        seeds=curve.seeds[place],
        by_seed=by_seed,
        points=score.points,
    )
    if not bound:
        return text
    least, most = (float(side[place]) for side in lost(curve, score)[1:])
    return f"{text}{bound_for_all(bound, most if bound == 'most' else least, family)}"


def within_margin(curve: Curve, score: Score, margin: float = MARGIN) -> list[int]:
    """Places of the points at which the band rules out a loss of more than a margin, in points of 100."""
    most = lost(curve, score)[2]
    return [place for place in range(len(curve.x)) if math.isfinite(most[place]) and most[place] <= margin]


def beyond_margin(curve: Curve, score: Score, margin: float = MARGIN) -> list[int]:
    """Places of the points at which the band rules out a loss of less than a margin."""
    least = lost(curve, score)[1]
    return [place for place in range(len(curve.x)) if math.isfinite(least[place]) and least[place] > margin]


def compared(task: Task, one: Answers | None, other: Answers | None, *, level: float) -> Comparison | None:
    """Compare two points on the same examples; None where one has no sound run."""
    if one is None or other is None:
        return None
    return compare_scores(find_score(task.main), one, other, labels=task.labels, level=level)


def tested_unit(found: Comparison) -> str:
    """What the test of a comparison took as independent."""
    if found.interval is not None:
        return found.interval.unit
    return "example and seed" if max(found.seeds) > 1 else "example"


def rows_of(done: Sequence[Done], **more: Any) -> tuple[dict[str, Any], ...]:
    """
    Make the long table: one record a run.

    Parameters
    ----------
    done : sequence of Done
    **more
        Columns for all of them.

    Returns
    -------
    tuple of dict
    """
    return tuple(
        {
            "arm": one.run.arm,
            "x": one.run.x,
            "seed": one.run.seed,
            "draw": one.run.draw,
            "score": one.score if math.isfinite(one.score) else None,
            "failure": one.failure,
            "interventions": "; ".join(map(repr, one.run.interventions)),
            "options": ", ".join(f"{name}={value!r}" for name, value in sorted(one.run.options.items())),
            "updates": one.course.get("updates"),
            "seconds": one.course.get("seconds"),
            "address": one.address,
            **more,
        }
        for one in done
    )


def failures(done: Sequence[Done]) -> tuple[str, ...]:
    """Say which runs diverged, each once, and where runs gave one answer to everything."""
    bad = {one.address: one for one in reversed(done) if not counts(one)}
    left = [
        f"{one.run.arm} {one.run.x}, seed {one.run.name} was left out: {one.failure}."
        for one in reversed(bad.values())
    ]
    points: dict[tuple[str, X], list[Done]] = {}
    for one in done:
        points.setdefault((one.run.arm, one.run.x), []).append(one)
    same = [(arm, x, _said_same(some)) for (arm, x), some in points.items()]
    return (*left, *(f"{arm} {x}: {told}." for arm, x, told in same if told))
