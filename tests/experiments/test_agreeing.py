"""Is the agreement of two curves scipy's, and does its interval follow the seeds?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from microtome.errors import InputError, MicrotomeError
from microtome.experiments.agreeing import curve_agreement, seed_curves


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    found: Any = stats.spearmanr(one, other)
    return float(found.statistic)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), layers=st.integers(3, 13), ties=st.booleans())
def test_it_is_scipys_correlation_of_the_mean_curves(seed: int, layers: int, ties: bool) -> None:
    draw = np.random.default_rng(seed)
    one, other = draw.normal(size=(3, layers)), draw.normal(size=(5, layers))
    if ties:
        one, other = np.round(one), np.round(other)
    means = one.mean(0).round(12), other.mean(0).round(12)
    if min(np.ptp(each) for each in means) == 0:
        return
    found = curve_agreement(one, other, draws=200)
    assert found.value == pytest.approx(spearman(*means), abs=1e-12)
    assert found.n == layers
    assert found.details["seeds"] == (3, 5)


def test_the_interval_is_that_of_resampled_seeds() -> None:
    draw = np.random.default_rng(1)
    rising = np.linspace(0, 1, 12)
    one, other = (rising + 0.4 * draw.normal(size=(6, 12)) for _ in range(2))
    found = curve_agreement(one, other, level=0.9, seed=3)
    again = np.random.default_rng(7)
    by_hand = [
        spearman(one[again.integers(6, size=6)].mean(0), other[again.integers(6, size=6)].mean(0))
        for _ in range(2_000)
    ]
    assert found.low == pytest.approx(np.quantile(by_hand, 0.05), abs=0.03)
    assert found.high == pytest.approx(np.quantile(by_hand, 0.95), abs=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high or found.value in (found.low, found.high)
    assert found.interval is not None
    assert found.interval.unit == "seed"
    assert not found.warnings
    assert curve_agreement(one, other, level=0.9, seed=3) == found


def test_curves_of_few_seeds_say_so() -> None:
    alone = curve_agreement([1, 2, 3], [3, 2, 1])
    assert alone.value == -1.0
    assert alone.interval is None
    assert [said.split(":")[0] for said in alone.warnings] == [
        "the first curve has one seed",
        "the second curve has one seed",
    ]
    few = curve_agreement([[1, 2, 3], [1, 3, 2]], [1, 2, 3])
    assert few.interval is not None
    assert any("rather too narrow" in said for said in few.warnings)


def test_a_flat_curve_has_no_ranks() -> None:
    found = curve_agreement([[0.5, 0.5, 0.5], [0.25, 0.25, 0.25]], [1, 2, 3])
    assert np.isnan(found.value)
    assert found.reason == "the first curve is the same at all layers"
    # Only some draws are flat: they are left out, and it is said how many.
    partly = curve_agreement([[0.5, 0.5, 0.5], [0.1, 0.2, 0.3]], [1, 2, 3])
    assert partly.value == 1.0
    assert partly.details["undefined"] == pytest.approx(0.25, abs=0.02)


def test_wrong_curves_get_a_sentence() -> None:
    with pytest.raises(MicrotomeError, match="curves must be over the same layers, but got 3 and 4 layers"):
        curve_agreement([1, 2, 3], [1, 2, 3, 4])
    with pytest.raises(MicrotomeError, match="with 3 layers or more"):
        curve_agreement([1, 2], [1, 2])
    with pytest.raises(MicrotomeError, match="finite everywhere"):
        curve_agreement([1, 2, float("nan")], [1, 2, 3])
    with pytest.raises(MicrotomeError, match="level must be between 0 and 1"):
        curve_agreement([1, 2, 3], [1, 2, 3], level=1)
    with pytest.raises(MicrotomeError, match="draws must be a whole number above 0"):
        curve_agreement([1, 2, 3], [1, 2, 3], draws=0)


def test_rows_become_a_curve_a_seed() -> None:
    rows = [
        {"arm": arm, "x": x, "seed": seed, "score": 10 * seed + x + (100 if arm == "other" else 0)}
        for arm in ("redrawn", "other")
        for seed in (1, 2)
        for x in (0, 1, 2, 3)
    ]
    rows[3] = {**rows[3], "score": None}  # seed 1 failed at 3
    found = seed_curves(rows, "x", [1, 2, 3], arm="redrawn")
    assert found.tolist() == [[21.0, 22.0, 23.0]]
    assert seed_curves(rows, "x", [2, 1], arm="other").tolist() == [[112.0, 111.0], [122.0, 121.0]]
    with pytest.raises(InputError, match="at every x asked for, but arm='none' have none"):
        seed_curves(rows, "x", [1], arm="none")
