from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import PredefinedSplit

from microtome.errors import InputError
from microtome.measures.declare import Undefined, choose
from microtome.measures.regression import LINEAR_REGRESSION, Folds, assign_folds, prepare_folds
from microtome.randomness import generator

DEFAULTS = {"folds": 5, "ridge": 0.0, "seed": 0}


def related(n: int, p: int = 6, q: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(seed, "crossvalidation")
    x = rng.normal(size=(n, p)) * rng.uniform(0.1, 3, size=p) + rng.normal(size=p)
    return x, x @ rng.normal(size=(p, q)) + 2 * rng.normal(size=(n, q))


def folds_of(x: np.ndarray, clusters: np.ndarray | None = None, **options: Any) -> Folds | Undefined:
    return prepare_folds(torch.from_numpy(x), {**DEFAULTS, **options}, clusters=clusters)


def pair(left: Folds | Undefined, right: Folds | Undefined) -> tuple[float, str | None]:
    return choose(LINEAR_REGRESSION, {"estimator": "cross_validated"}).pair(left, right)


def value(x: np.ndarray, y: np.ndarray, clusters: np.ndarray | None = None, **options: Any) -> float:
    got, reason = pair(folds_of(x, clusters, **options), folds_of(y, clusters, **options))
    assert reason is None
    return got


def expected(x: np.ndarray, y: np.ndarray, folds: np.ndarray, ridge: float = 0.0) -> float:
    """R2 of x given y, by fitting and predicting."""
    error = spread = 0.0
    for train, test in PredefinedSplit(folds).split():
        centered = y[train] - y[train].mean(0)
        if ridge:
            fit = Ridge(alpha=ridge * float((centered**2).sum()) / y.shape[1]).fit(y[train], x[train])
        else:
            fit = LinearRegression().fit(y[train], x[train])
        error += ((x[test] - fit.predict(y[test])) ** 2).sum()
        spread += ((x[test] - x[train].mean(0)) ** 2).sum()
    return 1 - error / spread


@pytest.mark.parametrize("ridge", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("folds", [2, 5, 7])
def test_agrees_with_scikit_learn_in_both_directions(folds: int, ridge: float) -> None:
    x, y = related(83)
    assignment = assign_folds(83, folds, 3)
    options = {"folds": folds, "ridge": ridge, "seed": 3}
    assert value(x, y, **options) == pytest.approx(expected(x, y, assignment, ridge), abs=1e-11)
    assert value(y, x, **options) == pytest.approx(expected(y, x, assignment, ridge), abs=1e-11)


def test_leaving_out_each_row_once() -> None:
    x, y = related(25)
    assert value(x, y, folds=25) == pytest.approx(expected(x, y, np.arange(25)), abs=1e-11)


def test_clusters_stay_whole() -> None:
    x, y = related(90)
    clusters = generator(0, "clusters").integers(100, 120, size=90)
    assignment = assign_folds(90, 5, 0, clusters)
    assert all(len(set(assignment[clusters == c])) == 1 for c in set(clusters))
    assert value(x, y, clusters) == pytest.approx(expected(x, y, assignment), abs=1e-11)
    assert value(x, y, clusters) != value(x, y)


def test_copies_of_rows_flatter_unless_they_are_a_cluster() -> None:
    rng = generator(1, "crossvalidation")
    x, y = (np.repeat(rng.normal(size=(20, 12)), 6, axis=0) for _ in range(2))
    assert value(x, y) > 0.2
    assert value(x, y, np.repeat(np.arange(20), 6)) < 0


def test_folds_are_even_shuffled_and_seeded() -> None:
    first = assign_folds(103, 5, 0)
    assert sorted(np.bincount(first).tolist()) == [20, 20, 21, 21, 21]
    np.testing.assert_array_equal(first, assign_folds(103, 5, 0))
    assert (first != assign_folds(103, 5, 1)).mean() > 0.5
    assert (np.diff(first) == 0).mean() < 0.5


def test_one_lost_direction_changes_nothing() -> None:
    x, y = related(60)
    doubled = np.hstack([y, y[:, :2] - 3 * y[:, 2:3], np.full((60, 1), 0.37), y[:, :1]])
    assert value(x, doubled) == pytest.approx(value(x, y), abs=1e-9)


def test_units_and_linear_maps_of_the_predicting_side_do_not_matter() -> None:
    x, y = related(60)
    rng = generator(2, "crossvalidation")
    base = value(x, y)
    assert value(x, y * np.geomspace(1e-9, 1e9, 4)) == pytest.approx(base, abs=1e-9)
    assert value(x, y @ rng.normal(size=(4, 4)) + 50) == pytest.approx(base, abs=1e-9)
    assert value(1e200 * x, 1e-200 * y) == pytest.approx(base, abs=1e-11)
    assert value(x * np.geomspace(1, 10, 6), y) != pytest.approx(base, abs=1e-3)


def test_a_ridge_is_kept_by_rotations_and_units() -> None:
    x, y = related(60)
    rotation = np.linalg.qr(generator(3, "crossvalidation").normal(size=(4, 4)))[0]
    assert value(x, 7 * y @ rotation + 5, ridge=0.3) == pytest.approx(value(x, y, ridge=0.3), abs=1e-11)


def test_more_features_than_rows_takes_the_smallest_solution_in_standard_units() -> None:
    x, y = related(30, p=4, q=40)
    assignment = assign_folds(30, 5, 0)
    error = spread = 0.0
    for train, test in PredefinedSplit(assignment).split():
        mean, sd = y[train].mean(0), y[train].std(0)
        weights = np.linalg.pinv((y[train] - mean) / sd) @ (x[train] - x[train].mean(0))
        error += ((x[test] - x[train].mean(0) - (y[test] - mean) / sd @ weights) ** 2).sum()
        spread += ((x[test] - x[train].mean(0)) ** 2).sum()
    assert value(x, y) == pytest.approx(1 - error / spread, abs=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_where_the_training_rows_are_constant_their_mean_is_the_prediction(ridge: float) -> None:
    x, _ = related(40)
    spike = np.full((40, 1), 0.37)
    spike[7] = 100  # predicted from rows that are all the same
    oracle = expected(x, spike, assign_folds(40, 5, 0), ridge)
    assert value(x, spike, ridge=ridge) == pytest.approx(oracle, abs=1e-9)


def test_a_neuron_that_is_constant_in_the_training_rows_predicts_nothing() -> None:
    x, y = related(60)
    clusters = np.repeat([0, 1], [40, 20])
    # The fold of 40 rows is predicted from 20 rows in which the last six neurons do not move.
    still = np.hstack([y, np.where(clusters[:, None] == 1, x[50], x)])
    oracle = expected(x, still, clusters)
    assert value(x, still, clusters, folds=2) == pytest.approx(oracle, abs=1e-9)


def test_unrelated_layers_are_predicted_worse_than_by_the_mean() -> None:
    rng = generator(4, "crossvalidation")
    values = [value(rng.normal(size=(60, 5)), rng.normal(size=(60, 10))) for _ in range(20)]
    assert max(values) < 0.05
    assert np.mean(values) < -0.1


def test_a_layer_predicts_itself_fully() -> None:
    x, _ = related(50)
    assert value(x, x) == pytest.approx(1, abs=1e-10)


def test_what_is_undefined_says_why() -> None:
    x, y = related(20)
    flat = np.full((20, 3), 0.37)
    for left, right, words in (
        (flat, y, "the left layer has equal rows"),
        (x, flat, "the right layer has equal rows"),
        (x[:4], y[:4], "the left layer needs at least 5 rows for 5 folds, has 4"),
    ):
        got, reason = pair(folds_of(left), folds_of(right))
        assert math.isnan(got)
        assert str(reason).startswith(words)
    few = folds_of(x, np.repeat([0, 1, 2, 3], 5))
    assert isinstance(few, Undefined)
    assert few.reason == "needs at least 5 clusters for 5 folds, has 4"


def test_wrong_requests_are_errors() -> None:
    x, _ = related(20)
    with pytest.raises(InputError, match="one number for each of the 20 rows"):
        folds_of(x, np.arange(19))
