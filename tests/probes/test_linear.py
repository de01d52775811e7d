"""Do the solvers find what scikit-learn finds in every layer, with the penalty that held-out rows want?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import PredefinedSplit, cross_val_score
from sklearn.preprocessing import StandardScaler

from microtome.errors import InputError
from microtome.measures.regression import assign_folds
from microtome.probes.linear import fit_logistic, fit_ridge, held_rows
from microtome.probes.logistic import fitting as logistic
from microtome.probes.logistic import solver
from microtome.runtime import using_threads


def layers_of(rows: int, features: int, layers: int = 2, seed: int = 0) -> np.ndarray:
    """Features of very different sizes that depend on each other, as those of encoders do."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(features, features)) * np.exp(-np.linspace(0, 5, features))[:, None]
    found = [rng.normal(size=(rows, features)) @ mixed + 3 * rng.normal(size=features) for _ in range(layers)]
    return np.stack(found).astype(np.float32)


def labels_of(X: np.ndarray, classes: int, strength: float = 2.0, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    known = StandardScaler().fit_transform(X[0]) @ rng.normal(size=(X.shape[2], classes))
    return (strength * known / np.sqrt(X.shape[2]) + rng.gumbel(size=known.shape)).argmax(1)


def objective(X: np.ndarray, y: np.ndarray, weights: np.ndarray, bias: np.ndarray, penalty: float) -> float:
    """Of weights of features as they came; that of scikit-learn for C = 1 / penalty, divided by C."""
    said = log_softmax(X.astype(np.float64) @ weights.T + bias, axis=1)
    scaled = weights * X.astype(np.float64).std(0)
    length = (scaled[1] - scaled[0]) if len(scaled) == 2 else scaled
    return float(-said[np.arange(len(y)), y].sum() + penalty / 2 * np.square(length).sum())


def learned(X: np.ndarray, y: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scaler = StandardScaler()
    rows = scaler.fit_transform(X.astype(np.float64))
    model = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=20_000).fit(rows, y)
    weights = model.coef_ / scaler.scale_
    bias = model.intercept_ - weights @ scaler.mean_
    if len(weights) == 1:
        weights, bias = np.stack([-weights[0] / 2, weights[0] / 2]), np.array([-bias[0] / 2, bias[0] / 2])
    return weights, bias, model.predict(rows)


@pytest.mark.parametrize("penalty", [0.5, 30.0])
@pytest.mark.parametrize(
    ("rows", "features", "classes"), [(300, 20, 3), (300, 20, 2), (60, 90, 4), (60, 90, 2)]
)
def test_logistic_regression_is_that_of_scikit_learn(
    rows: int, features: int, classes: int, penalty: float
) -> None:
    X = layers_of(rows, features)
    y = labels_of(X, classes)
    found = fit_logistic(X, y, classes, penalties=[penalty])
    assert found.converged.all()
    for layer in range(len(X)):
        weights, bias, answers = learned(X[layer], y, penalty)
        ours = objective(X[layer], y, found.weights[layer], found.bias[layer], penalty)
        theirs = objective(X[layer], y, weights, bias, penalty)
        assert abs(ours / theirs - 1) < 1e-6
        assert (found.predict(X)[layer] == answers).mean() >= 0.999


def test_half_as_many_digits_give_the_same_answers() -> None:
    X = layers_of(800, 30)
    y = labels_of(X, 5)
    exact, fast = (fit_logistic(kind, y, 5, penalties=[1.0]) for kind in (X.astype(np.float64), X))
    assert fast.converged.all()
    for layer in range(len(X)):
        one, two = (objective(X[layer], y, f.weights[layer], f.bias[layer], 1.0) for f in (exact, fast))
        assert abs(two / one - 1) < 1e-6
    assert (exact.predict(X) == fast.predict(X)).mean() >= 0.999


def test_the_penalty_is_the_one_that_foretells_held_out_rows_best(monkeypatch: pytest.MonkeyPatch) -> None:
    # Fits that are only compared may stop early, and need not all be made; here they are all finished.
    monkeypatch.setattr(logistic, "NEAR", 0.0)
    monkeypatch.setattr(logistic, "RISE", np.inf)
    X, tried = layers_of(200, 30), [1.0, 30.0, 1000.0]
    y = labels_of(X, 3)
    found = fit_logistic(X, y, 3, penalties=tried, folds=4, seed=7)
    split = PredefinedSplit(assign_folds(200, 4, 7))
    for layer in range(2):
        rows = StandardScaler().fit_transform(X[layer].astype(np.float64))
        losses = {}
        for penalty in tried:
            model = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=20_000)
            losses[penalty] = -cross_val_score(model, rows, y, cv=split, scoring="neg_log_loss").mean()
        assert found.penalty[layer] == min(losses, key=lambda p: losses[p])
        ours = dict(zip(found.penalties, found.losses[layer], strict=True))
        assert [ours[p] for p in tried] == pytest.approx([losses[p] for p in tried], rel=1e-5)


