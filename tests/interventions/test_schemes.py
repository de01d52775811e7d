"""Do the schemes draw what their names promise?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from microtome.interventions.schemes import SCHEMES
from microtome.randomness import generator


def drawn(scheme: str, old: np.ndarray, sd: float = 0.02) -> np.ndarray:
    draw = SCHEMES[scheme].draw
    assert draw is not None
    return draw(old, sd, generator(0, "test", scheme))


@pytest.mark.parametrize(
    ("scheme", "bound", "sd"), [("trunc_normal", 2.0, 0.0176), ("tamkin_code", 0.04, 0.00046)]
)
def test_truncated_normals(scheme: str, bound: float, sd: float) -> None:
    found = drawn(scheme, np.zeros((300, 200))).reshape(-1)
    # The published code calls scipy in this way, with 2 * 0.02 for the bounds.
    oracle = stats.truncnorm(-bound, bound, loc=0.0, scale=0.02)
    assert found.std() == pytest.approx(sd, rel=0.01)
    assert oracle.std() == pytest.approx(sd, rel=0.01)
    assert np.abs(found).max() <= bound * 0.02
    assert stats.kstest(found, oracle.cdf).pvalue > 0.01


def test_moments() -> None:
    old = generator(1, "test").normal(0.5, 3.0, size=(400, 300))
    found = drawn("moment_matched", old)
    assert found.mean() == pytest.approx(old.mean(), abs=0.04)
    assert found.std() == pytest.approx(old.std(), rel=0.01)
    assert abs(np.corrcoef(found.reshape(-1), old.reshape(-1))[0, 1]) < 0.02


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 3))
def test_shuffling_keeps_every_entry(rows: int, columns: int, depth: int) -> None:
    old = np.arange(rows * columns * depth, dtype=np.float32).reshape(rows, columns, depth)
    found = drawn("shuffled", old)
    assert found.shape == old.shape
    assert sorted(found.reshape(-1)) == sorted(old.reshape(-1))


def test_shuffling_mixes_rows_and_columns() -> None:
    old = np.repeat(np.arange(100.0)[:, None], 80, axis=1)
    found = drawn("shuffled", old)
    assert found.std(axis=1).min() > 15
