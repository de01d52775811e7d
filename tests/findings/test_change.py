from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microtome.errors import InputError
from microtome.findings.change import change_profile

similarities = st.lists(st.floats(-0.2, 0.99), min_size=1, max_size=30)


@given(similarities)
def test_center_is_the_weighted_mean_of_positions(values: list[float]) -> None:
    found = change_profile(values)
    weights = 1 - np.array(values)
    np.testing.assert_allclose(found.change, weights)
    assert found.center == pytest.approx(np.average(range(len(values)), weights=weights))
    assert -1e-9 <= found.top_third <= 1 + 1e-9


@given(st.integers(1, 40), st.floats(0.0, 0.99))
def test_equal_change_is_spread_evenly(layers: int, value: float) -> None:
    found = change_profile([value] * layers)
    assert found.top_third == pytest.approx(1 / 3)
    assert found.center == pytest.approx((layers - 1) / 2)


@given(similarities)
def test_a_fine_grid_gives_the_same_upper_third(values: list[float]) -> None:
    # Every layer cut into three slices: the upper third is then a whole number of slices.
    slices = np.repeat(1 - np.array(values), 3)
    expected = slices[len(slices) - len(values) :].sum() / slices.sum()
    assert change_profile(values).top_third == pytest.approx(expected)


def test_a_map_is_read_on_its_diagonal_with_its_bounds() -> None:
    values = np.full((3, 3), 0.1)
    np.fill_diagonal(values, [1.0, 0.9, 0.5])
    found = change_profile(values, values - 0.05, values + 0.02)
    np.testing.assert_allclose(found.change, [0, 0.1, 0.5])
    assert found.low is not None
    assert found.high is not None
    np.testing.assert_allclose(found.low, [-0.02, 0.08, 0.48])
    np.testing.assert_allclose(found.high, [0.05, 0.15, 0.55])
    assert found.center == pytest.approx((0.1 * 1 + 0.5 * 2) / 0.6)
    assert found.top_third == pytest.approx(0.5 / 0.6)


def test_an_undefined_layer_is_left_out_and_named() -> None:
    found = change_profile([np.nan, 0.9, 0.9, 0.6])
    assert found.left_out == (0,)
    assert found.center == pytest.approx((0.1 + 0.2 + 1.2) / 0.6)
    assert found.top_third == pytest.approx(0.4 / 0.6)
    said = found.sentence(["m/0", "m/1", "m/2", "m/3"])
    assert said == (
        "Layer m/3 changed most (0.40); the center of change is at 2.5 (layers from 1 to 3), and the "
        "upper third holds 67 % of the change (50 % if every block added as much). Left out as undefined: "
        "layer m/0."
    )


@pytest.mark.parametrize("depth", [6, 12])
def test_what_equal_steps_would_put_into_the_upper_third_is_told(depth: int) -> None:
    steps = change_profile(1 - np.linspace(0, 0.5, depth + 1))
    assert steps.even == pytest.approx(steps.top_third)
    assert f"{100 * steps.even:.0f} % if every block added as much" in steps.sentence()


def test_a_small_change_is_not_said_to_be_none() -> None:
    said = change_profile([1.0, 0.99987, 0.99629]).sentence()
    assert said.startswith("Layer 2 changed most (0.0037); the center")


def test_layers_may_stand_elsewhere() -> None:
    assert change_profile([0.9, 0.9], positions=[3, 12]).center == pytest.approx(7.5)


def test_without_change_there_is_no_center() -> None:
    found = change_profile([1.0, 1.0, 1 + 1e-12])
    assert np.isnan(found.center)
    assert found.sentence() == "The center of change is undefined: no layer changed."
    assert change_profile([np.nan] * 2).reason == "no layer has a defined similarity"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([1.2, 0.5],), "a similarity must be at most 1, but got 1.2"),
        ((np.ones((2, 3)),), "the shape of before_after"),
        (([0.5, 0.5], [0.4, 0.4]), "low and high must be given together"),
        (([0.5, 0.5], [0.4], [0.6]), "one value per layer"),
    ],
)
def test_bad_input_is_told(arguments: tuple, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        change_profile(*arguments)


def test_positions_must_increase() -> None:
    with pytest.raises(InputError, match="increasing order"):
        change_profile([0.5, 0.5], positions=[2, 1])
