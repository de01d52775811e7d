from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from microtome.errors import InputError
from microtome.inference.resampling import jackknife_interval


def test_mean_of_rows_gives_the_textbook_t_interval() -> None:
    x = np.random.default_rng(0).gamma(2.0, size=(15, 4, 3))
    leave_out = np.stack([np.delete(x, row, axis=0).mean(axis=0) for row in range(15)])
    band = replace(jackknife_interval(x.mean(axis=0), leave_out, unit="row"), level=0.9)
    low, high = stats.t.interval(0.9, 14, loc=x.mean(axis=0), scale=stats.sem(x, axis=0))
    np.testing.assert_allclose(band.low, low, rtol=1e-12)
    np.testing.assert_allclose(band.high, high, rtol=1e-12)
    np.testing.assert_allclose(band.se, stats.sem(x, axis=0), rtol=1e-12)
    cell = band.at(2, 1)
    assert (cell.low, cell.high) == (band.low[2, 1], band.high[2, 1])
    assert (cell.level, cell.unit, cell.target) == (0.9, "row", "population value")


def test_groups_of_unequal_size() -> None:
    # 30 clusters in 20 groups, ten of them of two clusters. Without sizes the pairs count for too much.
    rng = np.random.default_rng(2)
    sizes = np.repeat([1, 2], 10)
    group = np.repeat(np.arange(20), sizes)
    squared: dict[str, list[float]] = {"known": [], "ignored": []}
    for _ in range(600):
        x = rng.standard_normal(30)
        leave_out = [x[group != g].mean() for g in range(20)]
        squared["known"].append(float(jackknife_interval(x.mean(), leave_out, sizes=sizes).se) ** 2)
        squared["ignored"].append(float(jackknife_interval(x.mean(), leave_out).se) ** 2)
    assert np.mean(squared["known"]) * 30 == pytest.approx(1, abs=0.05)
    assert np.mean(squared["ignored"]) > np.mean(squared["known"])


def test_undefined_cells_stay_undefined() -> None:
    band = jackknife_interval([1.0, np.nan], [[1.0, np.nan], [1.2, 0.3], [0.9, 0.1]])
    assert np.isfinite(band.low[0])
    assert np.isnan(band.low[1])
    assert np.isnan(band.high[1])


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"leave_out": [[1.0, 2.0]]}, "leave_out must be of shape"),
        ({"leave_out": [1.0]}, "groups must be at least 2"),
        ({"sizes": [1, 2]}, "sizes must be 3 positive numbers"),
        ({"sizes": [1, 2, 0]}, "sizes must be 3 positive numbers"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, object], sentence: str) -> None:
    arguments: dict[str, object] = {"value": 1.0, "leave_out": [1.0, 2.0, 3.0]}
    with pytest.raises(InputError, match=sentence):
        jackknife_interval(**(arguments | change))  # pyright: ignore[reportArgumentType]


def test_the_level_is_checked() -> None:
    with pytest.raises(InputError, match="level must be between 0 and 1, but got 95"):
        replace(jackknife_interval(1.0, [1.0, 2.0, 3.0]), level=95)
