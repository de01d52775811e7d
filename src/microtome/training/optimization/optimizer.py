"""AdamW with or without bias correction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...lazy import torch
from ..recipe import Recipe

UNDECAYED = ("bias", "norm")
# After so many updates the bias corrections are exactly 1, and the float32 step count no longer grows.
SETTLED = 1e9


def make_optimizer(
    weights: Mapping[str, torch.Tensor], recipe: Recipe, *, stacked: bool = False
) -> torch.optim.AdamW:
    """
    Make the optimizer of a recipe for all trainable weights; on a GPU CUDA graphs can capture its steps.

    Parameters
    ----------
    weights : mapping of str to Tensor
        By name.
    recipe : Recipe
    stacked : bool
        Whether the first axis of each weight goes over models.

    Returns
    -------
    torch.optim.AdamW
        With two groups: weights that decay, and biases and norms, which do not decay.
    """
    learning = {name: weight for name, weight in weights.items() if weight.requires_grad}
    decayed = {name for name, weight in learning.items() if is_decayed(name, weight.ndim - stacked)}
    groups = [
        {"params": [learning[name] for name in learning if name in decayed], "weight_decay": recipe.decay},
        {"params": [learning[name] for name in learning if name not in decayed], "weight_decay": 0.0},
    ]
    on_gpu = all(weight.is_cuda for weight in learning.values())
    # One fused kernel for all weights on a GPU, and for weights that are large together; for others the loop
    # is as fast on the CPU, and simpler.
    fused = on_gpu or stacked
    # Values that a CUDA graph reads at each step must be on the device.
    device = next(iter(learning.values())).device
    rate = torch.tensor(recipe.rate, device=device) if on_gpu else recipe.rate
    optimizer = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=rate,
        betas=recipe.betas,
        eps=recipe.epsilon,
        fused=fused,
        capturable=on_gpu,
    )
    if not recipe.bias_correction:
        for weight in learning.values():
            optimizer.state[weight] = {
                "step": torch.tensor(SETTLED, device=weight.device if fused else None),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }
    return optimizer


def is_decayed(name: str, axes: int) -> bool:
    """Whether a weight decays; vectors are biases and norms, whatever their names in a family."""
    return axes >= 2 and not any(part in name.lower() for part in UNDECAYED)


def set_rate(optimizer: Any, recipe: Recipe, update: int, updates: int) -> float:
    """
    Set the learning rate of an update.

    Parameters
    ----------
    optimizer : torch.optim.AdamW
    recipe : Recipe
    update : int
        Counted from 0.
    updates : int

    Returns
    -------
    float
    """
    rate = recipe.rate * recipe.factor(update, updates)
    for group in optimizer.param_groups:
        if isinstance(group["lr"], float):
            group["lr"] = rate
        else:
            group["lr"].fill_(rate)
    return rate
