from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from cluster_grams import cluster_h, cluster_scores, off_cluster_weights, projected
from microtome.inference.clusters import Clusters, cluster_sums
from microtome.inference.resampling import debiased_scores, scores_interval

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

CODES = np.random.default_rng(9).permutation(np.repeat(np.arange(6), [1, 2, 5, 3, 1, 4]))


def sides(seed: int, n: int, d: int = 5) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + 2
    return x, x @ rng.standard_normal((d, 3)) + rng.standard_normal((n, 3))


def gram(x: Array) -> Array:
    return x @ x.T


def cka(K: Array, L: Array, codes: Codes) -> float:
    K, L = projected(K, codes), projected(L, codes)
    return float((K * L).sum() / np.sqrt((K * K).sum() * (L * L).sum()))


def sentences(rng: np.random.Generator, count: int) -> tuple[Array, Array, Codes]:
    """Unequal sentences whose words are alike, seen by two related layers."""
    codes = np.repeat(np.arange(count), rng.integers(2, 23, count))
    shared = (rng.standard_normal((count, 8))[codes] + rng.standard_normal((len(codes), 8))) / np.sqrt(2)
    mix = np.random.default_rng(0).standard_normal((2, 8, 32))
    x, y = (shared @ m + 2 * rng.standard_normal((len(codes), 32)) for m in mix)
    return x, y, codes


def test_projection_is_the_least_squares_residual_off_the_clusters() -> None:
    x, _ = sides(0, len(CODES))
    K = gram(x)
    n = len(CODES)
    pairs = [(i, j) for i in range(n) for j in range(n) if CODES[i] != CODES[j]]
    design = np.zeros((len(pairs), n))
    for line, (i, j) in enumerate(pairs):
        design[line, i] += 1
        design[line, j] += 1
    target = np.array([K[i, j] for i, j in pairs])
    residual = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    expected = np.zeros((n, n))
    expected[tuple(np.array(pairs).T)] = residual
    np.testing.assert_allclose(projected(K, CODES), expected, atol=1e-11 * np.abs(K).max())


def test_single_rows_give_the_unbiased_hsic_of_song() -> None:
    x, y = sides(1, 12)
    n, K, L = 12, gram(x), gram(y)
    np.fill_diagonal(K, 0)
    np.fill_diagonal(L, 0)
    song = np.trace(K @ L) + K.sum() * L.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (K @ L).sum()
    codes = np.arange(n)
    assert (projected(gram(x), codes) * projected(gram(y), codes)).sum() == pytest.approx(song, rel=1e-10)


def test_shifting_either_side_changes_nothing() -> None:
    x, y = sides(2, len(CODES))
    value = cka(gram(x), gram(y), CODES)
    assert cka(gram(x + 100 * np.arange(5)), gram(y - 7), CODES) == pytest.approx(value, rel=1e-9)


def test_moments_give_the_same_as_gram_matrices() -> None:
    x, y = (a - a.mean(axis=0) for a in sides(3, len(CODES)))
    K, L = gram(x), gram(y)
    inside = CODES[:, None] == CODES[None, :]
    k_rows, l_rows = -(K * inside).sum(axis=1), -(L * inside).sum(axis=1)
    u = off_cluster_weights(np.stack([k_rows, l_rows]), CODES)
    frob2 = [((x.T @ y) ** 2).sum(), ((y.T @ y) ** 2).sum()]
    within = [(K * L * inside).sum(), (L * L * inside).sum()]
    expected = [(projected(A, CODES) * projected(L, CODES)).sum() for A in (K, L)]
    np.testing.assert_allclose(cluster_h(frob2, within, u, l_rows), expected, rtol=1e-10)


def test_independent_sides_have_mean_zero_however_unequal_the_clusters() -> None:
    rng = np.random.default_rng(4)
    codes = np.repeat(np.arange(12), [1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 14])
    n, values, rowwise = len(codes), [], []
    for _ in range(1500):
        x, y = (rng.standard_normal((12, 3))[codes] + 0.5 * rng.standard_normal((n, 3)) for _ in range(2))
        for codes_used, kept in ((codes, values), (np.arange(n), rowwise)):
            kept.append((projected(gram(x), codes_used) * projected(gram(y), codes_used)).sum())
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values)) < 3.5 * error
    # Leaving out the pairs of a row with itself alone is not enough.
    assert np.mean(rowwise) > 10 * np.std(rowwise) / np.sqrt(len(rowwise))


@pytest.mark.parametrize("codes", [CODES, np.arange(len(CODES))])
def test_scores_from_a_second_reading_of_the_rows(codes: Codes) -> None:
    x, y = (a - a.mean(axis=0) for a in sides(5, len(codes)))
    K, L = gram(x), gram(y)
    inside = codes[:, None] == codes[None, :]
    k_rows, l_rows = -(K * inside).sum(axis=1), -(L * inside).sum(axis=1)
    u, v = off_cluster_weights(k_rows, codes), off_cluster_weights(l_rows, codes)
    rows = np.einsum("id,de,ie->i", x, x.T @ y, y) - (K * L * inside).sum(axis=1)
    rows -= v * k_rows + x @ (x.T @ v) - (K * inside) @ v + y @ (y.T @ u) - (L * inside) @ u
    rows += v * (u.sum() - inside @ u) + (u @ v) - inside @ (u * v)
    expected = cluster_scores(projected(K, codes), projected(L, codes), codes)
    np.testing.assert_allclose(cluster_sums(rows, codes), expected, rtol=1e-9)


