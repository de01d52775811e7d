from __future__ import annotations

import itertools
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, rankdata, spearmanr

from microtome.measures import rsa
from microtome.measures.declare import choose
from microtome.randomness import generator

SCIPY_NAME = {
    "cosine": "cosine",
    "pearson": "correlation",
    "euclidean": "euclidean",
    "sqeuclidean": "sqeuclidean",
}


def related(n: int, p: int = 8, q: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(seed, "rsa")
    x = rng.normal(size=(n, p)) + 0.5
    return x, x @ rng.normal(size=(p, q)) + rng.normal(size=(n, q))


def value(x: np.ndarray, y: np.ndarray, **options: Any) -> float:
    got, reason = outcome(x, y, **options)
    assert reason is None
    return got


def outcome(x: np.ndarray, y: np.ndarray, **options: Any) -> tuple[float, str | None]:
    chosen = choose(rsa.RSA, options)
    layers = (torch.from_numpy(np.asarray(z, dtype=np.float64)) for z in (x, y))
    return chosen.pair(*(rsa.prepare(layer, chosen.options) for layer in layers))


def expected(x: np.ndarray, y: np.ndarray, inner: str, outer: str) -> float:
    metric: Any = SCIPY_NAME[inner]
    correlation: Any = {"pearson": pearsonr, "spearman": spearmanr}[outer]
    return float(correlation(pdist(x, metric), pdist(y, metric)).statistic)


@pytest.mark.parametrize("outer", ["pearson", "spearman"])
@pytest.mark.parametrize("inner", SCIPY_NAME)
@pytest.mark.parametrize("n", [3, 4, 50, 256, 257, 600])
def test_agrees_with_scipy(n: int, inner: str, outer: str) -> None:
    x, y = related(n)
    assert value(x, y, inner=inner, outer=outer) == pytest.approx(expected(x, y, inner, outer), abs=1e-11)


def test_the_default_is_pearson_of_cosines() -> None:
    x, y = related(30)
    assert value(x, y) == pytest.approx(expected(x, y, "cosine", "pearson"), abs=1e-12)


@pytest.mark.parametrize("inner", ["euclidean", "sqeuclidean"])
def test_ties_share_ranks(inner: str) -> None:
    rng = generator(0, "ties")
    x, y = rng.integers(0, 3, size=(300, 4)), rng.integers(0, 2, size=(300, 6))
    y[:, :4] += x  # distances are whole numbers, so that scipy sees exact ties
    oracle = expected(x, y, inner, "spearman")
    assert value(x, y, inner=inner, outer="spearman") == pytest.approx(oracle, abs=1e-11)


@pytest.mark.parametrize("n", [12, 400])
@pytest.mark.parametrize("inner", ["cosine", "pearson", "euclidean"])
def test_repeated_rows_tie_whatever_the_rounding(inner: str, n: int) -> None:
    rng = generator(1, "ties")
    rows = rng.normal(size=(5, 20))[rng.integers(0, 5, size=n)]
    moved = rows[:, rng.permutation(20)] * 0.37  # sums the same products in another order
    assert value(rows, moved, inner=inner, outer="spearman") == pytest.approx(1, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40))
def test_ranks_are_those_of_scipy(values: list[int]) -> None:
    got = rsa.rank(torch.tensor(values, dtype=torch.float64), 1e-9)
    np.testing.assert_array_equal(got.numpy(), rankdata(values))