def test_penalties_that_are_far_too_weak_are_not_tried() -> None:
    X = layers_of(120, 60)
    y = np.random.default_rng(3).integers(3, size=120)
    found = fit_logistic(X, y, 3)
    assert (found.penalty >= 1000).all()
    assert np.isnan(found.losses[:, -1]).all()
    assert (
        np.nanmin(found.losses, axis=1)
        == [found.losses[k, found.penalties.index(p)] for k, p in enumerate(found.penalty)]
    ).all()


@pytest.mark.parametrize("classes", [2, 6])
@pytest.mark.parametrize("penalty", [0.1, 10.0])
@pytest.mark.parametrize("worth", [0.0, np.inf])
def test_many_rows_come_to_the_same_end_with_axes_and_without(
    classes: int, penalty: float, worth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logistic, "WORTH", worth)
    monkeypatch.setattr(solver, "PART", 15 * 1000)
    X = layers_of(3000, 15)
    y = labels_of(X, classes, strength=6.0)
    found = fit_logistic(X, y, classes, penalties=[penalty], tolerance=1e-6)
    assert found.converged.all()
    for layer in range(len(X)):
        weights, bias, answers = learned(X[layer], y, penalty)
        ours = objective(X[layer], y, found.weights[layer], found.bias[layer], penalty)
        assert abs(ours / objective(X[layer], y, weights, bias, penalty) - 1) < 1e-6
        assert (found.predict(X)[layer] == answers).mean() >= 0.998


def test_large_layers_are_fitted_as_each_alone_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logistic, "BYTES", 1)
    first = layers_of(900, 12, layers=1)[0]
    noise = layers_of(900, 12, layers=5, seed=3)
    X = np.stack([first + 0.3 * place * each for place, each in enumerate(noise)])
    # One layer may say nothing.
    X[4] = 1.0
    y = labels_of(X, 4)
    together = fit_logistic(X, y, 4, penalties=[1.0])
    assert together.converged.all()
    for layer in range(len(X)):
        alone = fit_logistic(X[layer : layer + 1], y, 4, penalties=[1.0])
        one, two = (
            objective(X[layer], y, found.weights[place], found.bias[place], 1.0)
            for found, place in ((together, layer), (alone, 0))
        )
        assert one == pytest.approx(two, rel=1e-6)
    with using_threads(2):
        shared = fit_logistic(X, y, 4, penalties=[1.0])
        assert torch.get_num_threads() == 2
    np.testing.assert_array_equal(shared.weights, together.weights)


def test_what_did_not_converge_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    X = layers_of(300, 20)
    y = labels_of(X, 3, strength=8.0)
    assert fit_logistic(X, y, 3, penalties=[0.1]).converged.all()
    monkeypatch.setattr(solver, "STEPS", 3)
    assert not fit_logistic(X, y, 3, penalties=[0.1]).converged.any()


def test_planted_labels_are_found_and_random_ones_are_not() -> None:
    X = layers_of(4000, 20, layers=2)
    rng = np.random.default_rng(5)
    planted = (X[1] @ rng.normal(size=(20, 4)) / X[1].std(0).max()).argmax(1)
    drawn = rng.choice(4, size=4000, p=[0.4, 0.3, 0.2, 0.1])
    learn, judge = slice(0, 2000), slice(2000, 4000)
    found = fit_logistic(X[:, learn], planted[learn], 4)
    right = (found.predict(X[:, judge]) == planted[judge]).mean(1)
    assert right[1] > 0.97
    assert right[0] < np.bincount(planted[judge]).max() / 2000 + 0.05
    nothing = fit_logistic(X[:, learn], drawn[learn], 4)
    for said in nothing.predict(X[:, judge]):
        # A readout that knows nothing is right as often as its answers and the labels meet by chance.
        chance = float((np.bincount(said, minlength=4) / 2000) @ (np.bincount(drawn[judge]) / 2000))
        assert abs((said == drawn[judge]).mean() - chance) < 3.3 * np.sqrt(chance * (1 - chance) / 2000)


