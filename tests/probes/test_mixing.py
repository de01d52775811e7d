"""Does a probe read the layers it should, and what does its mix say?"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from microtome.probes.mixing import (
    INPUTS,
    Input,
    center_of_gravity,
    expected_layer,
    layers_read,
    mixed_rows,
    one_layer,
)


def test_named_inputs() -> None:
    named = {name: [(one.layers, one.mixed) for one in INPUTS[name](3)] for name in INPUTS}
    assert named == {
        "layers": [((0,), False), ((1,), False), ((2,), False)],
        "prefixes": [((0,), True), ((0, 1), True), ((0, 1, 2), True)],
        "mix": [((0, 1, 2), True)],
    }


def test_only_layers_that_are_read_are_taken() -> None:
    used, taken, mixed = layers_read([one_layer(4), Input(layers=(1, 4), mixed=True)])
    assert used == [1, 4]
    assert taken.tolist() == [[False, True], [True, True]]
    assert mixed is not None
    assert mixed.tolist() == [False, True]
    assert layers_read([one_layer(0)])[2] is None


@given(st.integers(1, 6), st.integers(0, 10))
def test_a_mix_is_gamma_times_a_weighted_mean_of_its_layers_alone(layers: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = [*INPUTS["prefixes"](layers), *INPUTS["layers"](layers)]
    _, taken, mixed = layers_read(inputs)
    scores = torch.from_numpy(rng.normal(size=(2, len(inputs), layers)))
    gamma = torch.from_numpy(rng.normal(size=(2, len(inputs), 1)))
    # Layers that are the axes of a space show how much of each is there.
    rows = torch.eye(layers, dtype=torch.float64)[None, :, None].expand(2, layers, 1, layers)
    found = mixed_rows(rows, scores, gamma, taken, mixed)[:, :, 0].numpy()
    for number, one in enumerate(inputs):
        inside = list(one.layers)
        grown = np.exp(scores.numpy()[:, number, inside])
        expected = grown / grown.sum(1, keepdims=True) * (gamma[:, number].numpy() if one.mixed else 1)
        np.testing.assert_allclose(found[:, number, inside], expected)
        assert not np.delete(found[:, number], inside, axis=1).any()


def test_center_of_gravity_and_expected_layer() -> None:
    assert center_of_gravity(np.eye(4)).tolist() == [0, 1, 2, 3]
    # All that is gained is gained at layer 2.
    assert expected_layer([[0.3, 0.3, 0.8, 0.8], [0.2, 0.2, 0.2, 0.2]]).tolist()[0] == pytest.approx(2)
    assert np.isnan(expected_layer([0.5, 0.5, 0.5]))
