from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.linear_model import LinearRegression, Ridge

import microtome as mt
from microtome.measures.regression import assign_folds
from microtome.randomness import generator


def rng(name: str) -> np.random.Generator:
    return generator(0, "test_regression", name)


def related(n: int = 120, p: int = 6, q: int = 4) -> tuple[np.ndarray, np.ndarray]:
    r = rng("related")
    x = r.normal(size=(n, p)) @ (np.eye(p) + 0.3 * r.normal(size=(p, p))) + 3
    return x, x @ r.normal(size=(p, q)) + 4 * r.normal(size=(n, q))


def value(x: np.ndarray, y: np.ndarray, measure: str = "linear_regression", **options: Any) -> float:
    return mt.similarity(x, y, measure, **options).value


def r2(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """R2 of each neuron of x regressed on y."""
    rest = x - LinearRegression().fit(y, x).predict(y)
    return 1 - (rest**2).sum(axis=0) / ((x - x.mean(axis=0)) ** 2).sum(axis=0)


def test_agrees_with_scikit_learn_in_both_directions() -> None:
    x, y = related()
    for a, b in ((x, y), (y, x)):
        spread = a.var(axis=0)
        assert value(a, b) == pytest.approx((r2(a, b) * spread).sum() / spread.sum(), abs=1e-12)
        assert value(a, b, "mixed_regression") == pytest.approx(np.sqrt(r2(a, b)).mean(), abs=1e-12)
    for measure in ("linear_regression", "mixed_regression"):
        one = mt.similarity_matrix([x, y], None, measure, precision="exact")[measure].values
        expected = [[1, value(x, y, measure)], [value(y, x, measure), 1]]
        np.testing.assert_allclose(one, expected, atol=1e-12)


def test_whitened_layers_give_squared_canonical_correlations() -> None:
    x, y = related()
    u, v = (np.linalg.svd(z - z.mean(axis=0), full_matrices=False)[0] for z in (x, y))
    total = (np.cos(subspace_angles(u, v)) ** 2).sum()
    assert value(v, x) == pytest.approx(total / 4, abs=1e-12)
    assert value(v, x) == pytest.approx(value(x, y, "cca", statistic="mean_rho2"), abs=1e-12)


def test_mean_squared_multiple_correlation_is_r2_of_standardized_neurons() -> None:
    x, y = related()
    assert value(x / x.std(axis=0), y) == pytest.approx(r2(x, y).mean(), abs=1e-12)


def test_duplicated_and_constant_neurons_change_nothing() -> None:
    x, y = related()
    more = np.column_stack([y, y[:, 0] - y[:, 2], np.full(120, 9.1), y[:, 1]])
    for measure in ("linear_regression", "mixed_regression"):
        assert value(x, more, measure) == pytest.approx(value(x, y, measure), abs=1e-9)
        dead = np.insert(x, 3, 0.37, axis=1)
        assert value(dead, y, measure) == pytest.approx(value(x, y, measure), abs=1e-12)


@pytest.mark.filterwarnings("ignore::microtome.errors.SmallSampleWarning")
def test_as_many_features_as_rows_predict_anything() -> None:
    r = rng("few")
    x, y = r.normal(size=(12, 5)), r.normal(size=(12, 11))
    assert value(x, y) == pytest.approx(1, abs=1e-9)
    assert value(x, y, "mixed_regression") == pytest.approx(1, abs=1e-9)


def test_what_unrelated_rows_would_give() -> None:
    r = rng("null")
    x, y = related()
    for a, b in ((x, y), (y, x)):
        orders = [b[r.permutation(120)] for _ in range(200)]
        for measure in ("linear_regression", "mixed_regression"):
            one = mt.similarity_matrix([a], orders, measure, precision="exact")[measure]
            error = 4 * one.values.std() / math.sqrt(200) + (measure == "mixed_regression") * 0.01
            assert abs(one.values.mean() - one.null_mean[0, 0]) < error
        assert mt.similarity(a, b, "linear_regression").null_mean == pytest.approx(b.shape[1] / 119)


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("clustered", [False, True])
def test_cross_validated_agrees_with_scikit_learn(ridge: float, clustered: bool) -> None:
    x, y = related()
    clusters = np.repeat(np.arange(30), 4) if clustered else None
    folds = assign_folds(120, 4, 7, clusters)
    error = total = 0.0
    for fold in range(4):
        seen, held = folds != fold, folds == fold
        spread = ((y[seen] - y[seen].mean(axis=0)) ** 2).sum() / y.shape[1]
        model = Ridge(ridge * spread) if ridge else LinearRegression()
        error += ((x[held] - model.fit(y[seen], x[seen]).predict(y[held])) ** 2).sum()
        total += ((x[held] - x[seen].mean(axis=0)) ** 2).sum()
    measure = f"linear_regression:estimator=cross_validated:folds=4:ridge={ridge}:seed=7"
    assert mt.similarity(x, y, measure, clusters=clusters).value == pytest.approx(
        1 - error / total, abs=1e-10
    )


def test_out_of_sample_unrelated_rows_are_below_zero() -> None:
    r = rng("below")
    x, y = r.normal(size=(60, 5)), r.normal(size=(60, 12))
    assert value(x, y, estimator="cross_validated") < 0 < value(x, y)


def test_what_is_undefined_says_why() -> None:
    x, _ = related()
    flat = np.full((120, 3), 0.37)
    for measure in ("linear_regression", "mixed_regression"):
        found = mt.similarity(x, flat, measure)
        assert math.isnan(found.value)
        assert found.reason == "a layer is constant over the rows"
    left = mt.similarity(flat, x, "linear_regression", estimator="cross_validated")
    assert left.reason == "the left layer has equal rows, so there is nothing to predict"
    few = mt.similarity(x[:4], x[:4], "linear_regression", estimator="cross_validated", precision="exact")
    assert few.reason == "the left layer needs at least 5 rows for 5 folds, has 4"
