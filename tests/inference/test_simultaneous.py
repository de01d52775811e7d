"""The largest of many errors is as large as probability theory says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from microtome.inference.estimate import AT_95, Confidence
from microtome.inference.scoring import standard_error
from microtome.inference.simultaneous import Spread, band_arms, critical_value, spread
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
    none = critical_value(psi, np.inf, shared=False)
    assert together < none
    assert none == pytest.approx(stats.norm.ppf((1 + 0.95 ** (1 / 20)) / 2), abs=0.05)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(2, 30), st.floats(1, 100), st.floats(0.5, 0.99), st.integers(0, 99))
def test_it_lies_between_one_point_and_bonferroni(
    points: int, units: int, dof: float, level: float, seed: int
) -> None:
    psi = generator(seed, "any").standard_normal((points, units))
    psi[::3] = 0
    found = critical_value(psi, dof, Confidence(level=level))
    assert stats.t.ppf((1 + level) / 2, dof) * (1 - 1e-9) <= found
    assert found <= stats.t.ppf(1 - (1 - level) / 2 / points, dof) * (1 + 1e-9)


def test_one_seed_has_the_spread_of_its_examples() -> None:
    psi = generator(0, "one").standard_normal((1, 30))
    found = spread([psi], [np.array([0.4])], 29.0)
    assert found.se == pytest.approx(standard_error(psi[0]))
    assert found.arm(AT_95.reach) == pytest.approx(stats.t.ppf(0.975, 29) * found.se)
    assert found.freedom(AT_95) == 29.0
    assert found.p(2 * found.se) == pytest.approx(2 * stats.t.sf(2, 29))


def test_seeds_that_disagree_widen_a_mean() -> None:
    psi = np.tile(generator(0, "many").standard_normal(30) * 1e-3, (4, 1))
    values = np.array([0.2, 0.4, 0.6, 0.8])
    found = spread([psi], [values], 29.0)
    assert found.se == pytest.approx(np.sqrt(values.var(ddof=1) / 4 + standard_error(psi[0]) ** 2))
    assert found.freedom(AT_95) == pytest.approx(3, rel=0.01)
    assert found.arm(AT_95.reach) == pytest.approx(stats.t.ppf(0.975, 3) * stats.sem(values), rel=0.01)


def test_nothing_that_varies_has_no_spread() -> None:
    assert spread([np.zeros((3, 5))], [np.full(3, 0.5)], 4.0).se == 0


def parts(examples: float, rest: float, dof: float, seeds: list[tuple[float, int]]) -> Spread:
    return Spread(examples=examples, rest=rest, dof=dof, seeds=tuple((v, float(d)) for v, d in seeds))


VARIANCE = st.floats(1e-6, 1e3)
SIDES = st.lists(st.tuples(VARIANCE | st.just(0.0), st.integers(1, 5)), max_size=2)


@given(
    VARIANCE,
    VARIANCE,
    st.sampled_from([3.0, 40.0, 1e4, np.inf]),
    SIDES,
    st.floats(1e-3, 1e3),
    st.sampled_from([0.5, 0.9, 0.95, 0.999]),
)
def test_p_and_the_interval_say_the_same(
    examples: float, rest: float, dof: float, seeds: list[tuple[float, int]], far: float, level: float
) -> None:
    found = parts(examples, rest, dof, seeds)
    arm = found.arm(Confidence(level=level).reach)
    assert found.p(arm * 1.001) < 1 - level < found.p(-arm * 0.999)
    assert found.p(far * found.se) > found.p(1.01 * far * found.se) or found.p(far * found.se) == 0
    t = stats.t.ppf((1 + level) / 2, found.freedom(Confidence(level=level)))
    assert t * found.se == pytest.approx(arm, rel=1e-6)


def test_seeds_that_agree_by_luck_do_not_narrow_a_band() -> None:
    psi = 1e-3 * generator(0, "luck").standard_normal((4, 50))
    found = [parts(1e-4, 1e-4, 49.0, [(0.04, 2)])] * 3
    lucky = [*found, parts(1e-4, 1e-4, 49.0, [(4e-4, 2)])]
    arms = band_arms(lucky, psi)
    # Seeds that agree a hundred times better than elsewhere: such luck has one point in a hundred.
    assert arms[3] > stats.t.ppf(0.975, 2) * np.sqrt(0.01)
    assert (arms[:3] >= found[0].arm(AT_95.reach)).all()
    calm = [*found, parts(1e-4, 1e-4, 49.0, [(1e-8, 2)])]
    # A million times better is no luck: that point is calm, and stays so beside wild ones.
    assert band_arms(calm, psi)[3] < 0.3 * arms[3]
    exact = parts(0.0, 0.0, 49.0, [(0.0, 2)])
    assert band_arms([*lucky, exact], np.vstack([psi, np.zeros(50)]))[4] == 0, "no luck, but no doubt"
