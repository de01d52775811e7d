"""Is the second implementation right? Identities, published values, other libraries; do the cases bite?"""

from __future__ import annotations

import math
import re
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.spatial
import scipy.stats

import reference as ref
from cases import ACCURACY, CASES, as_bfloat16, make, rotation
from defects import DEFECTS
from microtome.randomness import generator
from reference import VALUES

N, D = 300, 12
CLUSTERS = np.repeat(np.arange(10), [1, 2, 3, 5, 2, 4, 6, 3, 2, 2])
ON_ROWS = ("rsa", "mutual_knn")
OF_COLUMNS = tuple(name for name in VALUES if name not in ON_ROWS)
ROTATED = ("linear_cka", "debiased_cka", "rbf_cka", "cca", "cca_squared", "svcca", "nbs", "linear_regression")
DIRECTED = ("pwcca", "pwcca_svcca", "pwcca_wu", "mixed_regression", "linear_regression", "neuron_correlation")
EACH_SCALE = ("cca", "cca_squared", "svcca_wu", "neuron_correlation", "neuron_matching", "mixed_regression")


def rng(name: str) -> np.random.Generator:
    return generator(0, "test_reference", name)


def pair(name: str = "plain power law", n: int = N, d: int = D) -> tuple[np.ndarray, np.ndarray]:
    x, y = make(name, n, d)
    return x.astype(np.float64), y.astype(np.float64)


def close(a, b, within: float = 1e-10) -> bool:
    return abs(a - b) <= within


def orthonormal(name: str, n: int, d: int) -> np.ndarray:
    """Columns of mean 0 and length 1 at right angles."""
    return np.linalg.qr(np.column_stack([np.ones(n), rng(name).standard_normal((n, d))]))[0][:, 1:]


# Identities


@pytest.mark.parametrize("name", VALUES)
def test_a_layer_with_itself_is_1(name: str) -> None:
    x, _ = pair()
    assert close(VALUES[name](x, x), 1)
    assert ref.procrustes_distance(x, x) < 1e-10
    assert ref.procrustes_angle(x, x) < 1e-6


def test_copies() -> None:
    x, _ = pair()
    copy = 2 * x @ rotation(rng("copy"), D)
    for name in ROTATED:
        assert close(VALUES[name](x, copy + 5), 1)
    for name in ON_ROWS:
        assert close(VALUES[name](x, copy), 1)
        assert VALUES[name](x, copy + 1) < 0.99
    copy = x @ rng("invertible").standard_normal((D, D)) - 2
    for name in ("cca", "cca_squared", "mixed_regression", "linear_regression"):
        assert close(VALUES[name](x, copy), 1)
    assert ref.linear_cka(x, copy) < 0.99


@pytest.mark.parametrize("name", ["plain power law", "wider first", "fewer rows than features"])
def test_feature_form_is_gram_form(name: str) -> None:
    x, y = (ref.centered(z) for z in pair(name))
    n, k, m = len(x), x @ x.T, y @ y.T
    assert close(ref.linear_cka(x, y), np.sum(k * m) / np.linalg.norm(k) / np.linalg.norm(m))
    feature = np.linalg.norm(x.T @ y) ** 2 / np.linalg.norm(x.T @ x) / np.linalg.norm(y.T @ y)
    assert close(ref.linear_cka(x, y), feature)

    def h(a: np.ndarray, b: np.ndarray) -> float:
        r, s = np.sum(a**2, axis=1), np.sum(b**2, axis=1)
        total = r.sum() * s.sum() / ((n - 1) * (n - 2))
        return float(np.linalg.norm(a.T @ b) ** 2 - n / (n - 2) * (r @ s) + total)

    assert close(ref.debiased_cka(x, y), h(x, y) / math.sqrt(h(x, x) * h(y, y)))


def test_cka_and_cca_of_one_another() -> None:
    x, y = pair("wider first")
    u, v, total = ref.basis(x), ref.basis(y), np.sum(ref.cca(x, y) ** 2)
    assert close(ref.linear_cka(u, v), total / math.sqrt(ref.rank(x) * ref.rank(y)))
    assert close(ref.linear_regression(v, x), total / ref.rank(y))
    (u, s, _), (v, t, _) = (np.linalg.svd(ref.centered(z), full_matrices=False) for z in (x, y))
    top = np.sum(np.outer(s**2, t**2) * (u.T @ v) ** 2)
    assert close(ref.linear_cka(x, y), top / math.sqrt(np.sum(s**4) * np.sum(t**4)))


