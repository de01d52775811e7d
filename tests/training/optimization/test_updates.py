"""Do weights move as AdamW, with and without correction, would move them?"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from microtome.training.optimization.updates import example_batches, make_optimizer, one_pass, set_rate
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


LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=400)


@given(lengths=LENGTHS, batch=st.integers(1, 40), seed=st.integers(0, 9), bucket=st.booleans())
def test_a_pass_sees_each_example_once(lengths: list[int], batch: int, seed: int, bucket: bool) -> None:
    found = one_pass(lengths, batch=batch, seed=seed, epoch=0, bucket=bucket)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(lengths)))
    assert len(found) == -(-len(lengths) // batch)
    assert all(len(one) <= batch for one in found)


@given(lengths=LENGTHS, batch=st.integers(1, 40), start=st.integers(0, 60), bucket=st.booleans())
def test_a_resumed_order_goes_on_as_it_would_have(
    lengths: list[int], batch: int, start: int, bucket: bool
) -> None:
    whole = itertools.islice(example_batches(lengths, batch=batch, seed=1, bucket=bucket), start, start + 5)
    rest = itertools.islice(example_batches(lengths, batch=batch, seed=1, bucket=bucket, start=start), 5)
    for one, other in zip(whole, rest, strict=True):
        assert one.tolist() == other.tolist()


def test_seeds_and_passes_differ() -> None:
    lengths = [1] * 100
    orders = [
        np.concatenate(one_pass(lengths, batch=8, seed=seed, epoch=epoch)).tolist()
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]


def test_like_lengths_share_an_update() -> None:
    lengths = np.random.default_rng(0).integers(5, 128, 2_000).tolist()

    def padded(bucket: bool) -> int:
        found = one_pass(lengths, batch=16, seed=0, epoch=0, bucket=bucket)
        return sum(len(one) * max(lengths[i] for i in one) for one in found)

    assert padded(True) < 1.1 * sum(lengths)
    assert padded(False) > 1.6 * sum(lengths)


@given(lengths=LENGTHS, batch=st.integers(1, 40))
def test_seeds_have_updates_of_one_size_and_of_like_lengths(lengths: list[int], batch: int) -> None:
    both = [one_pass(lengths, batch=batch, seed=seed, epoch=0, bucket=True) for seed in (0, 1)]
    assert [len(one) for one in both[0]] == [len(one) for one in both[1]]
    if len(lengths) <= 50 * batch:
        longest = [[max(lengths[i] for i in one) for one in each] for each in both]
        assert longest[0] == longest[1]
