"""Are the two directions of a layer taken apart, worked on and normed as they should be?"""

from __future__ import annotations

import torch

from microtome.encoders.elmo.model import halves, joined, layer_norm, linear


def test_halves_are_forward_and_backward() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    apart = halves(x)
    assert apart.shape == (2, 2, 3, 2)
    assert torch.equal(apart[0], x[..., :2])
    assert torch.equal(apart[1], x[..., 2:])
    assert torch.equal(joined(apart), x)


def test_each_direction_has_its_own_matrix() -> None:
    x = torch.arange(12.0).reshape(2, 1, 3, 2)
    weight, bias = torch.stack([torch.eye(2), 2 * torch.eye(2)]), torch.tensor([[0.0, 0.0], [1.0, -1.0]])
    y = linear(x, weight, bias)
    assert torch.equal(y[0], x[0])
    assert torch.equal(y[1], 2 * x[1] + bias[1])


def test_epsilon_joins_the_standard_deviation() -> None:
    # The norm of torch, with epsilon beside the variance, would give 0.001 here and not 0.5.
    x = torch.tensor([[0.0, 2e-6], [3.0, 3.0]], dtype=torch.float64)
    y = layer_norm(x, torch.tensor([2.0, 1.0]), torch.tensor([0.0, 5.0]))
    torch.testing.assert_close(y, torch.tensor([[-1.0, 5.5], [0.0, 5.0]], dtype=torch.float64))
