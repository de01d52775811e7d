"""AdamW with or without bias correction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...lazy import torch
from ..recipe import Recipe

UNDECAYED = ("bias", "norm")
# After so many updates the bias corrections are exactly 1, and the float32 step count no longer grows.
SETTLED = 1e9


def make_optimizer(model: torch.nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """
    Make the optimizer of a recipe for all trainable weights.

    Parameters
    ----------
    model : Module
    recipe : Recipe

    Returns
    -------
    torch.optim.AdamW
        With two groups: weights that decay, and biases and norms, which do not decay.
    """
    decayed: list[Any] = []
    plain: list[Any] = []
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            (decayed if is_decayed(name, weight.ndim) else plain).append(weight)
    groups = [{"params": decayed, "weight_decay": recipe.decay}, {"params": plain, "weight_decay": 0.0}]
    # One fused kernel for all weights on a GPU; on the CPU the loop is as fast and simpler.
    return adamw(groups, recipe, fused=all(weight.is_cuda for weight in (*decayed, *plain)))


def is_decayed(name: str, axes: int) -> bool:
    """
    Whether a weight decays.

    Parameters
    ----------
    name : str
    axes : int
        Number of axes; vectors are biases and norms, whatever their names in a family.

    Returns
    -------
    bool
    """
    return axes >= 2 and not any(part in name.lower() for part in UNDECAYED)


def adamw(groups: Sequence[dict[str, Any]], recipe: Recipe, *, fused: bool) -> torch.optim.AdamW:
    """
    Make AdamW for groups of weights; on a GPU, such that CUDA graphs can capture its steps.

    Parameters
    ----------
    groups : sequence of dict
        With `params` and `weight_decay`; empty groups are left out.
    recipe : Recipe
    fused : bool
        Whether one fused kernel updates all weights.

    Returns
    -------
    torch.optim.AdamW
    """
    nonempty = [group for group in groups if group["params"]]
    capturable = fused and all(weight.is_cuda for group in nonempty for weight in group["params"])
    # Values that a CUDA graph reads at each step must be on the device.
    rate = torch.tensor(recipe.rate, device=nonempty[0]["params"][0].device) if capturable else recipe.rate
    optimizer = torch.optim.AdamW(
        nonempty, lr=rate, betas=recipe.betas, eps=recipe.epsilon, fused=fused, capturable=capturable
    )
    if not recipe.bias_correction:
        for weight in (weight for group in nonempty for weight in group["params"]):
            optimizer.state[weight] = {
                "step": torch.tensor(SETTLED, device=weight.device if fused else None),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }
    return optimizer


def set_rate(optimizer: Any, recipe: Recipe, update: int, updates: int) -> float:
    """
    Set the learning rate of an update.

    Parameters
    ----------
    optimizer : torch.optim.AdamW
        Made by `adamw`.
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
