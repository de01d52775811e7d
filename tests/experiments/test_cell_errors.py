"""Errors of cells add up to those of whatever is made of them, and hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from microtome.comparison.similarity import similarity_matrix
from microtome.errors import InputError
from microtome.experiments.cell_errors import Sample, apart, center_of, curve_of, errors_of, points_of
from microtome.inference.scoring import quantile
from microtome.randomness import generator


def layers(rows: int, seed: int = 0) -> list[np.ndarray]:
    rng = generator(seed, "layers")
    first = rng.standard_normal((rows, 5))
    return [first, first + rng.standard_normal((rows, 5))]


@pytest.mark.parametrize(
    ("measure", "clusters"),
    [("debiased_cka", 90), ("debiased_cka", 20), ("rsa", 30), ("linear_cka", 80), ("svcca", 20)],
)
def test_errors_are_those_of_the_interval_of_the_map(measure: str, clusters: int) -> None:
    ids = np.repeat(np.arange(clusters), generator(1, "sizes").integers(1, 4, size=clusters))
    one = similarity_matrix(layers(len(ids)), None, measure, clusters=ids, certainty=True, halves=12)[measure]
    errors, dof = errors_of(one)
    count = errors.shape[-1]
    se = np.sqrt(count / (count - 1) * (errors**2).sum(-1))
    assert one.low is not None
    half = one.values[0, 1] - one.low[0, 1]
    assert quantile(0.95, dof) * se[0, 1] == pytest.approx(half, rel=1e-6)


def test_a_map_without_certainty_has_no_errors() -> None:
    with pytest.raises(InputError, match="must be computed with certainty=True"):
        errors_of(similarity_matrix(layers(30))["debiased_cka"])


def of_means(x: np.ndarray) -> Sample:
    """The means of columns, shape (units, points), as a sample of one model."""
    n = len(x)
    return Sample(values=x.mean(0)[None], errors=((x - x.mean(0)) / n).T[None], dof=n - 1)


def test_an_interval_and_a_band_hold_as_often_as_they_promise() -> None:
    rng = generator(2, "coverage")
    alone, together, runs = 0, 0, 400
    for _ in range(runs):
        common = rng.standard_normal((40, 1))
        found = points_of(of_means(common + rng.standard_normal((40, 6))))
        alone += found.low[0] < 0 < found.high[0]
        together += ((found.band_low < 0) & (found.band_high > 0)).all()
    assert 0.92 < alone / runs < 0.98
    assert 0.92 < together / runs < 0.98


def trained(rng: np.random.Generator, models: int, common: np.ndarray, apart: np.ndarray) -> Sample:
    """Models that err by what all of them share, by what their training adds, and by rows of their own."""
    rows = common + apart[:models, None] + 0.3 * rng.standard_normal((models, len(common)))
    values = rows.mean(1, keepdims=True)
    errors = (rows - values) / len(common)
    return Sample(values=values, errors=errors[:, None], dof=len(common) - 1)


@pytest.mark.parametrize("models", [2, 3])
@pytest.mark.parametrize("design", ["mean", "paired", "apart", "one against several"])
def test_few_models_that_differ_much_are_covered(design: str, models: int) -> None:
    runs, held, surprised = 1000, 0, 0
    for number in range(runs):
        rng = generator(7, "few", design, models, number)
        common, apart = rng.standard_normal((2, 60)), 0.6 * rng.standard_normal((2, models))
        sides = [trained(rng, models, *each) for each in zip(common, apart, strict=True)]
        if design == "one against several":
            sides[1] = trained(rng, 1, common[1], apart[1])
        found = points_of(sides[0], None if design == "mean" else sides[1], pair_models=design == "paired")
        held += found.low[0] <= 0 <= found.high[0]
        surprised += found.p[0] < 0.01
        assert (found.p[0] < 0.05) == (not found.low[0] <= 0 <= found.high[0])
    # Two Monte Carlo errors are allowed for.
    assert held / runs > 0.95 - 2 * np.sqrt(0.05 * 0.95 / runs)
    assert surprised / runs < 0.01 + 2 * np.sqrt(0.01 * 0.99 / runs)


def test_models_that_agree_by_luck_at_one_point_have_a_band_there() -> None:
    x = 1e-2 * generator(8, "luck").standard_normal((50, 4))
    one = of_means(x)
    apart = np.outer([-1.0, 0.2, 0.8], [1.0, 1.0, 1.0, 0.1])
    found = points_of(Sample(values=one.values + apart, errors=np.repeat(one.errors, 3, axis=0), dof=49.0))
    arms = found.band_high - found.values
    assert arms[3] > 0.4 * arms[0]


def test_models_that_differ_widen_the_interval() -> None:
    x = generator(3, "wide").standard_normal((50, 2))
    one = of_means(x)
    apart = np.array([-1.0, 0.0, 1.0])[:, None]
    several = Sample(values=one.values + apart, errors=np.repeat(one.errors, 3, axis=0), dof=one.dof)
    alone, spread = points_of(one), points_of(several)
    np.testing.assert_allclose(spread.values, alone.values)
    # The models alone have a standard error of 1 / sqrt(3), and t with 2 degrees of freedom is 4.3.
    assert spread.high[0] - spread.values[0] == pytest.approx(4.3 / np.sqrt(3), rel=0.1)
    np.testing.assert_allclose(points_of(several.together()).low, alone.low)


def test_the_same_twice_differs_by_nothing_and_bounds_cut() -> None:
    one = of_means(generator(4, "same").standard_normal((50, 3)))
    found = points_of(one, one)
    assert found.values.tolist() == found.low.tolist() == found.high.tolist() == [0, 0, 0]
    assert found.p.tolist() == [1, 1, 1]
    assert points_of(one, bounds=(-0.01, 0.01)).high.max() == 0.01
    # Both sides share their units: the difference is that of the differences.
    other = of_means(generator(5, "other").standard_normal((50, 3)))
    both = Sample(values=one.values - other.values, errors=one.errors - other.errors, dof=49)
    np.testing.assert_allclose(points_of(one, other).low, points_of(both).low)


def test_the_center_moves_as_its_errors_say() -> None:
    rng = generator(6, "center")
    similar = Sample(
        values=rng.uniform(0.2, 0.9, (2, 5)), errors=1e-5 * rng.standard_normal((2, 5, 7)), dof=6.0
    )
    at = [0, 1, 2, 3, 4]
    center = center_of(similar, at)
    assert center is not None
    weights = 1 - similar.values
    np.testing.assert_allclose(center.values[:, 0], (weights * at).sum(1) / weights.sum(1))
    for unit in range(7):
        shifted = center_of(
            Sample(values=similar.values + similar.errors[..., unit], errors=similar.errors, dof=6.0), at
        )
        assert shifted is not None
        np.testing.assert_allclose(
            shifted.values - center.values, center.errors[..., unit], atol=1e-8, rtol=1e-3
        )


def test_without_change_there_is_no_center_and_undefined_layers_are_left_out() -> None:
    still = Sample(values=np.ones((1, 3)), errors=np.zeros((1, 3, 4)), dof=3.0)
    assert center_of(still, [0, 1, 2]) is None
    holes = Sample(values=np.array([[np.nan, 1.0, 0.5]]), errors=np.zeros((1, 3, 4)), dof=3.0)
    center = center_of(holes, [0, 1, 2])
    assert center is not None
    assert center.values.tolist() == [[2.0]]
    assert holes.mean().values.tolist() == [[0.75]]
    assert np.isnan(Sample(values=np.full((1, 2), np.nan), errors=np.zeros((1, 2, 4)), dof=3.0).mean().values)
    curve = curve_of("a", "layer", [0, 1, 2], points_of(holes), unit="sentence", n=4)
    assert curve.reasons == ("the similarity is undefined", None, None)


def test_the_reason_of_a_cell_is_that_of_the_points_made_of_it() -> None:
    values = np.array([[np.nan, 0.9], [0.8, 0.7]])
    one = Sample(
        values=values, errors=np.zeros((2, 2, 4)), dof=3.0, reasons=(("few rows", None), (None, None))
    )
    for found in (
        points_of(one),
        points_of(one.together()),
        points_of(one, one),
        points_of(apart(one, one)[0]),
    ):
        curve = curve_of("a", "layer", [0, 1], found, unit="sentence", n=4)
        assert curve.reasons == ("few rows", None)
    assert points_of(one.parts[0]).reasons == ("few rows", None)
    assert points_of(one.parts[-1]).reasons == (None, None)
    known = Sample(values=values[1:], errors=np.zeros((1, 2, 4)), dof=3.0)
    assert points_of(known, one.parts[0]).reasons == ("few rows", None)
    blank = Sample(
        values=np.full((1, 2), np.nan), errors=np.zeros((1, 2, 4)), dof=3.0, reasons=((None, "b"),)
    )
    assert points_of(blank.mean()).reasons == ("b",)