@pytest.mark.parametrize("outer", ["pearson", "spearman"])
def test_the_mean_over_all_orders_of_the_rows_is_zero(outer: str) -> None:
    x, y = related(5)
    orders = [list(order) for order in itertools.permutations(range(5))]
    assert np.mean([value(x, y[order], outer=outer) for order in orders]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("inner", SCIPY_NAME)
def test_changes_that_are_declared_harmless_are_and_others_are_not(inner: str) -> None:
    rng = generator(2, "rsa")
    x, y = related(60)
    d = x.shape[1]
    changes = {
        "orthogonal": x @ np.linalg.qr(rng.normal(size=(d, d)))[0],
        "isotropic_scale": 3.7 * x,
        "invertible_linear": x @ rng.normal(size=(d, d)),
        "translation": x + rng.normal(size=d),
        "neuron_permutation": x[:, rng.permutation(d)],
        "neuron_scale": x * rng.normal(size=d),
    }
    declared = choose(rsa.RSA, {"inner": inner}).declared("invariances").left
    same = {k for k, z in changes.items() if abs(value(z, y, inner=inner) - value(x, y, inner=inner)) < 1e-9}
    assert same == declared


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1e200])
@pytest.mark.parametrize("inner", SCIPY_NAME)
def test_units_do_not_matter(inner: str, scale: float) -> None:
    x, y = related(20)
    assert value(scale * x, y, inner=inner) == pytest.approx(value(x, y, inner=inner), abs=1e-12)


def test_rows_that_coincide_have_distance_zero() -> None:
    rng = generator(3, "ties")
    x = rng.normal(size=(30, 50))[rng.integers(0, 30, size=80)]
    y = rng.normal(size=(6, 50))[rng.integers(0, 6, size=80)]
    oracle = expected(x, y, "euclidean", "pearson")
    assert value(x, y, inner="euclidean") == pytest.approx(oracle, abs=1e-12)


def test_a_common_offset_costs_few_digits() -> None:
    x, y = related(100)
    oracle = expected(x, y, "euclidean", "pearson")
    assert value(x + 1e6, y, inner="euclidean") == pytest.approx(oracle, abs=1e-8)


@pytest.mark.parametrize("outer", ["pearson", "spearman"])
def test_many_pairs_are_kept_in_less_memory_and_stay_exact(
    outer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = related(500)
    exact = value(x, y, outer=outer)
    monkeypatch.setattr(rsa, "DOUBLE_PAIRS", 100)
    chosen = choose(rsa.RSA, {"outer": outer}).options
    prepared = rsa.prepare(torch.from_numpy(x), chosen)
    assert isinstance(prepared, rsa.PairVector)
    assert prepared.vector.dtype == torch.float32
    assert value(x, y, outer=outer) == pytest.approx(exact, abs=1e-8)
    assert value(x, x, outer=outer) == pytest.approx(1, abs=1e-9)


def test_a_layer_of_few_different_rows_is_like_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    # Words that come again make equal pairs, which float32 rounds alike: errors do not average out.
    x = generator(4, "words").normal(size=(3, 8))[np.arange(300) % 3]
    monkeypatch.setattr(rsa, "DOUBLE_PAIRS", 100)
    assert value(x, x) == pytest.approx(1, abs=1e-14)


def undefined() -> list[tuple[np.ndarray, dict[str, str], str]]:
    x, _ = related(10)
    zero, flat = x.copy(), x.copy()
    zero[[4, 7]], flat[2] = 0, 0.1
    return [
        (zero, {}, "row 4"),
        (flat, {"inner": "pearson"}, "row 2"),
        (np.full((10, 3), 0.37), {}, "equally similar"),
        (np.full((10, 3), 0.37), {"inner": "euclidean"}, "equally similar"),
        (np.eye(10), {"inner": "sqeuclidean", "outer": "spearman"}, "equally similar"),
        (np.tile(x[:1], (10, 1)) * np.arange(1, 11)[:, None], {"outer": "spearman"}, "equally similar"),
    ]


@pytest.mark.parametrize("x, options, words", undefined())
def test_what_is_undefined_says_why(x: np.ndarray, options: dict[str, str], words: str) -> None:
    y, _ = related(len(x))
    for got, reason in (outcome(x, y, **options), outcome(y, x, **options)):
        assert math.isnan(got)
        assert words in str(reason)
    assert str(outcome(x, y, **options)[1]).startswith("the left layer ")
    assert str(outcome(y, x, **options)[1]).startswith("the right layer ")


def test_two_rows_are_too_few() -> None:
    x, y = related(2)
    got, reason = outcome(x, y)
    assert math.isnan(got)
    assert reason == "the left layer needs at least 3 rows, has 2"
