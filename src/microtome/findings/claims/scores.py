"""Claims about the scores of fine-tuned models: against the majority baseline, and against another model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...inference.estimate import Estimate
from ...inference.pairing import Comparison
from .claim import Claim, Quantity


def baseline_of(baselines: Mapping[str, float], main: tuple[str, ...]) -> float:
    """The score of the majority baseline in the score of the task; NaN where it is not known."""
    values = [baselines.get(name, math.nan) for name in main]
    return sum(values) / len(values) if values else math.nan


def score_claim(
    score: Estimate, *, split: str, examples: int, baseline: float, seeds: int = 1, trained: bool = False
) -> list[Claim]:
    """
    Claim that a score is above or below the majority baseline.

    Parameters
    ----------
    score : Estimate
        Of one model, with an interval over examples; of several seeds their mean, with one over seeds.
    split : str
    examples : int
    baseline : float
        NaN where it is not known.
    seeds : int
    trained : bool
        Whether the seeds of a training are what the score is about.

    Returns
    -------
    list of Claim
        Empty where the score is undefined.
    """
    if not math.isfinite(score.value):
        return []
    low, high = (math.nan if end is None else end for end in (score.low, score.high))
    same = seeds > 1 and low == high
    if same:  # seeds that agree to the last digit have no spread, and an interval without width is none
        low = high = math.nan
    interval = score.interval
    clear = math.isfinite(low) and not (math.isfinite(baseline) and low <= baseline <= high)
    return [
        Claim(
            kind="score",
            verdict="holds" if clear else "inconclusive",
            score=score.measure,
            points=1.0,
            estimate=Quantity(
                value=score.value,
                low=low,
                high=high,
                level=0.95 if interval is None else interval.level,
                unit="seed" if seeds > 1 else "example" if interval is None else interval.unit,
                seeds=seeds,
            ),
            n=examples,
            facts={
                "split": split,
                "baseline": baseline if math.isfinite(baseline) else None,
                "trained": trained,
                "same": same,
            },
        )
    ]


def failure_claim(failures: Mapping[int, str], runs: int) -> list[Claim]:
    """Claim that runs of a fine-tuning failed, by seed; none where all are sound."""
    facts: dict[str, Any] = {"runs": runs, "failures": [[seed, why] for seed, why in failures.items()]}
    return [Claim(kind="failed runs", verdict="holds", score="", facts=facts)] if failures else []


def difference_claim(comparison: Comparison, against: str) -> list[Claim]:
    """Claim that one model scores higher or lower than another one on the same examples."""
    if not math.isfinite(comparison.difference):
        return []
    interval = comparison.interval
    clear = interval is not None and (interval.low > 0 or interval.high < 0)
    quantity = Quantity(
        value=comparison.difference,
        low=math.nan if interval is None else interval.low,
        high=math.nan if interval is None else interval.high,
        level=0.95 if interval is None else interval.level,
        unit="example" if interval is None else interval.unit,
    )
    facts = {"against": against, "test": comparison.test, "p": comparison.p}
    return [
        Claim(
            kind="score difference",
            verdict="holds" if clear else "inconclusive",
            score=comparison.score,
            points=1.0,
            estimate=quantity,
            n=comparison.n,
            facts=facts,
        )
    ]
