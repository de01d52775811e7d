from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import quad

from cluster_grams import projected
from microtome.errors import InputError
from microtome.inference.clusters import Clusters
from microtome.inference.permutation import (
    Null,
    cka_null,
    debiased_null,
    frob2_null,
    gamma_p,
    max_statistic,
    mean_rho,
    permutation_plan,
    power_mean,
    r2_null,
    rho2_null,
    z_score,
)

Array = NDArray[np.float64]


def centered(seed: int, n: int, d: int) -> Array:
    x = np.random.default_rng(seed).gamma(1.0, size=(n, d)) ** 2
    return x - x.mean(axis=0)


def moments(x: Array) -> tuple[float, float, float]:
    C, p = x.T @ x, (x**2).sum(axis=1)
    return float(np.trace(C)), float((C**2).sum()), float((p**2).sum())


def over_all(K: Array, L: Array) -> Array:
    """Sum of K_ij L_p(i)p(j) for every permutation p."""
    orders = np.array(list(permutations(range(len(K)))))
    return (K * L[orders[:, :, None], orders[:, None, :]]).sum(axis=(1, 2))


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_closed_forms_against_every_permutation(n: int) -> None:
    x, y = centered(n, n, 3), centered(n + 50, n, 2)
    values = over_all(x @ x.T, y @ y.T)
    null = frob2_null(*moments(x), *moments(y), n)
    assert null.mean == pytest.approx(values.mean(), rel=1e-12)
    assert null.sd == pytest.approx(values.std(), rel=1e-9)
    scale = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    null = cka_null(*moments(x), *moments(y), n)
    assert null.mean == pytest.approx((values / scale).mean(), rel=1e-12)
    assert null.sd == pytest.approx((values / scale).std(), rel=1e-9)


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_debiased_cka_has_one_variance_whatever_the_data(n: int) -> None:
    K, L = (projected(a @ a.T, np.arange(n)) for a in (centered(n, n, 3), centered(n + 50, n, 2)))
    values = over_all(K, L) / np.sqrt((K**2).sum() * (L**2).sum())
    null = debiased_null(n)
    assert values.mean() == pytest.approx(null.mean, abs=1e-12)
    assert values.std() == pytest.approx(null.sd, rel=1e-10)


@pytest.mark.parametrize("p, q", [(2, 3), (3, 2), (1, 5), (2, 5)])
def test_means_of_squared_correlations_against_every_permutation(p: int, q: int) -> None:
    x, y = centered(1, 6, p), centered(2, 6, q)
    P, Q = (u @ u.T for u in (np.linalg.qr(x)[0], np.linalg.qr(y)[0]))
    assert rho2_null(p, q, 6) == pytest.approx(over_all(P, Q).mean() / min(p, q), rel=1e-10)
    predicted = over_all(P, y @ y.T) / (y**2).sum()
    assert r2_null(p, 6) == pytest.approx(predicted.mean(), rel=1e-10)


def test_maps_broadcast_and_a_constant_side_is_undefined() -> None:
    T, T2, S2 = np.array([moments(centered(s, 9, 3)) for s in range(3)]).T[:, :, None]
    right = np.array([moments(centered(s, 9, 4)) for s in range(5, 9)])
    right[2] = 0
    null = cka_null(T, T2, S2, right[:, 0], right[:, 1], right[:, 2], 9)
    assert null.mean.shape == null.sd.shape == (3, 4)
    assert np.isnan(null.mean[:, 2]).all()
    one = cka_null(*moments(centered(1, 9, 3)), *moments(centered(8, 9, 4)), 9)
    assert null.sd[1, 3] == pytest.approx(one.sd)


def test_gamma_p_is_the_tail_of_the_matched_law() -> None:
    null = Null(mean=np.array([0.3, 0.3, 0.3]), sd=np.array([0.1, 0.1, 0.0]))
    p = gamma_p([0.25, 0.6, 0.4], null)
    expected = stats.gamma(a=9, scale=0.01 / 0.3).sf([0.25, 0.6])
    np.testing.assert_allclose(p[:2], expected, rtol=1e-10)
    assert np.isnan(p[2])
    assert np.isnan(z_score(0.4, null)[2])
    assert gamma_p(-5.0, debiased_null(20), like=Null(mean=np.array(0.3), sd=np.array(0.1))) == 1


