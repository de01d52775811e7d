from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from microtome.errors import InputError
from microtome.inference.difference import (
    difference_from_halves,
    difference_from_jackknife,
    difference_from_scores,
)
from microtome.inference.halves import half_plan

N = 80
RNG = np.random.default_rng(0)
COMMON = RNG.standard_normal((N, 1))
A = 3 * COMMON + RNG.standard_normal((N, 2))
B = 3 * COMMON + RNG.standard_normal((N, 2))
PAIRED = stats.sem(A - B)


def test_scores_give_the_paired_interval() -> None:
    psi, other = (((x - x.mean(axis=0)) / N).T for x in (A, B))
    band = difference_from_scores(A.mean(axis=0), B.mean(axis=0), psi, other, 0.9, unit="row")
    np.testing.assert_allclose(band.se, PAIRED, rtol=1e-12)
    np.testing.assert_allclose(band.low, (A - B).mean(axis=0) - stats.norm.ppf(0.95) * PAIRED, rtol=1e-12)
    assert band.at(1).target == "difference of the population values"


def test_leaving_out_gives_the_paired_interval() -> None:
    left, other = (np.array([np.delete(x, row, axis=0).mean(axis=0) for row in range(N)]) for x in (A, B))
    band = difference_from_jackknife(A.mean(axis=0), B.mean(axis=0), left, other, unit="row")
    test = stats.ttest_rel(A, B)
    np.testing.assert_allclose(band.low, test.confidence_interval(0.95).low, rtol=1e-10)
    np.testing.assert_allclose(band.high, test.confidence_interval(0.95).high, rtol=1e-10)


def test_halves_give_the_paired_interval() -> None:
    plan = half_plan(N, 1500, seed=1)
    values, other = (np.array([x[rows].mean(axis=0) for rows in plan]) for x in (A, B))
    band = difference_from_halves(A.mean(axis=0), B.mean(axis=0), values, other, units=N, unit="row")
    np.testing.assert_allclose(band.se, PAIRED, rtol=0.08)
    assert (band.se < 0.5 * stats.sem(A)).all()
    assert band.at(0).target == "difference in another sample of the same size"


def test_two_sides_must_match() -> None:
    with pytest.raises(InputError, match=r"scores of the two sides must be of one shape"):
        difference_from_scores(1.0, 2.0, np.zeros(5), np.zeros(6), unit="row")
