"""Results of experiments: how they are put together, their majority baseline, and quantities of claims."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..encoders.versions import provenance as full_provenance
from ..findings.claims.claim import Quantity
from ..findings.results import WEAK, Curve, Result
from ..scores.declare import Score
from ..scores.table import find_score
from ..tasks.baselines import baseline
from ..tasks.task import Split, Task
from ..training.evaluating import guessed_from
from ..version import VERSION

GUESS = "majority baseline"


def make_result(
    experiment: str,
    task: Task | str,
    split: str,
    *,
    score: Score | str | None = None,
    started: float,
    methods: str,
    provenance: Mapping[str, Any],
    **fields: Any,
) -> Result:
    """
    Put the result of an experiment together.

    Parameters
    ----------
    experiment : str
    task : Task or str
        A task, which is recorded; or the name of an annotation or a text.
    split : str
        What was scored, or the text that was compared on.
    score : Score or str, optional
        The main score of a task when absent; a name stands for a similarity, without points.
    started : float
        Start of the run, by `time.monotonic`.
    methods : str
        What was done; the version is added.
    provenance : mapping
        What it takes to make the result again, beside the task, the time, and the versions.
    **fields
        Further fields of the result; lists become tuples, and a warning is there once.

    Returns
    -------
    Result
    """
    facts = dict(provenance)
    if isinstance(task, Task):
        facts |= {"task": task.digest(split), "task_source": task.source}
        task, score = task.name, score or find_score(task.main)
    scored: dict[str, Any] = {"score": score, "points": 1.0}
    if isinstance(score, Score):
        higher = score.higher_is_better
        scored = {"score": score.name, "points": score.points, "higher_is_better": higher}
    weak = {
        claim.facts["curve"]: {name: claim.facts[name] for name in ("value", "baseline", "ahead")}
        for claim in fields.get("claims", ())
        if claim.kind == "baseline"
    }
    more = {**fields.pop("more", {}), **({WEAK: weak} if weak else {})}
    warnings = tuple(dict.fromkeys(fields.pop("warnings", ())))
    lists: dict[str, Any] = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    seconds = round(time.monotonic() - started, 3)
    return Result(
        experiment=experiment,
        task=task,
        split=split,
        **scored,
        methods=f"{methods} Computed with microtome {VERSION}.",
        warnings=warnings,
        more=MappingProxyType(more),
        provenance=MappingProxyType(full_provenance({**facts, "seconds": seconds})),
        **{**fields, **lists},
    )


def guess_line(task: Task, split: Split) -> dict[str, float]:
    """Score the majority baseline of the whole training split, by its name, where it is known."""
    train = guessed_from(task)
    if train is None or task.kind == "language_modeling":
        return {}
    targets = [item.target for item in split]
    answers = baseline(task.kind, [item.target for item in train], targets, task.labels)
    value = math.nan if answers is None else find_score(task.main).compute(answers, targets, task.labels)
    return {GUESS: float(value)} if math.isfinite(value) else {}


def best_place(curve: Curve, score: Score) -> int | None:
    """Where a curve is best, whichever way the score runs; None where it has no value."""
    if np.isnan(curve.values).all():
        return None
    return int(np.nanargmax(curve.values if score.higher_is_better else -curve.values))


def above_lines(curve: Curve, place: int, score: Score, lines: Mapping[str, float]) -> bool:
    """Whether the band at a place is better than all that can be had without any layer."""
    defined = [value for value in lines.values() if math.isfinite(value)]
    if score.higher_is_better:
        return all(curve.band_low[place] > value for value in defined)
    return all(curve.band_high[place] < value for value in defined)


def quantity_at(curve: Curve, place: int, score: Score, by_seed: Sequence[float] = ()) -> Quantity:
    """The value of a curve at a place with its interval, in points of the score."""
    value, low, high = (score.points * float(line[place]) for line in (curve.values, curve.low, curve.high))
    return Quantity(
        value=value,
        low=low,
        high=high,
        level=curve.level,
        unit=curve.unit,
        seeds=curve.seeds[place],
        by_seed=tuple(score.points * float(value) for value in by_seed),
    )
