from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

import microtome as mt
import reference
from microtome.errors import SmallSampleWarning
from microtome.inference.estimate import Estimate
from microtome.randomness import generator


def rng(name: str) -> np.random.Generator:
    return generator(0, "test_cca", name)


def related(n: int = 300, p: int = 8, q: int = 5) -> tuple[np.ndarray, np.ndarray]:
    r = rng("related")
    x = r.normal(size=(n, p)) @ r.normal(size=(p, p)) + 3
    return x, x @ r.normal(size=(p, q)) + 4 * r.normal(size=(n, q))


def orthonormal(n: int, d: int) -> np.ndarray:
    """Columns of mean 0 and length 1 at right angles."""
    return np.linalg.qr(np.column_stack([np.ones(n), rng("orthonormal").normal(size=(n, d))]))[0][:, 1:]


def similarity(x: np.ndarray, y: np.ndarray, measure: str, **more: Any) -> Estimate:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        return mt.similarity(x, y, measure, **more)


def value(x: np.ndarray, y: np.ndarray, measure: str, **more: Any) -> float:
    return similarity(x, y, measure, **more).value


def correlations(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.cos(subspace_angles(x - x.mean(axis=0), y - y.mean(axis=0)))


def test_published_values() -> None:
    legacy = np.random.RandomState(1337)  # the data of the published demonstration
    x = legacy.randn(100, 10)
    y = legacy.randn(100, 10) + x
    assert value(x, y, "cca") == pytest.approx(0.73101, abs=6e-6)
    assert value(x, y, "cca:statistic=mean_rho2") == pytest.approx(0.54540, abs=6e-6)


def test_agrees_with_scipy() -> None:
    x, y = related()
    rho = correlations(x, y)
    for a, b in ((x, y), (y, x)):
        assert value(a, b, "cca") == pytest.approx(rho.mean(), abs=1e-12)
        assert value(a, b, "cca", statistic="mean_rho2") == pytest.approx((rho**2).mean(), abs=1e-12)


@pytest.mark.parametrize("threshold", [0.5, 0.9, 0.99])
def test_svcca_is_cca_of_principal_components(threshold: float) -> None:
    x, y = related()
    parts = [PCA(threshold, svd_solver="full").fit(z) for z in (x, y)]
    oracle = correlations(*(p.transform(z) for p, z in zip(parts, (x, y), strict=True))).mean()
    found = similarity(x, y, "svcca", threshold=threshold)
    assert found.value == pytest.approx(oracle, abs=1e-12)
    assert (found.kept.left, found.kept.right) == tuple(p.n_components_ for p in parts)
    assert (found.rank.left, found.rank.right) == (8, 5)


def test_svcca_of_standardized_neurons_with_one_component_fewer() -> None:
    x, y = related()
    z = [(side - side.mean(axis=0)) / side.std(axis=0) for side in (x, y)]
    parts = [PCA(0.99, svd_solver="full").fit(side) for side in z]
    kept = [p.transform(side)[:, : p.n_components_ - 1] for p, side in zip(parts, z, strict=True)]
    found = similarity(x, y, "svcca:scaling=standardize:inclusive=false")
    assert found.value == pytest.approx(correlations(*kept).mean(), abs=1e-12)
    assert found.kept == tuple(k.shape[1] for k in kept)


def test_svcca_of_everything_is_cca() -> None:
    x, y = related()
    assert value(x, y, "svcca:threshold=1") == pytest.approx(value(x, y, "cca"), abs=1e-12)


def test_the_component_that_crosses_the_threshold() -> None:
    x = orthonormal(12, 3) * np.sqrt([0.90, 0.09, 0.01])

    def kept(threshold: float, inclusive: bool = True) -> int:
        return similarity(x, x, "svcca", threshold=threshold, inclusive=inclusive).kept.left

    assert [kept(t) for t in (0.5, 0.95, 0.98, 0.99, 0.995, 1)] == [1, 2, 2, 2, 3, 3]
    assert [kept(t, False) for t in (0.95, 0.98, 0.995)] == [1, 1, 2]
    alone = similarity(x, x, "svcca", threshold=0.5, inclusive=False)
    assert math.isnan(alone.value)
    assert alone.reason is not None
    assert alone.reason.endswith("its first component alone passes the threshold")


def test_linear_maps_and_their_absence() -> None:
    x, _ = related()
    copy = x @ rng("mixing").normal(size=(8, 8)) - 5
    assert value(x, copy, "cca") == pytest.approx(1, abs=1e-10)
    assert value(x, copy, "pwcca") == pytest.approx(1, abs=1e-10)
    assert value(x, x[:, :3], "cca") == pytest.approx(1, abs=1e-10)


def test_pwcca_by_hand() -> None:
    # 3a and b against a and a mixture with one half of b: correlations 1 and 1/2, weights 3 and 1.
    a, b, c = orthonormal(8, 3).T
    x, y = np.column_stack([3 * a, b]), np.column_stack([a, 0.5 * b + math.sqrt(0.75) * c])
    assert value(x, y, "pwcca") == pytest.approx((3 * 1 + 1 * 0.5) / 4, abs=1e-12)
    assert value(y, x, "pwcca") == pytest.approx((1 + 0.5) / 2, abs=1e-12)
    assert value(x, y, "cca") == pytest.approx(0.75, abs=1e-12)
    assert value(x, y, "cca:statistic=mean_rho2") == pytest.approx(0.625, abs=1e-12)


@pytest.mark.parametrize("variant", ["morcos", "svcca", "wu"])
def test_pwcca_lies_between_the_correlations(variant: str) -> None:
    x, y = related()
    rho = correlations(x, y)
    assert rho.min() <= value(x, y, "pwcca", variant=variant) <= rho.max()
    assert value(x, x, "pwcca", variant=variant) == pytest.approx(1, abs=1e-10)


@settings(max_examples=30, deadline=None)
@given(
    top=st.floats(0.001, 1),
    left=st.integers(1, 9),
    right=st.integers(1, 9),
    seed=st.integers(0, 99),
    same=st.booleans(),
)
def test_only_the_largest_correlations(top: float, left: int, right: int, seed: int, same: bool) -> None:
    r = generator(seed, "test_cca", "top")
    x = r.normal(size=(40, left)) * np.geomspace(3, 0.3, left)
    y = x[:, :1] + r.normal(size=(40, right))
    layers = [x, x + 0, y] if same else [x, y]
    measures = [f"svcca:top={top}", *(f"pwcca:variant={v}:top={top}" for v in ("morcos", "svcca", "wu"))]
    measures.append(f"mixed_regression:top={top}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        maps = mt.similarity_matrix(layers, None, measures, precision="exact")
    for i, j in np.ndindex(len(layers), len(layers)):
        a, b = layers[i], layers[j]
        expected = [reference.svcca(a, b, top=top)]
        expected += [reference.pwcca(a, b, v, top=top)[0] for v in ("morcos", "svcca", "wu")]
        expected.append(reference.mixed_regression(a, b, top=top))
        found = [one.values[i, j] for one in maps.values()]
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_pwcca_in_a_map_goes_both_ways() -> None:
    x, y = related()
    one = mt.similarity_matrix([x, y], None, "pwcca", precision="exact")["pwcca"].values
    assert one[0, 1] == pytest.approx(value(x, y, "pwcca"), abs=1e-12)
    assert one[1, 0] == pytest.approx(value(y, x, "pwcca"), abs=1e-12)
    assert abs(one[0, 1] - one[1, 0]) > 1e-3


def test_pwcca_is_undefined_when_ranks_fill_the_rows() -> None:
    r = rng("ranks")
    x, y = r.normal(size=(14, 8)), r.normal(size=(14, 6))
    found = similarity(x, y, "pwcca")
    assert math.isnan(found.value)
    assert found.reason == "the ranks 8 and 6 add up to more than n - 1 = 13"
    assert math.isfinite(value(x[:, :7], y, "pwcca"))


def test_few_rows_say_so() -> None:
    r = rng("few")
    x, y = r.normal(size=(9, 9)), r.normal(size=(9, 12))
    with pytest.warns(SmallSampleWarning, match="near 1 whatever the data"):
        found = mt.similarity(x, y, "cca")
    assert found.value == pytest.approx(1, abs=1e-10)
    assert "below 40 rows it is inflated" in found.warnings[0]
    x, y = r.normal(size=(44, 9)), r.normal(size=(44, 3))
    with pytest.warns(SmallSampleWarning, match=r"9 dimensions on 44 rows; below 45 rows it is inflated$"):
        mt.similarity(x, y, "svcca")


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("share, rank", [(4e-6, 80), (2.5e-7, 79)])
def test_the_rank_rule_is_the_same_in_both_precisions(share: float, rank: int, precision: str) -> None:
    # Two neurons that differ by so little that one eigenvalue of the correlation matrix is near 1e-6.
    x = orthonormal(500, 80) * math.sqrt(500)
    x[:, 1] = x[:, 0] + math.sqrt(4 * share) * x[:, 1]
    y = related(500)[0]
    found = similarity(x, y, "cca", precision=precision)
    assert found.rank.left == found.kept.left == rank
    used = mt.similarity_matrix([x], [y], "cca", precision=precision)["cca"].precision
    if precision == "fast":
        assert used == "fast; cca exact (switched: an eigenvalue lies near the rank tolerance)"


def test_scales_of_neurons_do_not_change_the_rank() -> None:
    x, y = related()
    scales = np.geomspace(1e-6, 1e6, 8)
    for precision, within in (("exact", 1e-10), ("fast", 1e-4)):
        found = similarity(x * scales, y, "cca", precision=precision)
        assert found.rank.left == 8
        assert found.value == pytest.approx(value(x, y, "cca"), abs=within)


def test_shares_of_variance_that_are_lost() -> None:
    x, y = related()
    one = mt.similarity_matrix([x], [y], "svcca:threshold=0.9")["svcca"]
    s2 = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2
    assert one.lost.left[0] == pytest.approx(1 - s2[: one.kept.left[0]].sum() / s2.sum(), abs=1e-6)


def test_what_unrelated_rows_would_give() -> None:
    r = rng("null")
    x, y = related(120, 9, 6)
    orders = [y[r.permutation(120)] for _ in range(200)]
    for measure, within in (("cca:statistic=mean_rho2", 0.0), ("cca", 0.01), ("svcca", 0.01)):
        one = mt.similarity_matrix([x], orders, measure, precision="exact")[measure]
        drawn = one.values[0]
        error = within + 4 * drawn.std() / math.sqrt(200)
        assert abs(drawn.mean() - one.null_mean[0, 0]) < error
    assert value(x, y, "cca:statistic=mean_rho2") > 0.2
    assert similarity(x, y, "cca:statistic=mean_rho2").null_mean == pytest.approx(9 / 119)


def test_what_is_undefined_says_why() -> None:
    x, _ = related()
    flat = np.full((300, 3), 0.37)
    for measure in ("cca", "svcca", "pwcca"):
        found = similarity(x, flat, measure)
        assert math.isnan(found.value)
        assert found.reason is not None
        assert found.reason.startswith("no direction is kept: a layer is constant")
