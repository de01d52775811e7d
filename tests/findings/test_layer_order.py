"""Layers match by depth, similarity falls with distance, and maps of the same layers agree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from microtome.errors import InputError
from microtome.findings.layer_order import layer_matching, mantel, monotonicity
from microtome.randomness import generator


@settings(max_examples=50, deadline=None)
@given(layers=st.integers(2, 14), seed=st.integers(0, 999), level=st.sampled_from([0.9, 0.95]))
def test_equal_depths_compare_indices(layers: int, seed: int, level: float) -> None:
    values = generator(seed, "map").uniform(size=(layers, layers))
    best = values.argmax(axis=1)
    hits = int((best == np.arange(layers)).sum())
    found = layer_matching(values, level=level)
    assert found.best == tuple(best)
    assert found.accuracy == pytest.approx(hits / layers)
    assert found.within_one == pytest.approx((np.abs(best - np.arange(layers)) <= 1).mean())
    assert found.chance == pytest.approx(1 / layers)
    wilson = stats.binomtest(hits, layers).proportion_ci(level, method="wilson")
    assert (found.interval.low, found.interval.high) == pytest.approx((wilson.low, wilson.high))
    assert found.ties == ()


def test_unequal_depths_compare_relative_depth() -> None:
    # 7 layers against 13: layer i stands where layer 2 i of the other does.
    values = -np.abs(np.arange(13) - 2 * np.arange(7)[:, None]) / 13
    found = layer_matching(values)
    assert found.expected == pytest.approx(2 * np.arange(7))
    assert (found.accuracy, found.within_one) == (1.0, 1.0)
    shifted = layer_matching(np.roll(values, 1, axis=1)[:-1])
    assert shifted.accuracy < 1
    # In the other direction every odd layer falls between two; both are right.
    back = layer_matching(values.T)
    assert back.accuracy == 1.0
    assert back.ties == (1, 3, 5, 7, 9, 11)
    assert "Ties: layers 1, 3, 5, 7, 9 and 11." in back.sentence()


def test_a_constant_map_scores_chance() -> None:
    found = layer_matching(np.full((5, 5), 0.7))
    assert found.accuracy == pytest.approx(found.chance)
    assert found.ties == (0, 1, 2, 3, 4)


def test_undefined_layers_are_left_out_by_matching() -> None:
    values = np.eye(6)
    values[0], values[:, 0] = np.nan, np.nan
    values[3, 3] = np.nan
    values[4, 1] = np.nan  # a hole that is not in the way
    found = layer_matching(values)
    assert found.left_out == (0, 3)
    assert found.best == (None, 1, 2, None, 4, 5)
    assert found.accuracy == 1.0
    assert found.chance == pytest.approx(np.mean([1 / 5, 1 / 5, 1 / 4, 1 / 5]))
    said = found.sentence([f"a/{i}" for i in range(6)])
    assert said.startswith(
        "Of 4 layers 100 % [51 %, 100 %] (95 %, over layers) are most similar to the layer at"
    )
    assert said.endswith("Left out as undefined: layers a/0 and a/3.")


def test_bad_input_is_told_by_matching() -> None:
    with pytest.raises(InputError, match="at least two layers by two layers"):
        layer_matching(np.ones(4))
    with pytest.raises(InputError, match="level must be"):
        layer_matching(np.eye(3), level=95)
    with pytest.raises(InputError, match="none defined"):
        layer_matching(np.full((3, 3), np.nan))


# Halves of small whole numbers: many ties, and averages of the two directions are exact.
def free_maps(undefined: bool) -> st.SearchStrategy[np.ndarray]:
    cells = st.integers(0, 6).map(lambda v: v / 2)
    cells = cells | st.just(float("nan")) if undefined else cells
    return st.integers(3, 8).flatmap(lambda n: arrays(float, (n, n), elements=cells))


@settings(max_examples=50, deadline=None)
@given(free_maps(undefined=False))
def test_tau_is_kendalls_tau_b(values: np.ndarray) -> None:
    s = (values + values.T) / 2
    found = monotonicity(values)
    below = s[:-1, -1]
    if len(set(below)) == 1:
        assert np.isnan(found.tau)
        assert found.reason == "all layers are equally similar to the last one"
    else:
        expected = stats.kendalltau(np.arange(len(below)), below)[0]
        assert found.tau == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(free_maps(undefined=True), st.sampled_from([0.0, 0.25, 1.0]))
def test_violated_triples_are_counted(values: np.ndarray, tolerance: float) -> None:
    s = (values + values.T) / 2
    broken = []
    for i, j, k in itertools.combinations(range(len(s)), 3):
        if not np.isnan([s[i, j], s[j, k], s[i, k]]).any():
            broken.append(s[i, k] > s[i, j] + tolerance or s[i, k] > s[j, k] + tolerance)
    found = monotonicity(values, tolerance=tolerance)
    assert found.triples == len(broken)
    if broken:
        assert found.violated == pytest.approx(np.mean(broken))
    else:
        assert np.isnan(found.violated)


def test_a_steady_stack_has_no_violations() -> None:
    index = np.arange(13)
    found = monotonicity(0.9 ** np.abs(index[:, None] - index))
    assert (found.tau, found.violated, found.triples, found.last) == (1.0, 0.0, 286, 12)
    assert found.sentence() == (
        "Kendall's tau of depth with similarity to layer 12 is 1.00; "
        "of 286 triples of layers 0 % break the order."
    )


def test_undefined_layers_are_left_out_by_monotonicity() -> None:
    index = np.arange(6)
    values = 0.9 ** np.abs(index[:, None] - index)
    values[[0, 5]], values[:, [0, 5]] = np.nan, np.nan
    found = monotonicity(values)
    assert (found.tau, found.last, found.left_out, found.triples) == (1.0, 4, (0, 5), 4)
    assert found.sentence(list("abcdef")).endswith("Left out as undefined: layers a and f.")
    empty = monotonicity(np.full((3, 3), np.nan))
    assert empty.last is None
    assert empty.sentence().startswith("Kendall's tau is undefined: no similarity is defined; no triple")


def test_bad_input_is_told_by_monotonicity() -> None:
    with pytest.raises(InputError, match="tolerance must be at least 0"):
        monotonicity(np.eye(3), tolerance=-1)
    with pytest.raises(InputError, match="the shape of values"):
        monotonicity(np.ones((3, 4)))


def maps(layers: int, seed: int, related: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    a, b = generator(seed, "maps").uniform(size=(2, layers, layers))
    return a, related * a + (1 - related) * b


def upper(values: np.ndarray) -> np.ndarray:
    return ((values + values.T) / 2)[np.triu_indices(len(values), 1)]


def test_correlation_is_that_of_the_pairs() -> None:
    a, b = maps(9, 0, 0.4)
    assert mantel(a, b, 9).correlation == pytest.approx(np.corrcoef(upper(a), upper(b))[0, 1])


@pytest.mark.parametrize("seed", range(3))
def test_p_approaches_that_of_all_orders(seed: int) -> None:
    a, b = maps(5, seed, 0.3)
    observed = np.corrcoef(upper(a), upper(b))[0, 1]
    every = [
        np.corrcoef(upper(a), upper(b[np.ix_(order, order)]))[0, 1]
        for order in itertools.permutations(range(5))
    ]
    exact = np.mean(np.array(every) >= observed - 1e-12)
    found = mantel(a, b, permutations=2000, seed=seed)
    assert found.p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 2000) + 1 / 2001)


def test_the_same_map_is_found_and_an_unrelated_one_is_not() -> None:
    a, _ = maps(10, 1)
    same = mantel(a, 2 * a + 3)
    assert same.correlation == pytest.approx(1)
    assert same.p == pytest.approx(1 / 1000)
    assert same.sentence() == (
        "The maps correlate with r = 1.000 over 10 layers (p = 0.001, 999 permutations of the layers)."
    )
    by_chance = [mantel(*maps(8, seed), permutations=99).p for seed in range(40)]
    # 40 independent p-values: uniform, so their mean is 0.5 with sd 0.046.
    assert abs(np.mean(by_chance) - 0.5) < 0.18
    assert min(by_chance) > 0


def test_one_seed_one_answer() -> None:
    a, b = maps(8, 2)
    assert mantel(a, b, 99, 5) == mantel(a, b, 99, 5)
    assert len({mantel(a, b, 99, seed).p for seed in range(8)}) > 1


def test_undefined_layers_are_left_out_by_mantel() -> None:
    a, b = maps(8, 3, 0.5)
    clean = mantel(a[1:, 1:], b[1:, 1:], 50)
    a[0] = np.nan
    found = mantel(a, b, 50)
    assert found.left_out == (0,)
    assert found.layers == 7
    assert (found.correlation, found.p) == pytest.approx((clean.correlation, clean.p))


def test_a_constant_map_has_no_correlation() -> None:
    a, _ = maps(6, 4)
    found = mantel(a, np.full((6, 6), 0.1))
    assert np.isnan(found.correlation)
    assert found.sentence().startswith(
        "The correlation of the maps is undefined: all similarities of one map"
    )


def test_bad_input_is_told_by_mantel() -> None:
    a, _ = maps(6, 5)
    with pytest.raises(InputError, match="the shape of map_b"):
        mantel(a, a[:5, :5])
    with pytest.raises(InputError, match="at least four layers"):
        mantel(a[:3, :3], a[:3, :3])
    with pytest.raises(InputError, match="permutations must be at least 1"):
        mantel(a, a, 0)