def test_unrelated_sides_are_rarely_called_related() -> None:
    rng = np.random.default_rng(3)
    n, biased, debiased = 40, [], []
    for _ in range(600):
        x, y = (rng.standard_normal((n, 8)) * np.arange(1, 9) for _ in range(2))
        x, y = x - x.mean(axis=0), y - y.mean(axis=0)
        null = cka_null(*moments(x), *moments(y), n)
        value = np.linalg.norm(x.T @ y) ** 2 / np.linalg.norm(x.T @ x) / np.linalg.norm(y.T @ y)
        biased.append(gamma_p(value, null))
        K, L = projected(x @ x.T, np.arange(n)), projected(y @ y.T, np.arange(n))
        theta = (K * L).sum() / np.sqrt((K**2).sum() * (L**2).sum())
        debiased.append(gamma_p(theta, debiased_null(n), like=null))
    for p in (biased, debiased):
        # 5 % of 600 has a standard error of 0.9 %; the gamma law is up to 1 % liberal here.
        assert 0.025 < np.mean(np.array(p) < 0.05) < 0.085


def test_rows_are_permuted_freely() -> None:
    plan = permutation_plan(30, 50, seed=1)
    assert plan.rows.tolist() == list(range(30))
    assert plan.left_out == 0
    assert (np.sort(plan.permutations, axis=1) == np.arange(30)).all()
    assert len({tuple(p) for p in plan.permutations.tolist()}) == 50
    assert (permutation_plan(30, 50, seed=1).permutations == plan.permutations).all()
    assert (permutation_plan(30, 50, seed=2).permutations != plan.permutations).any()


def test_every_order_of_rows_is_equally_likely() -> None:
    drawn = permutation_plan(3, 6000, seed=4).permutations
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-3


def test_sentences_stay_whole_and_swap_only_with_their_length() -> None:
    ids = ["a", "b", "a", "c", "c", "d", "e", "f", "f", "f", "b", "g", "h", "g", "h"]
    clusters = Clusters.from_ids(ids)
    plan = permutation_plan(clusters, 200, seed=0)
    # Only "f" has three rows; d and e are alone with one row each, the others have two.
    assert plan.rows.tolist() == [row for row, name in enumerate(ids) if name != "f"]
    assert plan.left_out == pytest.approx(3 / 15)
    kept = np.array(ids)[plan.rows]
    for permutation in plan.permutations:
        assert sorted(permutation) == list(range(12))
        for name in set(kept):
            now = kept[permutation[kept == name]]
            assert len(set(now)) == 1
            assert ids.count(now[0]) == ids.count(name)
            # Words keep their order inside the sentence.
            assert (np.diff(permutation[kept == name]) > 0).all()
    assert len({tuple(p) for p in plan.permutations.tolist()}) > 60


def test_sentences_that_are_all_of_different_length_cannot_be_permuted() -> None:
    clusters = Clusters.from_ids(np.repeat(np.arange(5), [1, 2, 3, 4, 5]))
    with pytest.raises(InputError, match="no two have the same size"):
        permutation_plan(clusters, 10, seed=0)


def test_max_statistic_against_counting() -> None:
    rng = np.random.default_rng(5)
    permuted = rng.gamma(2.0, size=(199, 3, 4))
    observed = rng.gamma(2.0, size=(3, 4)) + 3
    observed[2, 3] = np.nan
    found = max_statistic(observed, permuted)
    maps = np.concatenate([observed[None], permuted])
    scores = (maps - maps.mean(axis=0)) / maps.std(axis=0)
    largest = scores[1:].reshape(199, -1)[:, :-1].max(axis=1)
    for cell in list(np.ndindex(3, 4))[:-1]:
        alone = [value >= observed[cell] for value in permuted[:, *cell]]
        assert found.p[cell] == (1 + sum(alone)) / 200
        assert found.familywise[cell] == (1 + sum(largest >= scores[0][cell])) / 200
    for array in (found.p, found.familywise):
        assert np.isnan(array[2, 3])


def test_a_noisy_cell_does_not_hide_a_quiet_one() -> None:
    rng = np.random.default_rng(6)
    permuted, observed = rng.standard_normal((99, 2)) * [100.0, 1.0], np.array([0.0, 8.0])
    assert max_statistic(observed, permuted).familywise[1] == 0.01


def test_the_chance_of_any_false_cell_is_as_promised() -> None:
    rng = np.random.default_rng(7)
    values = rng.gamma(1.0, size=(1500, 20, 6)) * np.arange(1, 7)
    any_cell = [(max_statistic(v[0], v[1:]).familywise <= 0.05).any() for v in values]
    assert np.mean(any_cell) == pytest.approx(0.05, abs=0.02)


def test_too_few_permutations_find_nothing() -> None:
    assert max_statistic([5.0], [[0.0]] * 18).familywise[0] > 0.05


