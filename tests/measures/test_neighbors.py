from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import hypergeom
from sklearn.neighbors import NearestNeighbors

from microtome.measures import neighbors
from microtome.measures.declare import choose
from microtome.randomness import generator


def related(n: int, p: int = 8, q: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(seed, "neighbors")
    x = rng.normal(size=(n, p)) + 0.5
    return x, x @ rng.normal(size=(p, q)) + rng.normal(size=(n, q))


def outcome(x: np.ndarray, y: np.ndarray, **options: Any) -> tuple[float, str | None]:
    chosen = choose(neighbors.MUTUAL_KNN, options)
    return chosen.pair(*(neighbors.prepare(torch.from_numpy(z), chosen.options) for z in (x, y)))


def value(x: np.ndarray, y: np.ndarray, **options: Any) -> float:
    got, reason = outcome(x, y, **options)
    assert reason is None
    return got


def expected(x: np.ndarray, y: np.ndarray, k: int, metric: str, overlap: str) -> float:
    sets = [
        NearestNeighbors(n_neighbors=k, metric=metric, algorithm="brute")
        .fit(z)
        .kneighbors(return_distance=False)
        for z in (x, y)
    ]
    shares = []
    for a, b in zip(*sets, strict=True):
        shared = len(set(a) & set(b))
        shares.append(shared / k if overlap == "share" else shared / len(set(a) | set(b)))
    return float(np.mean(shares))


@pytest.mark.parametrize("overlap", ["share", "jaccard"])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("n, k", [(2, 1), (11, 10), (50, 3), (300, 10), (600, 200)])
def test_agrees_with_scikit_learn(n: int, k: int, metric: str, overlap: str) -> None:
    x, y = related(n)
    got = value(x, y, k=k, metric=metric, overlap=overlap)
    assert got == pytest.approx(expected(x, y, k, metric, overlap), abs=1e-12)


def test_the_default_is_the_share_of_ten_nearest_by_angle() -> None:
    x, y = related(80)
    assert value(x, y) == pytest.approx(expected(x, y, 10, "cosine", "share"), abs=1e-12)


def test_neighbors_come_in_order_without_the_row_itself() -> None:
    x, _ = related(400)
    got = neighbors.nearest(torch.from_numpy(x - x.mean(0)), 7).numpy()
    oracle = NearestNeighbors(n_neighbors=7).fit(x).kneighbors(return_distance=False)
    np.testing.assert_array_equal(got, oracle)


def test_of_equally_near_rows_the_first_ones_count() -> None:
    line = np.array([[0.0], [1.0], [-1.0], [2.0], [-2.0], [1.0]])
    chosen = choose(neighbors.MUTUAL_KNN, {"k": 2, "metric": "euclidean"}).options
    indices = neighbors.prepare(torch.from_numpy(line), chosen)
    assert isinstance(indices, torch.Tensor)
    assert indices.tolist() == [[1, 2], [5, 0], [0, 4], [1, 5], [2, 0], [1, 0]]


@pytest.mark.parametrize("n", [40, 500])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_repeated_rows_and_a_rotation_agree_fully(metric: str, n: int) -> None:
    rng = generator(1, "neighbors")
    x = rng.normal(size=(20, 16))[rng.integers(0, 20, size=n)]
    rotated = 0.37 * x @ np.linalg.qr(rng.normal(size=(16, 16)))[0]
    assert value(x, rotated, metric=metric) == 1


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_changes_that_are_declared_harmless_are_and_others_are_not(metric: str) -> None:
    rng = generator(2, "neighbors")
    x, y = related(200)
    d = x.shape[1]
    changes = {
        "orthogonal": x @ np.linalg.qr(rng.normal(size=(d, d)))[0],
        "isotropic_scale": 3.7 * x,
        "invertible_linear": x @ rng.normal(size=(d, d)),
        "translation": x + rng.normal(size=d),
        "neuron_permutation": x[:, rng.permutation(d)],
        "neuron_scale": x * rng.normal(size=d),
    }
    declared = choose(neighbors.MUTUAL_KNN, {"metric": metric}).declared("invariances").left
    base = value(x, y, metric=metric)
    assert {k for k, z in changes.items() if value(z, y, metric=metric) == base} == declared


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_an_offset_or_a_far_row_does_not_blur_the_others(metric: str) -> None:
    x, y = related(300)
    offset, far = x + 3000, x.copy()
    far[0] *= 1e8
    unit = (lambda z: z / np.linalg.norm(z, axis=1, keepdims=True)) if metric == "cosine" else np.asarray
    for changed in (offset, far):
        oracle = by_differences(unit(changed), unit(y), 10)
        assert value(changed, y, metric=metric) == pytest.approx(oracle, abs=1e-12)


def by_differences(x: np.ndarray, y: np.ndarray, k: int) -> float:
    """Share of Euclidean neighbors, from differences of rows, which lose no digits to large norms."""

    def nearest(z: np.ndarray) -> list[set[int]]:
        distances = np.linalg.norm(z[:, None] - z, axis=-1)
        np.fill_diagonal(distances, np.inf)
        return [set(row) for row in np.argsort(distances, axis=1)[:, :k].tolist()]

    return float(np.mean([len(a & b) / k for a, b in zip(nearest(x), nearest(y), strict=True)]))


def test_two_far_groups_keep_their_order_even_beyond_the_own_group() -> None:
    rng = generator(5, "neighbors")
    x, y = rng.normal(size=(41, 2)), rng.normal(size=(41, 2))
    x[:20] = x[:20] * 1e3 + 1e7
    assert value(x, y, k=30, metric="euclidean") == pytest.approx(by_differences(x, y, 30), abs=1e-12)


@pytest.mark.parametrize("overlap", ["share", "jaccard"])
def test_chance_is_the_mean_over_orders_of_the_rows(overlap: str) -> None:
    rng = generator(3, "neighbors")
    x, y = related(40)
    options = {"k": 8, "overlap": overlap}
    draws = [value(x, rng.permutation(y), **options) for _ in range(300)]
    error = np.std(draws) / np.sqrt(len(draws))
    assert abs(np.mean(draws) - neighbors.chance(40, options)) < 4 * error


@pytest.mark.parametrize("n, k", [(5, 4), (12, 8), (50, 10), (5000, 10), (3000, 900)])
def test_chance_of_jaccard_is_a_hypergeometric_mean(n: int, k: int) -> None:
    shared = np.arange(k + 1)
    oracle = float((hypergeom.pmf(shared, n - 1, k, k) * shared / (2 * k - shared)).sum())
    assert neighbors.chance(n, {"k": k, "overlap": "jaccard"}) == pytest.approx(oracle, rel=1e-9)


def test_chance_needs_more_rows_than_neighbors() -> None:
    assert math.isnan(neighbors.chance(10, {"k": 10, "overlap": "share"}))


def test_what_is_undefined_says_why() -> None:
    x, y = related(30)
    zero = x.copy()
    zero[6] = 0
    one_direction = np.outer(np.arange(1, 31), [0.1, 0.7, 0.3])
    cases: list[tuple[np.ndarray, dict[str, Any], str]] = [
        (x, {"k": 30}, "needs more than k = 30 rows, has 30"),
        (zero, {}, "row 6"),
        (np.full((30, 4), 0.37), {"metric": "euclidean"}, "equal rows"),
        (one_direction, {}, "one direction"),
    ]
    for bad, options, words in cases:
        got, reason = outcome(bad, y, **options)
        assert math.isnan(got)
        assert words in str(reason)
    assert outcome(zero, y, metric="euclidean")[1] is None
    assert str(outcome(y, zero)[1]).startswith("the right layer has row 6")
