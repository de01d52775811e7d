"""What do many runs say together? Points with their sound runs, curves with bands, and sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import must
from ..findings.results import Curve, X
from ..findings.scorecurves import difference_curve, score_curve
from ..findings.words import number
from ..inference.answers import Answers
from ..inference.pairing import Comparison, compare_scores
from ..tasks.items import Split
from ..tasks.scores import find_score
from ..tasks.scores_declare import Score
from ..tasks.task import Task
from .models import as_answers
from .runs import Done, Run

MARGIN = 1.0  # points of 100 that findings call a loss


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
        Runs that diverged or collapsed.
    """

    arm: str
    x: tuple[X, ...]
    answers: tuple[Answers | None, ...]
    failed: tuple[tuple[X, int | str, str], ...]

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
    sound = {x: [one for one in some if one.failure is None] for x, some in points.items()}
    answers = [
        as_answers(split, [one.answers for one in some], [one.run.name for one in some]) if some else None
        for some in sound.values()
    ]
    failed = tuple((one.run.x, one.run.name, one.failure) for one in mine if one.failure is not None)
    return Points(arm=arm, x=tuple(points), answers=tuple(answers), failed=failed)


def arms_of(runs: Sequence[Run] | Sequence[Done]) -> tuple[str, ...]:
    """Names of the arms, in the order in which they come first."""
    return tuple(dict.fromkeys((one.run if isinstance(one, Done) else one).arm for one in runs))


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
    return found


def lost(curve: Curve, score: Score) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Turn differences into losses in points of 100.

    Parameters
    ----------
    curve : Curve
        Of differences.
    score : Score

    Returns
    -------
    value, least, most : ndarray of shape (points,)
        Positive where something is lost, with the ends of the simultaneous band.
    """
    if score.higher_is_better:
        ends = -curve.values, -curve.band_high, -curve.band_low
    else:
        ends = curve.values, curve.band_low, curve.band_high
    value, least, most = (score.points * (one + 0.0) for one in ends)
    return value, least, most


def said_loss(curve: Curve, place: int, score: Score) -> str:
    """Say the loss at one point of a curve of differences, with its band."""
    value, least, most = (float(one[place]) for one in lost(curve, score))
    text = f"{number(value)} points"
    if math.isfinite(least) and math.isfinite(most):
        text += (
            f" [{number(least)}, {number(most)}] ({curve.level * 100:g}% for all points, unit: {curve.unit})"
        )
    return text


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


def holm(p: Sequence[float]) -> list[float]:
    """
    Adjust probabilities of several tests by Holm's method.

    Parameters
    ----------
    p : sequence of float
        NaN where there is no test.

    Returns
    -------
    list of float

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    out = [math.nan] * len(p)
    order = sorted((place for place, one in enumerate(p) if not math.isnan(one)), key=lambda place: p[place])
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p[place]))
        out[place] = largest
    return out


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
    """Say which runs failed, each once."""
    bad = {one.address: one for one in reversed(done) if one.failure is not None}
    return tuple(
        f"{one.run.arm} {one.run.x}, seed {one.run.name} was left out: {one.failure}."
        for one in reversed(bad.values())
    )


def check_seeds(seeds: Any) -> tuple[int, ...]:
    """Take one seed or several, each once."""
    found = (seeds,) if isinstance(seeds, int) else tuple(seeds)
    if not found or len(set(found)) != len(found):
        raise must("seeds", "one or more, each once", list(found))
    return found


def several(given: Any) -> tuple[Any, ...]:
    """Take one value or several."""
    return tuple(given) if isinstance(given, list | tuple | range | set | frozenset) else (given,)
