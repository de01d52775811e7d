from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from microtome.errors import InputError
from microtome.inference.wachter import mean_rho, power_mean


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
