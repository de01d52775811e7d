from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from microtome.errors import InputError
from microtome.inference.clusters import Clusters
from microtome.inference.resampling import half_interval, half_plan


def test_each_half_is_half_of_the_clusters_each_whole_and_once() -> None:
    clusters = Clusters.from_ids(np.random.default_rng(0).integers(0, 21, 200))
    plan = half_plan(clusters, 30, seed=1)
    assert len(plan) == 30
    for rows in plan:
        chosen = np.unique(clusters.codes[rows])
        assert len(chosen) == len(clusters) // 2
        assert len(rows) == clusters.sizes[chosen].sum() == len(np.unique(rows))
        assert (np.diff(rows) > 0).all()
    taken = np.bincount(np.concatenate([np.unique(clusters.codes[rows]) for rows in plan]))
    assert taken.min() > 0
    assert taken.max() < 30


def test_the_seed_decides() -> None:
    one, same, other = (half_plan(50, 5, seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(one, same, strict=True))
    assert not all((a == b).all() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("n", [40, 41, 7])
def test_standard_error_of_a_mean(n: int) -> None:
    x = np.random.default_rng(n).gamma(2.0, size=(n, 2))
    values = [x[rows].mean(axis=0) for rows in half_plan(n, 4000, seed=0)]
    band = half_interval(x.mean(axis=0), values, units=n, unit="row")
    # 4000 halves estimate a standard deviation within 1.1 %.
    np.testing.assert_allclose(band.se, stats.sem(x), rtol=0.045)
    assert band.at(0).target == "value of another sample of the same size"


def test_three_halves_by_hand() -> None:
    band = half_interval(2.0, [1.0, 2.0, 3.0], units=9, unit="cluster")
    assert band.se == pytest.approx(np.sqrt(4 / 5))


@pytest.mark.parametrize("n, replicates", [(6, 40), (200, 5), (20, 20)])
def test_intervals_cover_with_few_rows_or_few_halves(n: int, replicates: int) -> None:
    rng = np.random.default_rng([n, replicates])
    plan = half_plan(n, replicates, seed=3)
    x = rng.standard_normal((4000, n))
    values = np.stack([x[:, rows].mean(axis=1) for rows in plan])
    band = half_interval(x.mean(axis=1), values, units=n, unit="row")
    # With 4000 data sets the share has a standard error of 0.35 %; few halves of few rows are one plan.
    assert np.mean((band.low < 0) & (band.high > 0)) == pytest.approx(0.95, abs=0.015)


def test_whole_clusters_widen_the_interval_of_clustered_rows() -> None:
    rng = np.random.default_rng(5)
    ids = np.repeat(np.arange(30), 10)
    x = rng.standard_normal(30)[ids] + 0.3 * rng.standard_normal(300)
    clusters = Clusters.from_ids(ids)
    widths = []
    for units in (clusters, Clusters.singletons(300)):
        values = [x[rows].mean() for rows in half_plan(units, 400, seed=0)]
        widths.append(half_interval(x.mean(), values, units=len(units), unit=units.unit).se)
    assert widths[0] == pytest.approx(stats.sem(x.reshape(30, 10).mean(axis=1)), rel=0.15)
    assert widths[0] > 2 * widths[1]


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(InputError, match="at least 4 to be halved, but got 3"):
        half_plan(3, 10, seed=0)
    with pytest.raises(InputError, match="replicates must be at least 2, but got 1"):
        half_plan(30, 1, seed=0)
    with pytest.raises(InputError, match="replicates must be of shape"):
        half_interval(1.0, [[1.0], [2.0]], units=10, unit="row")
