from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from microtome.errors import InputError
from microtome.inference.seeds import SeedOutcome, mean_over_seeds


def runs(*values: float) -> list[SeedOutcome]:
    return [SeedOutcome(seed=seed, value=value) for seed, value in enumerate(values)]


def test_the_mean_has_students_interval_over_seeds() -> None:
    values = [0.81, 0.84, 0.79, 0.86, 0.83]
    found = mean_over_seeds(runs(*values), "mcc", level=0.9)
    low, high = stats.t.interval(0.9, 4, loc=np.mean(values), scale=stats.sem(values))
    assert found.value == pytest.approx(np.mean(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.interval is not None
    assert (found.interval.unit, found.interval.method) == ("seed", "t over seeds")
    assert "other seeds" in found.interval.target
    assert (found.n, found.warnings) == (5, ())
    assert found.details["sd"] == pytest.approx(np.std(values, ddof=1))


def test_one_seed_has_no_interval() -> None:
    found = mean_over_seeds(runs(0.8), "accuracy")
    assert (found.value, found.n, found.interval, found.low) == (0.8, 1, None, None)
    assert found.warnings == ("one seed tells nothing of others: there is no interval over seeds.",)


def test_failed_runs_are_left_out_and_told() -> None:
    outcomes = [
        *runs(0.8, 0.9),
        SeedOutcome(seed=7, value=0.1, failed="constant output"),
        SeedOutcome(seed=8),
    ]
    found = mean_over_seeds(outcomes, "accuracy")
    assert found.value == pytest.approx(0.85)
    assert found.n == 2
    assert found.warnings == ("2 of 4 runs were left out: seed 7 (constant output), seed 8 (no score).",)
    assert dict(found.details["left_out"]) == {7: "constant output", 8: "no score"}
    assert dict(found.details["values"]) == {0: 0.8, 1: 0.9}


def test_nothing_but_failures_has_no_mean() -> None:
    found = mean_over_seeds(
        [SeedOutcome(seed=1, failed="NaN loss"), SeedOutcome(seed=2, value=math.inf)], "accuracy"
    )
    assert math.isnan(found.value)
    assert found.reason == "all 2 runs failed"
    assert str(found) == "accuracy undefined: all 2 runs failed"


def test_the_interval_stays_in_the_range_of_the_score() -> None:
    found = mean_over_seeds(runs(0.9, 1.0), "accuracy")
    assert found.high == 1
    assert found.low is not None
    assert 0 <= found.low < 0.5
    assert mean_over_seeds(runs(20.0, 30.0), "perplexity").low == 1
    assert mean_over_seeds(runs(0.9, 1.0), ("accuracy", "f1")).measure == "mean of accuracy and f1"


def test_bad_requests() -> None:
    with pytest.raises(InputError, match="seeds must be each there once, but got 3"):
        mean_over_seeds([SeedOutcome(seed=3, value=1), SeedOutcome(seed=3, value=0)], "accuracy")
    with pytest.raises(InputError, match="the number of runs must be at least 1"):
        mean_over_seeds([], "accuracy")
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        mean_over_seeds(runs(0.5), "accuracy", level=1.5)