def test_the_penalty_of_some_rows_serves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    X, tried = layers_of(3000, 30), [1.0, 10.0, 100.0]
    y = labels_of(X, 4)
    groups = np.arange(3000) // 6
    some = fit_logistic(X, y, 4, groups=groups, sample=900, tolerance=1e-6)
    everything = fit_logistic(X, y, 4, groups=groups, sample=None)
    assert (np.abs(np.log10(some.penalty / everything.penalty)) < 1.5).all()
    same = fit_logistic(X, y, 4, penalties=[float(some.penalty[0])], tolerance=1e-6)
    np.testing.assert_allclose(some.weights[0], same.weights[0], atol=1e-4 * np.abs(same.weights[0]).max())
    # The losses are those of fitting one part and foretelling the other.
    monkeypatch.setattr(logistic, "NEAR", 0.0)
    monkeypatch.setattr(logistic, "RISE", np.inf)
    found = fit_logistic(X, y, 4, penalties=tried, groups=groups, sample=900)
    held = held_rows(3000, 5, groups, 0, 900)
    assert held is not None
    assert held.judge is not None
    rows = StandardScaler().fit_transform(X[0].astype(np.float64))
    for penalty, loss in zip(found.penalties, found.losses[0], strict=True):
        model = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=20_000)
        model.fit(rows[held.learn], y[held.learn])
        said = model.predict_log_proba(rows[held.judge])
        assert loss == pytest.approx(-said[np.arange(len(held.judge)), y[held.judge]].mean(), rel=1e-5)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=40),
    sample=st.integers(2, 60),
    folds=st.integers(2, 6),
    seed=st.integers(0, 9),
)
def test_a_sample_is_of_whole_groups(sizes: list[int], sample: int, folds: int, seed: int) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    found = held_rows(len(groups), folds, groups, seed, sample)
    assert found is not None
    if found.judge is None:
        # Too few rows would be left to judge on.
        assert len(groups) - sample - max(sizes) < sample / 4
        assert found.fold is not None
        assert len(found.learn) == len(found.fold) == len(groups)
        assert set(found.fold) == set(range(min(folds, len(sizes))))
        assert all(len(set(found.fold[groups == group])) == 1 for group in range(len(sizes)))
        return
    assert not set(groups[found.learn]) & set(groups[found.judge])
    for part in (found.learn, found.judge):
        assert np.isin(groups, groups[part]).sum() == len(part) < sample + max(sizes)
    assert len(found.learn) >= sample
    assert 4 * len(found.judge) >= sample


@pytest.mark.parametrize(("rows", "features"), [(200, 12), (40, 90)])
def test_ridge_regression_is_that_of_scikit_learn(rows: int, features: int) -> None:
    X, tried = layers_of(rows, features), [0.1, 10.0, 1000.0]
    y = X[0] @ np.random.default_rng(3).normal(size=features) + np.random.default_rng(4).normal(size=rows)
    found = fit_ridge(X, y, penalties=tried, seed=2)
    split = PredefinedSplit(assign_folds(rows, 5, 2))
    for layer in range(len(X)):
        scaled = StandardScaler().fit_transform(X[layer].astype(np.float64))
        errors = {
            p: -cross_val_score(Ridge(p), scaled, y, cv=split, scoring="neg_mean_squared_error").mean()
            for p in tried
        }
        best = min(errors, key=lambda p: errors[p])
        assert found.penalty[layer] == best
        ours = dict(zip(found.penalties, found.losses[layer], strict=True))
        assert [ours[p] for p in tried] == pytest.approx([errors[p] for p in tried], rel=1e-6)
        np.testing.assert_allclose(
            found.predict(X)[layer], Ridge(best).fit(scaled, y).predict(scaled), rtol=1e-6, atol=1e-6
        )


def test_a_layer_is_fitted_alone_as_among_others() -> None:
    X = layers_of(150, 10, layers=4)
    y = labels_of(X, 3)
    together, alone = fit_logistic(X, y, 3), fit_logistic(X[2:3], y, 3)
    assert together.penalty[2] == alone.penalty[0]
    np.testing.assert_allclose(together.weights[2], alone.weights[0], atol=1e-6 * np.abs(alone.weights).max())


def test_layers_that_do_not_fit_together_are_fitted_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    X = layers_of(100, 8, layers=3)
    y = labels_of(X, 2)
    whole = fit_logistic(X, y, 2)
    monkeypatch.setattr(logistic, "BYTES", 1)
    np.testing.assert_allclose(fit_logistic(X, y, 2).weights, whole.weights, rtol=1e-4, atol=1e-7)


