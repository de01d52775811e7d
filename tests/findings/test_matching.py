from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from microtome.errors import InputError
from microtome.findings.matching import layer_matching
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


def test_undefined_layers_are_left_out() -> None:
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
    assert said.startswith("Of 4 layers 100% [51%, 100%] (95%, unit: layer) are most similar to the layer at")
    assert said.endswith("Left out as undefined: layers a/0 and a/3.")


def test_bad_input_is_told() -> None:
    with pytest.raises(InputError, match="at least two layers by two layers"):
        layer_matching(np.ones(4))
    with pytest.raises(InputError, match="level must be"):
        layer_matching(np.eye(3), level=95)
    with pytest.raises(InputError, match="none defined"):
        layer_matching(np.full((3, 3), np.nan))
