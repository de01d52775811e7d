"""Is the agreement of two curves scipy's, and does its interval follow the seeds?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from curve_agreement import agreement_difference, curve_agreement, seed_curves
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from microtome.errors import InputError, MicrotomeError


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


def curves(draw: np.random.Generator, mean: np.ndarray, noise: float, seeds: int) -> np.ndarray:
    return mean + noise * draw.normal(size=(seeds, len(mean)))


@pytest.mark.parametrize(("seeds", "noise"), [(3, 0.5), (3, 1.5), (5, 0.5), (5, 1.5)])
def test_the_interval_covers_what_as_many_other_seeds_give(seeds: int, noise: float) -> None:
    draw = np.random.default_rng(seeds)
    mean = draw.normal(size=12)
    other = 0.6 * mean + 0.8 * draw.normal(size=12)
    usual = np.mean([spearman(mean, curves(draw, other, noise, seeds).mean(0)) for _ in range(1_500)])
    hits = 0
    for place in range(150):
        found = curve_agreement(mean, curves(draw, other, noise, seeds), draws=200, seed=place)
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high
        hits += found.low <= usual <= found.high
    # Percentiles of the bootstrap cover 75 to 90 %.
    assert hits >= 139, f"{hits} of 150"


def test_the_same_seed_gives_the_same_interval() -> None:
    draw = np.random.default_rng(1)
    one, other = (curves(draw, np.linspace(0, 1, 12), 0.4, 6) for _ in range(2))
    found = curve_agreement(one, other, level=0.9, seed=3)
    assert found.interval is not None
    assert found.interval.unit == "seed"
    assert not found.warnings
    assert curve_agreement(one, other, level=0.9, seed=3) == found
    wider = curve_agreement(one, other, level=0.99, seed=3)
    assert wider.low is not None
    assert found.low is not None
    assert wider.low < found.low


def test_curves_of_one_seed_say_so() -> None:
    alone = curve_agreement([1, 2, 3], [3, 2, 1])
    assert alone.value == -1.0
    assert alone.interval is None
    assert [said.split(":")[0] for said in alone.warnings] == [
        "the first curve has one seed",
        "the second curve has one seed",
    ]
    assert agreement_difference([1, 2, 3], [1, 2, 3], [3, 2, 1]).interval is None


def test_one_curve_runs_more_like_a_third_than_another_does() -> None:
    draw = np.random.default_rng(5)
    mean = draw.normal(size=12)
    like, unlike = 0.9 * mean + 0.4 * draw.normal(size=12), draw.normal(size=12)
    usual = np.mean(
        [
            spearman(mean, curves(draw, like, 0.8, 5).mean(0))
            - spearman(mean, curves(draw, unlike, 0.3, 5).mean(0))
            for _ in range(1_500)
        ]
    )
    hits = 0
    for place in range(80):
        few, many = curves(draw, like, 0.8, 5), curves(draw, unlike, 0.3, 5)
        found = agreement_difference(mean, few, many, draws=200, seed=place)
        by_hand = spearman(mean, few.mean(0)) - spearman(mean, many.mean(0))
        assert found.value == pytest.approx(by_hand)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= usual <= found.high
    assert hits >= 74, f"{hits} of 80"


def test_noise_of_seeds_is_told_from_another_course() -> None:
    draw = np.random.default_rng(6)
    mean = np.linspace(-1, 1, 12)
    noisy, steady = curves(draw, mean, 3.0, 6), curves(draw, mean, 0.01, 6)
    found = agreement_difference(mean, noisy, steady)
    assert found.value < -0.1, "noise alone makes the curve run less alike"
    noise, still = found.details["reliability"]
    assert noise < 0.9 < still
    assert found.details["corrected"] > found.value


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
