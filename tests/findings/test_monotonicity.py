from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from microtome.errors import InputError
from microtome.findings.monotonicity import monotonicity


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
        "of 286 triples of layers 0% break the order."
    )


def test_undefined_layers_are_left_out() -> None:
    index = np.arange(6)
    values = 0.9 ** np.abs(index[:, None] - index)
    values[[0, 5]], values[:, [0, 5]] = np.nan, np.nan
    found = monotonicity(values)
    assert (found.tau, found.last, found.left_out, found.triples) == (1.0, 4, (0, 5), 4)
    assert found.sentence(list("abcdef")).endswith("Left out as undefined: layers a and f.")
    empty = monotonicity(np.full((3, 3), np.nan))
    assert empty.last is None
    assert empty.sentence().startswith("Kendall's tau is undefined: no similarity is defined; no triple")


def test_bad_input_is_told() -> None:
    with pytest.raises(InputError, match="tolerance must be at least 0"):
        monotonicity(np.eye(3), tolerance=-1)
    with pytest.raises(InputError, match="the shape of values"):
        monotonicity(np.ones((3, 4)))
