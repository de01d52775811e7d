"""Mean scores over training seeds, with t intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ..checks import check_level
from ..errors import must
from ..scores.declare import Score
from ..scores.table import find_score
from .estimate import Estimate, Interval, quantile

TARGET = "mean score of models trained with other seeds, on these examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedOutcome:
    """
    Outcome of one training run.

    Parameters
    ----------
    seed : int or str
        Its seed, or the name of its seeds.
    value : float
        The score; NaN where there is none.
    failed : str
        Why the run must not be averaged, such as "loss is NaN after step 120"; empty for a sound run.
    """

    seed: int | str
    value: float = float("nan")
    failed: str = ""


def mean_over_seeds(
    outcomes: Iterable[SeedOutcome],
    score: str | Score | Iterable[str | Score],
    *,
    level: float = 0.95,
) -> Estimate:
    """
    Average the runs that did not fail.

    Parameters
    ----------
    outcomes : iterable of SeedOutcome
    score : str, Score or several
        What the values are.
    level : float

    Returns
    -------
    Estimate
        `n` is the number of seeds averaged. One seed has no interval, and a warning gives the reason.
        `details` has the standard deviation `sd` over seeds, the `values` by seed, and the reasons of those
        that were `left_out`.

    Notes
    -----
    mean +- t(n - 1) sd / sqrt(n), clipped to the range of the score. The examples are treated as fixed: for
    other examples see `microtome.inference.scoring`.

    Examples
    --------
    >>> runs = [SeedOutcome(seed=1, value=0.80), SeedOutcome(seed=2, value=0.84)]
    >>> mean = mean_over_seeds([*runs, SeedOutcome(seed=3, failed="NaN loss")], "accuracy")
    >>> round(mean.value, 2), mean.n, mean.warnings[0]
    (0.82, 2, '1 of 3 runs was left out: seed 3 (NaN loss).')
    """
    metric = find_score(score)
    check_level(level)
    runs = list(outcomes)
    repeated = [run.seed for index, run in enumerate(runs) if run.seed in [r.seed for r in runs[:index]]]
    if repeated:
        raise must("seeds", "each there once", repeated[0])
    if not runs:
        raise must("the number of runs", "at least 1", 0)
    left_out = {r.seed: r.failed or "no score" for r in runs if r.failed or not math.isfinite(r.value)}
    sound_values = {r.seed: float(r.value) for r in runs if r.seed not in left_out}
    messages: list[str] = []
    if left_out:
        named = ", ".join(f"seed {seed} ({why})" for seed, why in left_out.items())
        verb = "was" if len(left_out) == 1 else "were"
        messages.append(f"{len(left_out)} of {len(runs)} runs {verb} left out: {named}.")
    details: dict[str, Any] = {
        "values": MappingProxyType(sound_values),
        "left_out": MappingProxyType(left_out),
    }
    estimator = "mean over seeds"
    if not sound_values:
        return Estimate(
            value=float("nan"),
            measure=metric.name,
            estimator=estimator,
            n=0,
            reason=f"all {len(runs)} runs failed",
            warnings=tuple(messages),
            details=MappingProxyType(details),
        )
    values = np.array(list(sound_values.values()))
    interval = None
    if len(values) == 1:
        messages.append("one seed tells nothing of others: there is no interval over seeds.")
    else:
        details["sd"] = float(values.std(ddof=1))
        arm = quantile(level, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
        interval = Interval(
            low=float(max(metric.range[0], values.mean() - arm)),
            high=float(min(metric.range[1], values.mean() + arm)),
            level=level,
            method="t over seeds",
            unit="seed",
            target=TARGET,
        )
    return Estimate(
        value=float(values.mean()),
        measure=metric.name,
        estimator=estimator,
        n=len(values),
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        interval=interval,
        warnings=tuple(messages),
        details=MappingProxyType(details),
    )
