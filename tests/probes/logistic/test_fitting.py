"""Do features come to the same scale wherever that is done?"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.preprocessing import StandardScaler

from microtome.errors import InputError
from microtome.probes.logistic.fitting import chunks, on_scale, scale_of

NUMBERS = st.floats(-1e3, 1e3, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3)
LAYERS = arrays.arrays(np.float32, st.tuples(st.integers(2, 9), st.integers(1, 4)), elements=NUMBERS)


@given(LAYERS)
def test_both_ways_are_those_of_scikit_learn(layer: np.ndarray) -> None:
    scale, scaled = on_scale(layer, torch.device("cpu"), torch.float64)
    other = scale_of(layer)
    np.testing.assert_allclose(scale.mean, other.mean, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(scale.spread, other.spread, rtol=1e-9)
    wanted = StandardScaler().fit_transform(layer.astype(np.float64))
    varied = ~np.isclose(layer.std(0), 0, atol=1e-4)
    np.testing.assert_allclose(scaled.numpy()[:, varied], wanted[:, varied], atol=1e-6)
    ((_, part),) = chunks(layer, other)
    np.testing.assert_allclose(scaled.numpy(), part, atol=1e-6)


def test_what_is_no_number_is_refused_on_the_device_too() -> None:
    with pytest.raises(InputError, match="X must be finite"):
        on_scale(np.array([[1.0], [np.nan]]), torch.device("cpu"), torch.float32)
