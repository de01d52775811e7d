from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import microtome as mt
from microtome.randomness import generator


def rng(name: str) -> np.random.Generator:
    return generator(0, "test_neurons", name)


def related(n: int = 100, p: int = 6, q: int = 4) -> tuple[np.ndarray, np.ndarray]:
    r = rng("related")
    x = r.normal(size=(n, p)) @ r.normal(size=(p, p)) + 3
    return x, x @ r.normal(size=(p, q)) + 4 * r.normal(size=(n, q))


def table(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.abs(np.corrcoef(x.T, y.T)[: x.shape[1], x.shape[1] :])


def value(x: np.ndarray, y: np.ndarray, **options: object) -> float:
    return float(mt.similarity(x, y, "neuron_correlation", **options))  # pyright: ignore[reportArgumentType]


def test_agrees_with_numpy_in_both_directions() -> None:
    x, y = related()
    assert value(x, y) == pytest.approx(table(x, y).max(axis=1).mean(), abs=1e-12)
    assert value(y, x) == pytest.approx(table(x, y).max(axis=0).mean(), abs=1e-12)
    one = mt.similarity_matrix([x, y], None, "neuronsim", precision="exact")["neuron_correlation"].values
    np.testing.assert_allclose(one, [[1, value(x, y)], [value(y, x), 1]], atol=1e-12)


def test_one_to_one_is_the_best_assignment() -> None:
    x, y = related()
    r = table(x, y)
    best = max(r[list(rows), range(4)].mean() for rows in itertools.permutations(range(6), 4))
    assert value(x, y, match="one_to_one") == pytest.approx(best, abs=1e-12)
    assert value(y, x, match="one_to_one") == pytest.approx(best, abs=1e-12)


def test_a_share_of_the_best_matched() -> None:
    x, y = related()
    ordered = np.sort(table(x, y).max(axis=1))[::-1]
    assert value(x, y, top=0.5) == pytest.approx(ordered[:3].mean(), abs=1e-12)
    assert value(x, y, top=1 / 3) == pytest.approx(ordered[:2].mean(), abs=1e-12)
    assert value(x, y, top=0.001) == pytest.approx(ordered[0], abs=1e-12)
    assert math.isnan(mt.similarity(x, y, "neuron_correlation", top=0.5).null_mean)


def test_constant_neurons_take_no_part() -> None:
    x, y = related()
    dead = np.insert(x, 2, 7.3, axis=1)
    for options in ({}, {"match": "one_to_one"}, {"top": 0.5}):
        assert value(dead, y, **options) == pytest.approx(value(x, y, **options), abs=1e-12)
        assert value(y, dead, **options) == pytest.approx(value(y, x, **options), abs=1e-12)
    one = mt.similarity_matrix([dead], [y], "neuron_correlation")["neuron_correlation"]
    assert one.layers.left["constant"].tolist() == [1]
    assert one.layers.right["constant"].tolist() == [0]


def test_single_neurons_are_found_where_rotations_are_not() -> None:
    r = rng("local")
    x = r.normal(size=(300, 24))
    y = -x[:, r.permutation(24)] + 0.5 * r.normal(size=(300, 24))
    turned = [z @ np.linalg.qr(r.normal(size=(24, 24)))[0] for z in (x, y)]
    assert value(x, y) > value(turned[0], turned[1]) + 0.3
    assert mt.similarity(x, y, "linear_cka").value == pytest.approx(
        mt.similarity(turned[0], turned[1], "linear_cka").value, abs=1e-10
    )


def test_is_never_above_the_multiple_correlation() -> None:
    r = rng("bound")
    for n in (36, 60):
        x, y = r.normal(size=(n, 7)), r.normal(size=(n, 5))
        assert value(x, y) <= mt.similarity(x, y, "mixed_regression").value + 1e-12


@pytest.mark.parametrize("mixing", [0.0, 3.0])
def test_what_unrelated_rows_would_give(mixing: float) -> None:
    # Correlated neurons have fewer chances for a large correlation than independent ones.
    r = rng("null")
    x = r.normal(size=(80, 10))
    y = r.normal(size=(80, 12)) + mixing * r.normal(size=(80, 1))
    orders = [y[r.permutation(80)] for _ in range(100)]
    one = mt.similarity_matrix([x], orders, "neuron_correlation", precision="exact")["neuron_correlation"]
    error = 4 * one.values.std() / 10 + 0.005
    assert abs(one.values.mean() - one.null_mean[0, 0]) < error


def test_every_neuron_constant() -> None:
    x, _ = related()
    found = mt.similarity(x, np.full((100, 3), 0.37), "neuron_correlation")
    assert math.isnan(found.value)
    assert found.reason == "every neuron of a layer is constant"
