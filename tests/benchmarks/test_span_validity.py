"""Rank correlations of similarity and cost, raw and beyond length and depth, against independent formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LinearRegression, Ridge
from span_validity import (
    RIDGE,
    Spans,
    partial_rank_correlation,
    predict_order,
    rank_correlation,
    spans_of,
)

from microtome.errors import InputError
from microtome.randomness import generator


def ranked(values: np.ndarray) -> np.ndarray:
    found: Any = stats.zscore(stats.rankdata(values))
    return found


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    found: Any = stats.spearmanr(x, y)
    return found.statistic


def maps(depth: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A similarity of layers 0..depth and costs of spans, unrelated."""
    rng = generator(0, "maps", name, depth)
    i, j = np.triu_indices(depth + 1, 1)
    cost = np.full((depth, depth), np.nan)
    cost[i, j - 1] = (j - i) + rng.random(len(i))
    similarity = rng.random((depth + 1, depth + 1))
    return (similarity + similarity.T) / 2, cost


def test_similarity_of_layers_meets_the_cost_of_the_blocks_between_them() -> None:
    similarity = np.add.outer(10.0 * np.arange(4), np.arange(4))
    cost = np.array([[1.1, 1.2, 1.3], [np.nan, 2.2, 2.3], [np.nan, np.nan, 3.3]])
    found = spans_of(similarity, cost)
    # Layers 0 and 2 enclose the blocks 1 and 2; the two directions, 2 and 20, are averaged.
    by_pair = dict(zip(zip(found.length, found.midpoint, strict=True), found.cost, strict=True))
    assert by_pair[2, 1.0] == 1.2
    assert by_pair[1, 2.5] == 3.3
    assert found.similarity[(found.length == 2) & (found.midpoint == 1)] == [11]
    assert (len(found.cost), found.without_layer_0, found.missing) == (6, 0, 0)


def test_layers_and_cells_that_are_undefined_are_left_out_and_counted() -> None:
    similarity, cost = maps(5, "missing")
    cost[1, 3] = np.nan
    found = spans_of(similarity[1:, 1:], cost)
    assert (len(found.cost), found.without_layer_0, found.missing) == (9, 5, 1)
    similarity[0] = np.nan
    again = spans_of(similarity, cost)
    np.testing.assert_array_equal(found.similarity, again.similarity)
    assert again.without_layer_0 == 5


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_spearman_is_that_of_scipy_also_with_ties(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=float).T
    if min(np.ptp(x), np.ptp(y)) == 0:
        assert np.isnan(rank_correlation(x, y))
    else:
        expected = spearman(x, y)
        assert rank_correlation(x, y) == pytest.approx(expected, abs=1e-9)


def test_the_partial_correlation_is_that_of_least_squares_residuals() -> None:
    similarity, cost = maps(7, "partial")
    spans = spans_of(similarity, cost)
    m, length, s, c = (ranked(side) for side in (spans.midpoint, spans.length, spans.similarity, spans.cost))
    dummies = (spans.length[:, None] == np.arange(1, 7)).astype(float)  # the intercept stands for the last
    known = np.column_stack([dummies, m, m**2, m * length])
    left = [side - LinearRegression().fit(known, side).predict(known) for side in (s, c)]
    assert partial_rank_correlation(spans) == pytest.approx(np.corrcoef(*left)[0, 1])


def test_a_similarity_of_length_alone_has_nothing_left() -> None:
    _, cost = maps(6, "length")
    apart = np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
    found = spans_of(np.exp(-apart), cost)
    assert rank_correlation(found.similarity, found.cost) < -0.9
    assert np.isnan(partial_rank_correlation(found))


def test_costs_are_predicted_by_ridge_regression_on_ranks() -> None:
    training, asked = [spans_of(*maps(6, name)) for name in "abc"], spans_of(*maps(8, "d"))

    def features(one: Spans, full: bool) -> np.ndarray:
        length, m, s = (ranked(v) for v in (one.length, one.midpoint, one.similarity))
        terms = [length, m, length**2, m**2, length * m] + full * [s, s**2, s * length, s * m]
        return np.column_stack(terms) - np.mean(terms, axis=1)

    for full, found in zip((False, True), predict_order(training, asked), strict=True):
        x = np.vstack([features(one, full) for one in training])
        y = np.concatenate([ranked(one.cost) for one in training])
        model = Ridge(alpha=RIDGE * len(y), fit_intercept=False).fit(x, y)
        expected = spearman(model.predict(features(asked, full)), asked.cost)
        assert found == pytest.approx(expected, abs=1e-6)


def test_shapes_must_fit() -> None:
    similarity, cost = maps(4, "shapes")
    with pytest.raises(
        InputError, match="the shape of a similarity must be that of layers 0 to 4, or 1 to 4"
    ):
        spans_of(similarity[:3, :3], cost)
    with pytest.raises(InputError, match="the shape of costs"):
        spans_of(similarity, cost[:2])
