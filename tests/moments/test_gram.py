from __future__ import annotations

import numpy as np
import pytest
import torch

from microtome.errors import InputError
from microtome.moments.gram import gram_products, turn
from microtome.moments.stack import make_stack, read_rows
from microtome.randomness import generator

CPU = torch.device("cpu")


def layers(n: int = 9) -> list[np.ndarray]:
    rng = generator(0, "test_turned")
    return [rng.normal(size=(n, w)) + 100 * rng.normal(size=w) for w in (20, 31)]


def test_turned_layers_have_the_same_inner_products() -> None:
    x = layers()
    x[0][:, 3] = 0.37
    stack, sumsq = turn(make_stack(x), dtype=torch.float64, device=CPU)
    assert stack.widths == (9, 9)
    assert stack.names == ("0", "1")
    for k, original in enumerate(x):
        z = original - original.mean(axis=0)
        rows = read_rows(stack, k, 0, 9, torch.float64, CPU)
        np.testing.assert_allclose(rows @ rows.T, z @ z.T, atol=1e-10)
        np.testing.assert_allclose(sumsq[k], (z**2).sum(axis=0), atol=1e-10)
    cross = read_rows(stack, 0, 0, 9, torch.float64, CPU).T @ read_rows(stack, 1, 0, 9, torch.float64, CPU)
    expected = np.linalg.svd((x[0] - x[0].mean(axis=0)).T @ (x[1] - x[1].mean(axis=0)), compute_uv=False)
    np.testing.assert_allclose(torch.linalg.svdvals(cross), expected[:9], atol=1e-9)


def test_chosen_rows_and_scales_are_taken_along() -> None:
    x = layers(30)[0]
    stack = make_stack([x]).take(np.arange(0, 30, 3))
    stack, _ = turn(stack, dtype=torch.float64, device=CPU)
    z = x[::3] - x[::3].mean(axis=0)
    rows = read_rows(stack, 0, 0, 10, torch.float64, CPU)
    np.testing.assert_allclose(rows @ rows.T, z @ z.T, atol=1e-10)


def test_a_value_that_is_not_finite_is_named() -> None:
    x = layers()
    x[1][7, 30] = np.nan
    with pytest.raises(InputError, match="layer 1 is NaN at row 7, feature 30"):
        turn(make_stack(x), dtype=torch.float32, device=CPU)


def test_a_constant_neuron_has_no_products() -> None:
    rng = generator(0, "constant neurons")
    varying = rng.normal(size=(60, 8)).astype(np.float32)
    varying[:, 3] = 0.1
    constant = np.tile(rng.normal(size=(1, 8)).astype(np.float32), (60, 1))
    gram = gram_products(
        [make_stack([varying, constant])],
        dtype=torch.float32,
        device=torch.device("cpu"),
        units=np.arange(60),
    )
    assert gram.sumsq[0][3] == 0
    assert not gram.frob2[1].any()
    assert gram.unit_products is not None
    assert not gram.unit_products[1].any()