def test_cka_is_the_cosine_of_centered_distance_matrices() -> None:
    x, y = pair(n=60)
    n = len(x)
    h, off = np.eye(n) - 1 / n, ~np.eye(n, dtype=bool)
    a, b = (h @ ref.squared_distances(z) @ h for z in (x, y))
    assert close(ref.linear_cka(x, y), np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b))

    def u_centered(d: np.ndarray) -> np.ndarray:
        m = d.sum(axis=0) / (n - 2)
        m = m - m.sum() / (2 * (n - 1))
        return (d - m[:, None] - m[None, :])[off]

    a, b = u_centered(ref.squared_distances(x)), u_centered(ref.squared_distances(y))
    assert close(ref.debiased_cka(x, y), a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_means_under_no_relation() -> None:
    r, n, d = rng("null"), 150, 200
    drawn = [(r.standard_normal((n, d)), r.standard_normal((n, d))) for _ in range(12)]
    assert close(np.mean([ref.linear_cka(x, y) for x, y in drawn]), 1 / (1 + n / d), 0.01)
    assert close(np.mean([ref.debiased_cka(x, y) for x, y in drawn]), 0, 0.01)
    n, p, q = 101, 8, 5
    drawn = [(r.standard_normal((n, p)), r.standard_normal((n, q))) for _ in range(200)]
    assert close(np.mean([ref.mean_squared_cca(x, y) for x, y in drawn]), p / (n - 1), 0.005)
    assert close(np.mean([ref.linear_regression(x, y) for x, y in drawn]), q / (n - 1), 0.005)
    assert close(np.mean([ref.mixed_regression(x, y) for x, y in drawn]), math.sqrt(q / (n - 1)), 0.02)
    assert np.mean([ref.neuron_correlation(x, y) for x, y in drawn]) < math.sqrt(2 * math.log(2 * p) / n)
    knn = [ref.mutual_knn(x[:60], y[:60], 10) for x, y in drawn[:40]]
    assert close(np.mean(knn), 10 / 59, 0.01)


@pytest.mark.parametrize("variant", ["morcos", "svcca", "wu"])
def test_pwcca_from_covariances(variant: str) -> None:
    x, y = pair("wider first")
    cut = 1 if variant == "morcos" else 0.99

    def whitened(z: np.ndarray) -> np.ndarray:
        z = (z - z.mean(axis=0)) / (1 if variant == "svcca" else z.std(axis=0))
        values, vectors = (part[..., ::-1] for part in np.linalg.eigh(z.T @ z))
        kept = np.sum(np.cumsum(values) / values.sum() < cut) + (variant != "wu")
        return (z @ (vectors / np.sqrt(values)))[:, :kept]

    a, b = whitened(x), whitened(y)
    values, vectors = np.linalg.eigh(b.T @ a @ a.T @ b)  # the right side is the narrower one
    rho, g = np.sqrt(values), b @ vectors
    h = (a @ a.T @ g) / rho
    alpha, beta = np.abs(x.T @ h).sum(axis=0), np.abs(y.T @ g).sum(axis=0)
    expected = float(alpha @ rho / alpha.sum()), float(beta @ rho / beta.sum())
    assert ref.pwcca(x, y, variant) == pytest.approx(expected, abs=1e-9)
    assert ref.pwcca(y, x, variant) == pytest.approx(expected[::-1], abs=1e-9)
    assert rho.min() < min(expected) < max(expected) < rho.max()


def test_two_neurons_by_hand() -> None:
    # 3a and b against a and a mixture with one half of b: correlations 1 and 1/2, weights 3 and 1.
    a, b, c = orthonormal("hand", 8, 3).T
    x, y = np.column_stack([3 * a, b]), np.column_stack([a, 0.5 * b + math.sqrt(0.75) * c])
    np.testing.assert_allclose(ref.cca(x, y), [1, 0.5], atol=1e-12)
    assert ref.pwcca(x, y) == pytest.approx(((3 * 1 + 1 * 0.5) / 4, (1 + 0.5) / 2), abs=1e-10)
    assert close(ref.neuron_correlation(x, y), 0.75)
    assert close(ref.linear_regression(x, y), (9 + 0.25) / 10)
    assert close(ref.nbs(x, y), 3.5 / math.sqrt(10 * 2))


def test_variance_cut_by_hand() -> None:
    x = orthonormal("cut", 9, 3) * np.sqrt([0.90, 0.09, 0.01])
    assert [ref.principal(x, "center", t).shape[1] for t in (0.5, 0.95, 0.98, 0.995, 1)] == [1, 2, 2, 3, 3]
    assert [ref.principal(x, "center", t, False).shape[1] for t in (0.5, 0.95, 0.98, 0.995)] == [0, 1, 1, 2]
    assert ref.principal(x, "standardize", 0.9).shape[1] == 3
    assert math.isnan(ref.svcca(x, x, threshold=0.5, inclusive=False))
    x, y = pair("layer norm")
    assert close(ref.svcca(x, y, threshold=1), ref.mean_cca(x, y), 1e-8)
    assert close(ref.svcca(x, y, "standardize", threshold=1), ref.mean_cca(x, y), 1e-8)


@pytest.mark.parametrize("name", VALUES)
def test_order_of_rows_and_neurons(name: str) -> None:
    x, y = pair()
    rows, value = rng("rows").permutation(N), VALUES[name](x, y)
    assert close(VALUES[name](x[rows], y[rows]), value)
    assert close(VALUES[name](x[:, ::-1], y[:, rng("neurons").permutation(D)]), value)
    assert VALUES[name](x[rows], y) < value - 0.1
    if name not in ("debiased_cka", "rbf_cka", *ON_ROWS):
        assert close(VALUES[name](np.vstack([x, x]), np.vstack([y, y])), value)


@pytest.mark.parametrize("name", VALUES)
def test_rotation_of_both_sides(name: str) -> None:
    x, y = pair(d=48)
    rotated = x @ rotation(rng("left"), 48), y @ rotation(rng("right"), 48)
    assert close(VALUES[name](x, y), VALUES[name](*rotated), 1e-9) == (name in ROTATED + ON_ROWS)


def test_neurons_are_matched_and_lost_after_a_rotation() -> None:
    r = rng("local")
    x = r.standard_normal((N, 48))
    y = x[:, r.permutation(48)] + 0.5 * r.standard_normal((N, 48))
    rotated = x @ rotation(r, 48), y @ rotation(r, 48)
    together = ref.multiple_correlations(x, y)
    assert (ref.neuron_correlations(x, y) <= together + 1e-12).all()
    assert close(np.mean(together**2), ref.linear_regression(ref.standardized(x), y))
    assert ref.neuron_correlation(*rotated) < ref.neuron_correlation(x, y) - 0.3
    assert close(ref.neuron_correlation(x, y, "one_to_one"), ref.neuron_correlation(x, y))
    assert ref.neuron_correlation(*rotated, "one_to_one") < ref.neuron_correlation(*rotated)
    x, y = x[:30, :5], y[:30, :5]
    r = np.abs(np.corrcoef(x.T, y.T)[:5, 5:])
    best = max(np.mean(r[range(5), order]) for order in permutations(range(5)))
    assert close(ref.neuron_correlation(x, y, "one_to_one"), best)
    assert close(ref.neuron_correlation(x, y, top=0.4), np.sort(r.max(axis=1))[-2:].mean())
    assert close(ref.neuron_correlation(x, y, top=0.1), r.max())


@pytest.mark.parametrize("name", OF_COLUMNS)
def test_shift_scale_and_dead_neurons(name: str) -> None:
    x, y = (np.round(z, 2) for z in pair())
    value = VALUES[name](x, y)
    shift = rng("shift").standard_normal(D)
    assert close(VALUES[name](7 * x + shift, y - shift), value)
    assert close(VALUES[name](x + 4096 * (np.arange(D) == 4), y), value, 1e-8)
    assert close(VALUES[name](np.insert(x, 3, 0.37, axis=1), y), value)
    each = rng("scale").choice([-1, 1], D) * np.geomspace(1e-6, 1e6, D)
    assert close(VALUES[name](x * each, y / each), value, 1e-9) == (name in EACH_SCALE)


@pytest.mark.parametrize("name", VALUES)
def test_direction_matters_where_it_should(name: str) -> None:
    x, y = pair("wider first")
    assert close(VALUES[name](x, y), VALUES[name](y, x), 1e-9) == (name not in DIRECTED)


# Values known from elsewhere


def test_golden_values() -> None:
    legacy = np.random.RandomState(1337)
    x = legacy.randn(100, 10)
    y = legacy.randn(100, 10) + x
    found = [ref.linear_cka(x, y), ref.debiased_cka(x, y), ref.rbf_cka(x, y, 0.5), ref.rbf_cka(x, y, 1)]
    np.testing.assert_allclose(found, [0.55761, 0.51346, 0.65483, 0.57583], atol=6e-6)
    found = [ref.mean_squared_cca(x, y), ref.mean_cca(x, y)]
    np.testing.assert_allclose(found, [0.54540, 0.73101], atol=6e-6)


def test_against_scipy() -> None:
    x, y = pair("wider first", n=40)
    angles = scipy.linalg.subspace_angles(x - x.mean(axis=0), y - y.mean(axis=0))
    np.testing.assert_allclose(np.sort(ref.cca(x, y)), np.sort(np.cos(angles)), atol=1e-10)
    for inner in ("cosine", "correlation", "euclidean", "squared_euclidean"):
        kind: Any = inner.replace("squared_", "sq")
        a, b = (scipy.spatial.distance.pdist(z, kind) for z in (x, y))
        assert close(ref.rsa(x, y, inner), scipy.stats.pearsonr(a, b)[0])
        assert close(ref.rsa(x, y, inner, "spearman"), scipy.stats.spearmanr(a, b)[0])
        assert close(ref.rsa(x, y, inner, "kendall"), scipy.stats.kendalltau(a, b)[0])
    assert close(ref.procrustes_distance(x, y) ** 2, 2 - 2 * ref.nbs(x, y))
    k, m = (ref.centered(z) @ ref.centered(z).T for z in (x, y))
    root = np.real(np.asarray(scipy.linalg.sqrtm(k + 1e-12 * np.eye(40))))
    fidelity = np.sum(np.sqrt(np.maximum(np.linalg.eigvalsh(root @ m @ root), 0)))
    assert close(ref.nbs(x, y), fidelity / math.sqrt(np.trace(k) * np.trace(m)), 1e-4)
    padded = np.pad(y, ((0, 0), (0, x.shape[1] - y.shape[1])))
    assert close(scipy.spatial.procrustes(x, padded)[2], 1 - ref.nbs(x, y) ** 2)  # it also chooses a scale


def test_against_scikit_learn() -> None:
    from sklearn.cross_decomposition import CCA
    from sklearn.linear_model import LinearRegression
    from sklearn.neighbors import NearestNeighbors

    x, y = pair("narrower first", n=200, d=8)
    guess = LinearRegression().fit(y, x).predict(y)
    r: Any = [scipy.stats.pearsonr(a, b)[0] for a, b in zip(x.T, guess.T, strict=True)]
    np.testing.assert_allclose(ref.multiple_correlations(x, y), r, atol=1e-10)
    assert close(ref.linear_regression(x, y), 1 - np.var(x - guess, axis=0).sum() / x.var(axis=0).sum())
    a, b = CCA(n_components=2, max_iter=5000, tol=1e-10).fit(x, y).transform(x, y)
    found: Any = [scipy.stats.pearsonr(a[:, i], b[:, i])[0] for i in range(2)]
    np.testing.assert_allclose(found, ref.cca(x, y)[:2], atol=1e-3)
    for metric in ("cosine", "euclidean"):
        near = [NearestNeighbors(n_neighbors=10, metric=metric).fit(z).kneighbors()[1] for z in (x, y)]
        shared = np.array([len(set(p) & set(q)) for p, q in zip(*near, strict=True)])
        assert close(ref.mutual_knn(x, y, 10, metric), np.mean(shared / 10))
        assert close(ref.mutual_knn(x, y, 10, metric, "jaccard"), np.mean(shared / (20 - shared)))


def test_clusters_of_one_row_and_of_copies() -> None:
    x, y = pair("unrelated", n=24)
    assert close(ref.debiased_cka(x, y, clusters=[*range(24)]), ref.debiased_cka(x, y))
    twice = np.vstack([x, x]), np.vstack([y, y])
    assert abs(ref.debiased_cka(*twice) - ref.debiased_cka(x, y)) > 0.05
    assert close(ref.debiased_cka(*twice, clusters=[*range(24)] * 2), ref.debiased_cka(x, y))


def test_clusters_of_unequal_size() -> None:
    r, clustered, plain = rng("clusters"), [], []
    for _ in range(150):
        x, y = (r.standard_normal((10, 3))[CLUSTERS] + 0.3 * r.standard_normal((30, 3)) for _ in range(2))
        clustered.append(ref.debiased_cka(x + 4, y, CLUSTERS.tolist()))
        plain.append(ref.debiased_cka(x, y))
    error = np.std(clustered) / math.sqrt(150)
    assert abs(np.mean(clustered)) < 3 * error
    assert np.mean(plain) > 6 * error  # rows of one cluster look like a relation
    x, y = (ref.centered(z) for z in pair(n=30, d=4))
    same, sizes = CLUSTERS[:, None] == CLUSTERS[None, :], np.bincount(CLUSTERS)
    rest = 30 - 2 * sizes

    def h(a: np.ndarray, b: np.ndarray) -> float:
        k, m = np.where(same, a @ a.T, 0), np.where(same, b @ b.T, 0)
        ki, li = -k.sum(axis=1), -m.sum(axis=1)
        kc = np.bincount(CLUSTERS, ki)
        u = np.sum(kc / rest) / (1 + np.sum(sizes / rest))
        ui = (ki - u + ((kc - sizes * u) / rest)[CLUSTERS]) / (30 - sizes[CLUSTERS])
        return float(np.linalg.norm(a.T @ b) ** 2 - np.sum(k * m) - 2 * ui @ li)

    assert close(ref.debiased_cka(x, y, CLUSTERS.tolist()), h(x, y) / math.sqrt(h(x, x) * h(y, y)))


# Cases and defects


def test_ranks_of_the_cases() -> None:
    special = {
        "layer norm": (23, 23),
        "dead neuron": (22, 23),
        "duplicated columns": (23, 23),
        "sd range 1e5": (15, 15),
        "wider first": (24, 18),
        "narrower first": (18, 24),
        "fewer rows than features": (11, 11),
        "four rows": (3, 3),
        "constant right layer": (24, 0),
        "two constant layers": (0, 0),
    }
    found = {name: tuple(ref.rank(z) for z in make(name, N, 24)) for name in CASES}
    assert found == {name: special.get(name, (24, 24)) for name in CASES}


def test_cases_are_what_they_say() -> None:
    import torch

    for name in CASES:
        (x, y), (again, _), (other, _) = make(name, N, 24), make(name, N, 24), make(name, N, 24, seed=1)
        assert x.dtype == y.dtype == np.float32
        assert len(x) == len(y)
        np.testing.assert_array_equal(x, again)
        assert not np.array_equal(x, other)

    def spectrum(name: str) -> np.ndarray:
        return np.linalg.svd(ref.centered(make(name, N, 24)[0]), compute_uv=False)

    s = spectrum("one component above 99 %")
    assert 0.99 < s[0] ** 2 / np.sum(s**2) < 0.999
    for name, fall in {"sd range 1e2": 1e2, "sd range 1e3": 1e3, "sd range 1e5": 1e5}.items():
        assert 0.5 < spectrum(name)[0] / spectrum(name)[-1] / fall < 2
    sd = make("scales 1e-6 to 1e6", N, 24)[0].std(axis=0)
    assert sd.max() / sd.min() > 1e10
    half = make("float16 values", N, 24)[0]
    np.testing.assert_array_equal(half, half.astype(np.float16))
    x = rng("bfloat16").standard_normal((200, 50)).astype(np.float32)
    x[0, :2] = 1 + 2**-8, 1 + 3 * 2**-8  # halfway, down and up to even
    np.testing.assert_array_equal(as_bfloat16(x), torch.from_numpy(x).to(torch.bfloat16).float().numpy())


@pytest.mark.parametrize("name", VALUES)
def test_undefined_is_nan_and_defined_is_in_range(name: str) -> None:
    for case in ("constant right layer", "two constant layers"):
        x, y = make(case, 40, 6)
        assert math.isnan(VALUES[name](x, y))
        assert math.isnan(VALUES[name](y, x))
    x, y = (rng(side).standard_normal((12, 12)) for side in ("few left", "few right"))
    if name in ("cca", "cca_squared", "mixed_regression", "linear_regression"):
        assert close(VALUES[name](x, y), 1)  # too few rows, whatever the data
    assert math.isnan(VALUES[name](x, y)) == name.startswith("pwcca")
    for case in ACCURACY:
        if case == "one component above 99 %" and name.endswith("_wu"):
            continue  # nothing is left before the component that crosses the threshold
        assert -0.05 <= VALUES[name](*make(case, N, 24)) <= 1 + 1e-12


# Those that are right on easy input, and would pass a check that tries nothing else.
SILENT = [name for name in DEFECTS if re.match("Gram|raw|dead|inverse|rounding|rank|NaN|.*(mask|null)", name)]


def notices(defect: str, case: str) -> bool:
    measure, broken = DEFECTS[defect]
    x, y = make(case, 258, 24)
    truth, a, b = VALUES[measure](x, y), x.copy(), y.copy()
    try:
        value = broken(a, b)
    except (np.linalg.LinAlgError, IndexError):
        return True
    changed = not (np.array_equal(a, x) and np.array_equal(b, y))
    return changed or not close(value, truth, 1e-3)


@pytest.mark.parametrize("defect", DEFECTS)
def test_every_defect_is_noticed_on_some_case(defect: str) -> None:
    assert any(notices(defect, case) for case in ACCURACY)


@pytest.mark.parametrize("defect", SILENT)
def test_a_defect_is_nothing_but_its_mistake(defect: str) -> None:
    assert not notices(defect, "narrower first")