def test_influence_sums_to_zero_and_a_layer_is_sure_of_itself() -> None:
    x, y = sides(6, len(CODES))
    K, L = projected(gram(x), CODES), projected(gram(y), CODES)
    g_xy, g_xx, g_yy = (cluster_scores(*pair, CODES) for pair in ((K, L), (K, K), (L, L)))
    H = [g.sum() for g in (g_xy, g_xx, g_yy)]
    theta = H[0] / np.sqrt(H[1] * H[2])
    psi = debiased_scores(theta, g_xy, g_xx, g_yy, H[1], H[2])
    assert psi.sum() == pytest.approx(0, abs=1e-12)
    expected = np.sqrt(6) * psi.std(ddof=1)
    assert scores_interval(theta, psi, unit="cluster").se == pytest.approx(expected, rel=1e-10)
    alone = scores_interval(1.0, debiased_scores(1.0, g_xx, g_xx, g_xx, H[1], H[1]), unit="cluster")
    assert alone.at().width == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("count, low, high", [(40, 0.84, 0.97), (80, 0.91, 0.99)])
def test_influence_against_leaving_out_one_cluster(count: int, low: float, high: float) -> None:
    rng = np.random.default_rng(count)
    ratios = []
    for _ in range(3):
        x, y, codes = sentences(rng, count)
        K, L = projected(gram(x), codes), projected(gram(y), codes)
        g_xy, g_xx, g_yy = (cluster_scores(*pair, codes) for pair in ((K, L), (K, K), (L, L)))
        theta = g_xy.sum() / np.sqrt(g_xx.sum() * g_yy.sum())
        psi = debiased_scores(theta, g_xy, g_xx, g_yy, g_xx.sum(), g_yy.sum())
        left = np.array([leave_out(x, y, codes, c) for c in range(count)])
        jackknife = np.sqrt((count - 1) / count * ((left - left.mean()) ** 2).sum())
        ratios.append(scores_interval(theta, psi, unit="cluster").se / jackknife)
    assert low < np.mean(ratios) < high


def leave_out(x: Array, y: Array, codes: Codes, cluster: int) -> float:
    """Cluster-debiased CKA without one cluster, by moments: fast enough to do it for every cluster."""
    kept = codes != cluster
    x, y = (a[kept] - a[kept].mean(axis=0) for a in (x, y))
    codes = Clusters.from_ids(codes[kept]).codes
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    blocks = [slice(a, b) for a, b in zip(starts, [*starts[1:], len(codes)], strict=True)]
    rows = [-np.einsum("id,id->i", a, np.add.reduceat(a, starts, axis=0)[codes]) for a in (x, y)]

    def h(one: int, two: int) -> Array:
        a, b = (x, y)[one], (x, y)[two]
        within = sum((gram(a[s]) * gram(b[s])).sum() for s in blocks)
        return cluster_h(((a.T @ b) ** 2).sum(), within, off_cluster_weights(rows[one], codes), rows[two])

    return float(h(0, 1) / np.sqrt(h(0, 0) * h(1, 1)))


def test_a_whole_map_at_once() -> None:
    x, y = sides(7, len(CODES))
    left = [projected(gram(a), CODES) for a in (x, x**2, y)]
    right = [projected(gram(a), CODES) for a in (y, np.tanh(x))]
    g_xy = np.array([[cluster_scores(K, L, CODES) for L in right] for K in left])
    g_xx = np.array([cluster_scores(K, K, CODES) for K in left])[:, None]
    g_yy = np.array([cluster_scores(L, L, CODES) for L in right])[None]
    H_xx, H_yy = g_xx.sum(-1), g_yy.sum(-1)
    theta = g_xy.sum(-1) / np.sqrt(H_xx * H_yy)
    psi = debiased_scores(theta, g_xy, g_xx, g_yy, H_xx, H_yy)
    assert psi.shape == (3, 2, 6)
    band = scores_interval(theta, psi, unit="cluster")
    for i, j in np.ndindex(3, 2):
        cell = debiased_scores(theta[i, j], g_xy[i, j], g_xx[i, 0], g_yy[0, j], H_xx[i, 0], H_yy[0, j])
        assert band.at(i, j) == scores_interval(theta[i, j], cell, unit="cluster").at()


def test_a_side_without_signal_has_no_interval() -> None:
    g = np.array([0.2, -0.1, 0.3])
    psi = debiased_scores([0.5, np.nan], [g, g], [g, g], [g, g], [0.4, -0.1], [0.4, 0.4])
    band = scores_interval([0.5, np.nan], psi, unit="row")
    assert np.isfinite(band.low[0])
    assert np.isnan(band.low[1])


def test_intervals_cover_the_population_value() -> None:
    # Two noisy copies of one signal: the noise adds 0.5 to every variance and nothing to the covariances.
    rng = np.random.default_rng(8)
    scale = np.array([2.0, 1.5, 1.0, 0.7])
    mixed, total = scale**4, (scale**2 + 0.5) ** 2
    truth = mixed.sum() / total.sum()
    hits = 0
    for _ in range(300):
        signal = rng.standard_normal((100, 4)) * scale
        x, y = (signal + np.sqrt(0.5) * rng.standard_normal((100, 4)) for _ in range(2))
        codes = np.arange(100)
        K, L = projected(gram(x), codes), projected(gram(y), codes)
        g_xy, g_xx, g_yy = (cluster_scores(*pair, codes) for pair in ((K, L), (K, K), (L, L)))
        theta = g_xy.sum() / np.sqrt(g_xx.sum() * g_yy.sum())
        psi = debiased_scores(theta, g_xy, g_xx, g_yy, g_xx.sum(), g_yy.sum())
        band = scores_interval(theta, psi, unit="row")
        hits += bool(band.low < truth < band.high)
    assert 0.90 < hits / 300 < 0.985
