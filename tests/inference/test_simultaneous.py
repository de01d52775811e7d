"""The largest of many errors is as large as probability theory says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from microtome.inference.scoring import standard_error
from microtome.inference.simultaneous import critical_value, spread
from microtome.randomness import generator


@pytest.mark.parametrize("points", [3, 12, 78])
def test_independent_points_need_what_sidak_says(points: int) -> None:
    expected = stats.norm.ppf((1 + 0.95 ** (1 / points)) / 2)
    assert critical_value(np.eye(points, 2 * points), np.inf) == pytest.approx(expected, abs=0.05)


def test_equal_points_need_what_one_does() -> None:
    psi = np.tile(generator(0, "equal").standard_normal(50), (30, 1))
    for dof in (np.inf, 4.0):
        expected = stats.t.ppf(0.975, dof) if np.isfinite(dof) else 1.96
        assert critical_value(psi, dof) == pytest.approx(expected, rel=0.05)


def test_few_degrees_of_freedom_are_those_of_the_studentized_maximum() -> None:
    rng = generator(0, "modulus")
    drawn = np.abs(rng.standard_normal((200_000, 5))).max(axis=1) / np.sqrt(rng.chisquare(10, 200_000) / 10)
    assert critical_value(np.eye(5), 10.0) == pytest.approx(np.quantile(drawn, 0.95), abs=0.07)


def test_fewer_units_than_points_follow_the_same_law() -> None:
    rng = generator(0, "few")
    psi = rng.standard_normal((40, 8))
    doubled = np.hstack([psi] * 10) / np.sqrt(10)  # the same correlations by the other route
    assert critical_value(psi, np.inf) == pytest.approx(critical_value(doubled, np.inf), abs=0.06)


def test_what_seeds_add_is_independent_between_points_trained_apart() -> None:
    psi = np.tile(generator(0, "apart").standard_normal(50), (20, 1))
    together = critical_value(psi, np.inf)
    half = critical_value(psi, np.inf, examples=np.full(20, 0.5))
    none = critical_value(psi, np.inf, examples=np.zeros(20))
    assert together < half < none
    assert none == pytest.approx(stats.norm.ppf((1 + 0.95 ** (1 / 20)) / 2), abs=0.05)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(2, 30), st.floats(1, 100), st.floats(0.5, 0.99), st.integers(0, 99))
def test_it_lies_between_one_point_and_bonferroni(
    points: int, units: int, dof: float, level: float, seed: int
) -> None:
    psi = generator(seed, "any").standard_normal((points, units))
    psi[::3] = 0
    found = critical_value(psi, dof, level=level)
    assert stats.t.ppf((1 + level) / 2, dof) * (1 - 1e-9) <= found
    assert found <= stats.t.ppf(1 - (1 - level) / 2 / points, dof) * (1 + 1e-9)


def test_one_seed_has_the_spread_of_its_examples() -> None:
    psi = generator(0, "one").standard_normal((1, 30))
    found = spread([psi], [np.array([0.4])], 29.0)
    assert (found.se, found.dof, found.examples) == (standard_error(psi[0]), 29.0, 1.0)


def test_seeds_that_disagree_widen_a_mean() -> None:
    psi = np.tile(generator(0, "many").standard_normal(30) * 1e-3, (4, 1))
    values = np.array([0.2, 0.4, 0.6, 0.8])
    found = spread([psi], [values], 29.0)
    assert found.se == pytest.approx(np.sqrt(values.var(ddof=1) / 4 + standard_error(psi[0]) ** 2))
    assert found.dof == pytest.approx(3, rel=0.01)
    assert found.examples < 0.01


def test_nothing_that_varies_has_no_spread() -> None:
    assert spread([np.zeros((3, 5))], [np.full(3, 0.5)], 4.0).se == 0
