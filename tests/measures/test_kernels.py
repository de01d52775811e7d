from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.preprocessing import KernelCenterer

from microtome.measures import kernels, rsa
from microtome.measures.declare import choose
from microtome.randomness import generator


def related(n: int, p: int = 8, q: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(seed, "kernels")
    x = rng.normal(size=(n, p))
    return x, np.sin(x @ rng.normal(size=(p, q))) + 0.3 * rng.normal(size=(n, q))


def outcome(x: np.ndarray, y: np.ndarray, **options: Any) -> tuple[float, str | None]:
    chosen = choose(kernels.RBF_CKA, options)
    return chosen.pair(*(kernels.prepare(torch.from_numpy(z), chosen.options) for z in (x, y)))


def value(x: np.ndarray, y: np.ndarray, **options: Any) -> float:
    got, reason = outcome(x, y, **options)
    assert reason is None
    return got


def expected(x: np.ndarray, y: np.ndarray, t: float, median: str, debiased: bool) -> float:
    """The definition, on whole square matrices."""

    def gram(z: np.ndarray) -> np.ndarray:
        n = len(z)
        squared = euclidean_distances(z, squared=True)
        entries = squared if median == "all" else squared[~np.eye(n, dtype=bool)]
        k = rbf_kernel(z, gamma=1 / (2 * t**2 * np.median(entries)))
        if not debiased:
            return KernelCenterer().fit_transform(k)
        np.fill_diagonal(k, 0)
        means = k.sum(0) / (n - 2)
        means -= means.sum() / (2 * (n - 1))
        k = k - means - means[:, None]
        np.fill_diagonal(k, 0)
        return k

    a, b = gram(x), gram(y)
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize("median", ["all", "off_diagonal"])
@pytest.mark.parametrize("t", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("n", [4, 5, 6, 7, 50, 257, 600])
def test_agrees_with_the_definition(n: int, t: float, median: str, debiased: bool) -> None:
    x, y = related(n)
    got = value(x, y, t=t, median=median, debiased=debiased)
    assert got == pytest.approx(expected(x, y, t, median, debiased), abs=1e-10)


@pytest.mark.parametrize("t, golden", [(0.5, 0.65483), (1.0, 0.57583)])
def test_published_values(t: float, golden: float) -> None:
    rng = np.random.RandomState(1337)  # the data of the published demonstration
    x = rng.randn(100, 10)
    y = rng.randn(100, 10) + x
    assert value(x, y, t=t) == pytest.approx(golden, abs=1e-5)


def test_the_mean_over_all_orders_of_the_rows() -> None:
    x, y = related(5)
    options = choose(kernels.RBF_CKA).options
    left, right = (kernels.prepare(torch.from_numpy(z), options) for z in (x, y))
    orders = [list(order) for order in itertools.permutations(range(5))]
    biased = np.mean([value(x, y[order]) for order in orders])
    assert kernels.trace_null(left, right, 5) == pytest.approx(biased, abs=1e-12)
    assert np.mean([value(x, y[order], debiased=True) for order in orders]) == pytest.approx(0, abs=1e-12)
    flat = kernels.prepare(torch.ones(5, 2, dtype=torch.float64), options)
    assert math.isnan(kernels.trace_null(flat, right, 5))


@pytest.mark.parametrize("debiased", [False, True])
def test_changes_that_are_declared_harmless_are_and_others_are_not(debiased: bool) -> None:
    rng = generator(2, "kernels")
    x, y = related(60)
    d = x.shape[1]
    changes = {
        "orthogonal": x @ np.linalg.qr(rng.normal(size=(d, d)))[0],
        "isotropic_scale": 3.7 * x,
        "invertible_linear": x @ rng.normal(size=(d, d)),
        "translation": x + 100 * rng.normal(size=d),
        "neuron_permutation": x[:, rng.permutation(d)],
        "neuron_scale": x * rng.normal(size=d),
    }
    base = value(x, y, debiased=debiased)
    same = {k for k, z in changes.items() if abs(value(z, y, debiased=debiased) - base) < 1e-9}
    assert same == kernels.RBF_CKA.invariances.left


def test_sees_a_relation_that_is_not_linear() -> None:
    angle = generator(0, "circle").uniform(0, 2 * np.pi, size=400)
    once = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    twice = np.stack([np.cos(2 * angle), np.sin(2 * angle)], axis=1)
    cross = (once - once.mean(0)).T @ (twice - twice.mean(0)) / 400
    assert np.abs(cross).max() < 0.1
    shuffled = generator(0, "shuffle").permutation(twice)
    assert value(once, twice, t=0.3, debiased=True) > 0.3
    assert abs(value(once, shuffled, t=0.3, debiased=True)) < 0.1


def test_unrelated_rows_have_debiased_mean_zero_and_a_biased_floor() -> None:
    rng = generator(3, "kernels")
    pairs = [(rng.normal(size=(30, 20)), rng.normal(size=(30, 20))) for _ in range(100)]
    debiased = np.array([value(x, y, debiased=True) for x, y in pairs])
    assert abs(debiased.mean()) < 4 * debiased.std() / 10
    assert np.mean([value(x, y) for x, y in pairs]) > 0.3


def test_far_apart_groups_keep_their_inner_distances() -> None:
    # Most distances are within a group and 1e-6 of the distance between groups.
    rng = generator(4, "kernels")
    x, y = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    x[:30] += 1e6
    squared = ((x[:, None] - x) ** 2).sum(-1)
    k = np.exp(-squared / (2 * np.median(squared)))
    other = np.exp(
        -euclidean_distances(y, squared=True) / (2 * np.median(euclidean_distances(y, squared=True)))
    )
    a, b = KernelCenterer().fit_transform(k), KernelCenterer().fit_transform(other)
    oracle = (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)
    assert value(x, y) == pytest.approx(oracle, abs=1e-6)


@pytest.mark.parametrize("debiased", [False, True])
def test_many_pairs_are_kept_in_less_memory_and_stay_exact(
    debiased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = related(500)
    exact = value(x, y, debiased=debiased)
    monkeypatch.setattr(rsa, "DOUBLE_PAIRS", 100)
    prepared = kernels.prepare(torch.from_numpy(x), choose(kernels.RBF_CKA).options)
    assert isinstance(prepared, rsa.PairVector)
    assert prepared.vector.dtype == torch.float32
    assert value(x, y, debiased=debiased) == pytest.approx(exact, abs=1e-8)
    assert value(x, x, debiased=debiased) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_units_do_not_matter(scale: float) -> None:
    x, y = related(20)
    assert value(scale * x, y) == pytest.approx(value(x, y), abs=1e-12)


def test_what_is_undefined_says_why() -> None:
    x, y = related(20)
    same = np.full((20, 8), 0.37)
    mostly_same = x.copy()
    mostly_same[3:] = mostly_same[3]
    for bad, options, words in (
        (same, {}, "median distance of zero"),
        (mostly_same, {}, "median distance of zero"),
        (np.eye(20), {"debiased": True}, "same kernel value"),
    ):
        got, reason = outcome(bad, y, **options)
        assert math.isnan(got)
        assert str(reason).startswith("the left layer has")
        assert words in str(reason)
        got, reason = outcome(y, bad, **options)
        assert math.isnan(got)
        assert str(reason).startswith("the right layer has")


def test_too_few_rows() -> None:
    x, y = related(3)
    assert outcome(x, y)[1] is None
    assert outcome(x, y, debiased=True)[1] == "the left layer needs at least 4 rows, has 3"
    assert outcome(x[:2], y[:2])[1] == "the left layer needs at least 3 rows, has 2"
