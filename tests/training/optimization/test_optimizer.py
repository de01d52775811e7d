"""Do weights move as AdamW, with and without correction, would move them?"""

from __future__ import annotations

import pytest
import torch

from microtome.training.optimization.optimizer import make_optimizer, set_rate
from microtome.training.recipe import Recipe, find_recipe


def moved(recipe: Recipe, updates: int) -> torch.Tensor:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    optimizer = make_optimizer(dict(layer.named_parameters()), recipe)
    for update in range(updates):
        set_rate(optimizer, recipe, update, updates)
        layer.weight.grad = torch.full_like(layer.weight, 0.1 * (update + 1))
        layer.bias.grad = torch.full_like(layer.bias, -0.2)
        optimizer.step()
    return torch.cat([layer.weight.detach().flatten(), layer.bias.detach()])


def by_hand(recipe: Recipe, updates: int) -> torch.Tensor:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    weights = [layer.weight.detach().double().clone(), layer.bias.detach().double().clone()]
    first = [torch.zeros_like(w) for w in weights]
    second = [torch.zeros_like(w) for w in weights]
    for update in range(updates):
        rate = recipe.rate * recipe.factor(update, updates)
        for k, gradient in enumerate((0.1 * (update + 1), -0.2)):
            weights[k] *= 1 - rate * (recipe.decay if k == 0 else 0.0)
            first[k] = recipe.betas[0] * first[k] + (1 - recipe.betas[0]) * gradient
            second[k] = recipe.betas[1] * second[k] + (1 - recipe.betas[1]) * gradient**2
            m, v = first[k], second[k]
            if recipe.bias_correction:
                m = m / (1 - recipe.betas[0] ** (update + 1))
                v = v / (1 - recipe.betas[1] ** (update + 1))
            weights[k] -= rate * m / (v.sqrt() + recipe.epsilon)
    return torch.cat([weights[0].flatten(), weights[1]]).float()


@pytest.mark.parametrize("name", ["phang2021", "wu2020", "devlin2019"])
def test_updates_are_those_of_the_formula(name: str) -> None:
    recipe = find_recipe(name, rate=1e-2, decay=0.1, warmup=0.25)
    torch.testing.assert_close(moved(recipe, 12), by_hand(recipe, 12), atol=2e-6, rtol=1e-5)


def test_frozen_weights_and_norms() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
    model[0].requires_grad_(False)
    optimizer = make_optimizer(dict(model.named_parameters()), find_recipe("phang2021"))
    decayed, plain = optimizer.param_groups
    assert [tuple(w.shape) for w in decayed["params"]] == [(2, 4)]
    assert [tuple(w.shape) for w in plain["params"]] == [(4,), (4,), (2,)]
