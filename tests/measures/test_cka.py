from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics.pairwise import linear_kernel
from sklearn.preprocessing import KernelCenterer

import microtome as mt
from microtome.errors import InputError
from microtome.randomness import generator


def rng(name: str) -> np.random.Generator:
    return generator(0, "test_cka", name)


def related(n: int, p: int = 8, q: int = 5) -> tuple[np.ndarray, np.ndarray]:
    r = rng("related")
    x = r.normal(size=(n, p)) * np.linspace(2, 0.3, p) + 0.5
    return x, x @ r.normal(size=(p, q)) + 2 * r.normal(size=(n, q))


def cka(x: np.ndarray, y: np.ndarray, **more: object) -> float:
    return float(mt.similarity(x, y, "linear_cka", **more))  # pyright: ignore[reportArgumentType]


def debiased(x: np.ndarray, y: np.ndarray, **more: object) -> float:
    return float(mt.similarity(x, y, "debiased_cka", **more))  # pyright: ignore[reportArgumentType]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


def test_published_values() -> None:
    legacy = np.random.RandomState(1337)  # the data of the published demonstration
    x = legacy.randn(100, 10)
    y = legacy.randn(100, 10) + x
    assert cka(x, y) == pytest.approx(0.55761, abs=6e-6)
    assert debiased(x, y) == pytest.approx(0.51346, abs=6e-6)


@pytest.mark.parametrize("n", [4, 30, 400])
def test_feature_form_is_gram_form(n: int) -> None:
    x, y = related(n, p=60, q=45)  # more features than rows, and fewer
    grams = [KernelCenterer().fit_transform(linear_kernel(z)) for z in (x, y)]
    assert cka(x, y) == pytest.approx(cosine(*grams), abs=1e-12)

    def u_centered(z: np.ndarray) -> np.ndarray:
        k = z @ z.T
        np.fill_diagonal(k, 0)
        means = k.sum(axis=0) / (n - 2)
        means -= means.sum() / (2 * (n - 1))
        k = k - means - means[:, None]
        np.fill_diagonal(k, 0)
        return k

    assert debiased(x, y) == pytest.approx(cosine(u_centered(x), u_centered(y)), abs=1e-10)


def test_cka_is_the_cosine_of_centered_distance_matrices() -> None:
    x, y = related(40)
    distances = [squareform(pdist(z, "sqeuclidean")) for z in (x, y)]
    assert cka(x, y) == pytest.approx(cosine(*map(KernelCenterer().fit_transform, distances)), abs=1e-12)


def test_rotated_scaled_and_shifted_copies_are_the_same() -> None:
    x, _ = related(60)
    copy = -3.7 * x @ np.linalg.qr(rng("rotation").normal(size=(8, 8)))[0] + 2
    assert cka(x, copy) == pytest.approx(1, abs=1e-12)
    assert debiased(x, copy) == pytest.approx(1, abs=1e-12)
    assert cka(x, x @ rng("mixing").normal(size=(8, 8))) < 0.99


def test_cka_of_whitened_layers_is_squared_canonical_correlation() -> None:
    x, y = related(200)
    u, v = (np.linalg.svd(z - z.mean(axis=0), full_matrices=False)[0] for z in (x, y))
    rho = np.cos(subspace_angles(u, v))
    assert cka(u, v) == pytest.approx((rho**2).sum() / math.sqrt(8 * 5), abs=1e-12)


def test_cka_weights_overlaps_of_components_by_their_variance() -> None:
    x, y = related(200)
    (u, s, _), (v, t, _) = (np.linalg.svd(z - z.mean(axis=0), full_matrices=False) for z in (x, y))
    top = (np.outer(s**2, t**2) * (u.T @ v) ** 2).sum()
    assert cka(x, y) == pytest.approx(top / math.sqrt((s**4).sum() * (t**4).sum()), abs=1e-12)


def test_unrelated_rows_have_a_floor_that_debiasing_removes() -> None:
    r, n, d = rng("floor"), 100, 150
    drawn = [(r.normal(size=(n, d)), r.normal(size=(n, d))) for _ in range(20)]
    assert np.mean([cka(x, y) for x, y in drawn]) == pytest.approx(1 / (1 + n / d), abs=0.01)
    values = [debiased(x, y) for x, y in drawn]
    assert abs(np.mean(values)) < 4 * np.std(values) / math.sqrt(20)
    assert min(values) < 0  # and nothing is clamped
    assert mt.similarity(*drawn[0], "linear_cka").null_mean == pytest.approx(1 / (1 + n / d), abs=0.02)


@pytest.mark.parametrize("measure", ["linear_cka", "debiased_cka"])
def test_null_and_z_over_all_orders_of_the_rows(measure: str) -> None:
    x, y = related(6, p=3, q=2)
    orders = [y[list(order)] for order in itertools.permutations(range(6))]
    one = mt.similarity_matrix([x], [y, *orders], measure, precision="exact")[measure]
    drawn = one.values[0, 1:]
    assert one.null_mean[0, 0] == pytest.approx(drawn.mean(), abs=1e-10)
    assert one.z[0, 0] == pytest.approx((one.values[0, 0] - drawn.mean()) / drawn.std(), abs=1e-8)


def test_p_screens_at_five_percent() -> None:
    x, y = related(60)
    r = rng("orders")
    one = mt.similarity_matrix([x], [y[r.permutation(60)] for _ in range(400)], "debiased_cka")[
        "debiased_cka"
    ]
    assert 0.02 < (one.p < 0.05).mean() < 0.09
    assert mt.similarity(x, y, "debiased_cka").p < 1e-6


@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_rows_that_come_twice_are_clusters(precision: str) -> None:
    x, y = related(24)
    twice = np.vstack([x, x]), np.vstack([y, y])
    assert cka(*twice, precision=precision) == pytest.approx(cka(x, y), abs=1e-6)
    assert abs(debiased(*twice) - debiased(x, y)) > 0.01
    again = debiased(*twice, clusters=[*range(24)] * 2, precision=precision)
    assert again == pytest.approx(debiased(x, y), abs=1e-6)


def test_the_biased_value_is_told_too() -> None:
    x, y = related(30)
    found = mt.similarity(x, y, "debiased_cka")
    assert found.details["biased"] == pytest.approx(cka(x, y), abs=1e-12)
    assert found.value < found.details["biased"]


def test_what_is_undefined_says_why() -> None:
    x, _ = related(20)
    flat = np.full((20, 3), 0.37)
    for measure in ("linear_cka", "debiased_cka"):
        for pair in ((x, flat), (flat, x), (flat, flat)):
            found = mt.similarity(*pair, measure)
            assert math.isnan(found.value)
            assert found.reason == "a layer is constant over the rows"


def test_debiasing_needs_four_rows() -> None:
    x, y = related(4)
    assert math.isfinite(debiased(x, y))
    with pytest.raises(InputError, match=r"^debiased_cka must have at least 4 rows, but got 3\.$"):
        debiased(x[:3], y[:3])
    assert math.isfinite(cka(x[:3], y[:3]))
    assert math.isnan(mt.similarity(x[:3], y[:3], "linear_cka").null_mean)