def test_groups_stay_together() -> None:
    # Every row is there five times: torn apart, its copies would predict it perfectly.
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(1, 30, 60)), 5, axis=1)
    y, groups = np.repeat(rng.integers(2, size=30), 5), np.repeat(np.arange(30), 5)
    torn = fit_logistic(X, y, 2, penalties=[0.1, 1e4])
    whole = fit_logistic(X, y, 2, penalties=[0.1, 1e4], groups=groups)
    assert torn.penalty[0] == 0.1
    assert whole.penalty[0] == 1e4


def test_a_class_without_rows_is_never_predicted() -> None:
    X = layers_of(80, 6)
    y = labels_of(X, 3)
    shifted = np.array([0, 2, 3])[y]
    found, plain = fit_logistic(X, shifted, 5), fit_logistic(X, y, 3)
    assert set(np.unique(found.predict(X))) <= {0, 2, 3}
    assert np.isneginf(found.bias[:, [1, 4]]).all()
    assert (found.predict(X) == np.array([0, 2, 3])[plain.predict(X)]).mean() >= 0.99


def test_a_rare_class_that_a_fold_does_not_see_does_no_harm() -> None:
    X = layers_of(60, 5)
    y = labels_of(X, 2)
    y[0] = 2
    found = fit_logistic(X, y, 3)
    assert found.converged.all()
    assert np.isfinite(found.losses[:, 0]).all()
    assert np.isfinite(found.decision(X)).all()


def test_constant_features_get_no_weight() -> None:
    X = layers_of(60, 6)
    X[:, :, 2] = 7.5
    y = labels_of(X, 2)
    for found in (fit_logistic(X, y, 2), fit_ridge(X, y.astype(float))):
        assert np.abs(found.weights[:, :, 2]).max() < 1e-9
        assert np.isfinite(found.decision(X)).all()


def test_tensors_are_taken_as_well() -> None:
    X = layers_of(50, 4)
    y = labels_of(X, 2)
    one, two = (fit_logistic(given, y, 2, penalties=[1.0]) for given in (X, torch.from_numpy(X)))
    np.testing.assert_array_equal(one.weights, two.weights)


@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(4, 30), features=st.integers(1, 40), classes=st.integers(2, 5), seed=st.integers(0, 99)
)
def test_whatever_comes_the_gradient_vanishes(rows: int, features: int, classes: int, seed: int) -> None:
    X = layers_of(rows, features, seed=seed).astype(np.float64)
    y = np.random.default_rng(seed).integers(classes, size=rows)
    found = fit_logistic(X, y, classes, penalties=[1.0])
    assert found.converged.all()
    for layer in range(2):
        shares = np.exp(log_softmax(found.decision(X)[layer], axis=1))
        wrong = shares - np.eye(classes)[y]
        spread = X[layer].std(0)
        scaled = (X[layer] - X[layer].mean(0)) / spread
        weights = found.weights[layer] * spread
        # Of two classes each has half of the one vector.
        pull = weights * (2 if classes == 2 else 1)
        assert np.abs(wrong.T @ scaled + pull).max() / rows < 1e-5
        assert np.abs(wrong.sum(0)).max() / rows < 1e-5


def test_bad_input_gets_a_sentence() -> None:
    X: Any = layers_of(10, 3)
    y = np.arange(10) % 2
    cases = [
        (lambda: fit_logistic(X[0], y, 2), "X must be of the shape"),
        (lambda: fit_logistic(X.astype(int), y, 2), "X must be of float32 or float64"),
        (lambda: fit_logistic(X, y[:5], 2), "labels must be one whole number for each of 10 rows"),
        (lambda: fit_logistic(X, y + 1, 2), "labels must be between 0 and 1, but got 2"),
        (lambda: fit_logistic(X, y, 1), "classes must be a whole number of at least 2"),
        (lambda: fit_logistic(X, y, 2, penalties=[0.0]), "penalties must be numbers above 0"),
        (lambda: fit_logistic(X, y, 2, sample=1), "sample must be a whole number of at least 2"),
        (lambda: fit_logistic(X, y, 2, folds=1), "folds must be a whole number of at least 2"),
        (lambda: fit_logistic(X, y, 2, groups=np.zeros(10)), "rows must be of at least 2 groups"),
        (lambda: fit_logistic(X * np.nan, y, 2), "X must be finite"),
        (lambda: fit_ridge(X, y[:3]), "y must be one number for each of 10 rows"),
        (lambda: fit_ridge(X, y).predict(X[:1]), "X must be of 2 layers of 3 features"),
    ]
    for call, words in cases:
        with pytest.raises(InputError, match=words):
            call()
