"""Comparison of a model, with one training seed or several, with the majority baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..scores.declare import Score
from ..scores.table import find_score
from .answers import Answers
from .scoring import score_interval, several_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """
    Scores of a model and of the majority baseline.

    Parameters
    ----------
    score : str
    value, baseline : float
        The mean over seeds, and the score of the majority baseline.
    beats : bool
        Whether the model is significantly better on other examples of the kind.
    ahead : bool
        Whether it is better on these examples.
    """

    score: str
    value: float
    baseline: float
    beats: bool
    ahead: bool

    def plain(self) -> dict[str, float | bool]:
        """Return the numbers as a JSON-compatible dict."""
        return {"value": self.value, "baseline": self.baseline, "ahead": self.ahead}


def against_baseline(
    score: str | Score | Iterable[str | Score],
    answers: Answers,
    baseline: float,
    labels: Sequence[str] = (),
    *,
    level: float = 0.95,
) -> Standing | None:
    """
    Compare a model, or several seeds of it, with the majority baseline.

    Parameters
    ----------
    score : str, Score or several
    answers : Answers
    baseline : float
        Score of the majority baseline on the same examples; NaN where there is none.
    labels : sequence of str
    level : float

    Returns
    -------
    Standing or None
        None where there is no baseline.

    Notes
    -----
    The baseline is beaten if the mean over seeds of the lower ends of the intervals over examples is above it
    (for one model and accuracy, Wilson's interval). The test concerns these models on other examples: the
    variance over seeds is not part of it, and two seeds that are both far above the baseline beat it.
    """
    metric = find_score(score)
    if not math.isfinite(baseline) or not answers.predictions:
        return None
    groups = several_groups(answers.groups)
    estimates = [
        score_interval(metric, predictions, answers.targets, labels, groups=groups, level=level)
        for predictions in answers.predictions
    ]
    sign = 1.0 if metric.higher_is_better else -1.0
    ends = [estimate.low if sign > 0 else estimate.high for estimate in estimates]
    value = float(np.mean([estimate.value for estimate in estimates]))
    bounds = [estimate.value if end is None else end for estimate, end in zip(estimates, ends, strict=True)]
    return Standing(
        score=metric.name,
        value=value,
        baseline=float(baseline),
        beats=bool(sign * (np.mean(bounds) - baseline) > 0),
        ahead=bool(sign * (value - baseline) > 0),
    )