def test_values_that_never_move_are_no_evidence() -> None:
    found = max_statistic([1 + 1e-15], np.ones((99, 1)))
    assert found.p[0] == found.familywise[0] == 1


def test_a_permutation_that_changes_nothing_is_a_tie_in_spite_of_rounding() -> None:
    found = max_statistic([0.1 + 0.2], [[0.3], [0.1], [0.0]])
    assert found.p[0] == found.familywise[0] == 0.5


def test_a_cell_that_some_permutation_leaves_undefined_takes_no_part() -> None:
    found = max_statistic([1.0, 2.0], [[0.0, np.nan], [0.5, 9.0], [3.0, 0.0]])
    assert found.familywise[0] == 0.5
    assert np.isnan(found.p[1])


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(InputError, match="at least 4, but got 3"):
        debiased_null(3)
    with pytest.raises(InputError, match="replicates must be at least 1, but got 0"):
        permutation_plan(10, 0, seed=0)
    with pytest.raises(InputError, match="permuted must be of shape"):
        max_statistic([1.0, 2.0], [[1.0]])


def by_density(p: int, q: int, n: int) -> float:
    """Mean of rho from the density of rho^2 as it is written, by adaptive quadrature."""
    dof = n - 1
    a, b = min(p, q) / dof, max(p, q) / dof
    low, high = ((np.sqrt(a * (1 - b)) + sign * np.sqrt(b * (1 - a))) ** 2 for sign in (-1, 1))

    def density(x: float) -> float:
        return np.sqrt(max((x - low) * (high - x), 0)) / (2 * np.pi * a * x * (1 - x))

    continuous = quad(lambda x: np.sqrt(x) * density(x), low, high, limit=400)[0]
    return continuous + max(0.0, (p + q - dof) / min(p, q))


@pytest.mark.parametrize(
    "p, q, n", [(64, 64, 500), (12, 10, 40), (5, 90, 100), (30, 30, 40), (768, 700, 10000)]
)
def test_against_the_density(p: int, q: int, n: int) -> None:
    assert mean_rho(p, q, n) == pytest.approx(by_density(p, q, n), abs=1e-7)


def test_squares_have_the_exact_permutation_mean() -> None:
    sizes = np.array([1, 2, 7, 30, 49, 50, 68, 98])
    p, q = sizes[:, None], sizes[None, :]
    np.testing.assert_allclose(power_mean(p, q, 99, 1.0), np.maximum(p, q) / 98, atol=1e-9)


@pytest.mark.parametrize(
    "p, q, n, within", [(64, 64, 500, 0.006), (20, 35, 45, 0.006), (1, 1, 30, 0.02), (1, 6, 30, 0.01)]
)
def test_against_simulation(p: int, q: int, n: int, within: float) -> None:
    rng = np.random.default_rng([p, q, n])
    found = []
    for _ in range(30 if p > 1 else 3000):
        bases = [
            np.linalg.qr(a - a.mean(axis=0))[0] for a in (rng.random((n, p)), rng.standard_normal((n, q)))
        ]
        found.append(np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).mean())
    assert np.std(found) / np.sqrt(len(found)) < within / 3
    assert mean_rho(p, q, n) == pytest.approx(np.mean(found), abs=within)


def test_one_dimension_has_its_exact_mean() -> None:
    for q in (1, 2, 7, 28):
        expected = quad(lambda t, q=q: 2 * t**2 * stats.beta.pdf(t**2, q / 2, (29 - q) / 2), 0, 1)[0]
        assert mean_rho(q, 1, 30) == pytest.approx(expected, rel=1e-6)


def test_unrelated_layers_of_64_neurons_on_500_rows_look_related() -> None:
    assert mean_rho(64, 64, 500) == pytest.approx(0.308, abs=5e-4)


def test_as_many_dimensions_as_rows_leave_nothing_to_find() -> None:
    np.testing.assert_allclose(mean_rho([99, 3, 99, 1], [99, 99, 1, 99], 100), 1.0)


def test_order_of_sides_does_not_matter_and_maps_broadcast() -> None:
    ranks = np.arange(1, 27) * 9
    values = mean_rho(ranks[:, None], ranks[None, :], 400)
    assert values.shape == (26, 26)
    np.testing.assert_array_equal(values, values.T)
    assert (np.diff(np.diagonal(values)) > 0).all()


def test_an_empty_side_is_undefined() -> None:
    values = mean_rho([0, 3, 3], [3, 0, 3], 10)
    assert np.isnan(values).tolist() == [True, True, False]


def test_impossible_dimensions() -> None:
    with pytest.raises(InputError, match="n - 1 = 9, but got up to 12"):
        mean_rho(12, 3, 10)
