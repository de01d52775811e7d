"""Intervals of a difference from resamples of both sides are those of paired values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import stats

from microtome.inference.resampling import half_interval, half_plan, jackknife_interval, scores_interval

N = 80
RNG = np.random.default_rng(0)
COMMON = RNG.standard_normal((N, 1))
A = 3 * COMMON + RNG.standard_normal((N, 2))
B = 3 * COMMON + RNG.standard_normal((N, 2))
DIFFERENCE = A.mean(axis=0) - B.mean(axis=0)
PAIRED = stats.sem(A - B)


def test_scores_give_the_paired_interval() -> None:
    psi, other = (((x - x.mean(axis=0)) / N).T for x in (A, B))
    band = replace(scores_interval(DIFFERENCE, psi - other, unit="row"), level=0.9)
    np.testing.assert_allclose(band.se, PAIRED, rtol=1e-12)
    np.testing.assert_allclose(band.low, (A - B).mean(axis=0) - stats.norm.ppf(0.95) * PAIRED, rtol=1e-12)


def test_leaving_out_gives_the_paired_interval() -> None:
    left, other = (np.array([np.delete(x, row, axis=0).mean(axis=0) for row in range(N)]) for x in (A, B))
    band = jackknife_interval(DIFFERENCE, left - other, unit="row")
    test = stats.ttest_rel(A, B)
    np.testing.assert_allclose(band.low, test.confidence_interval(0.95).low, rtol=1e-10)
    np.testing.assert_allclose(band.high, test.confidence_interval(0.95).high, rtol=1e-10)


def test_halves_give_the_paired_interval() -> None:
    plan = half_plan(N, 1500, seed=1)
    values, other = (np.array([x[rows].mean(axis=0) for rows in plan]) for x in (A, B))
    band = half_interval(DIFFERENCE, values - other, units=N, unit="row")
    np.testing.assert_allclose(band.se, PAIRED, rtol=0.08)
    assert (band.se < 0.5 * stats.sem(A)).all()
