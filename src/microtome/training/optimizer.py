"""How do weights follow their gradients? AdamW, with or without its correction for the first updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .recipe import Recipe

if TYPE_CHECKING:
    import torch

UNDECAYED = ("bias", "norm")
# After so many updates, the corrections for the first ones are 1 to the last bit, and counting adds nothing.
SETTLED = 1e9


def make_optimizer(model: torch.nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """
    Make the optimizer of a recipe for all weights that are to be trained.

    Parameters
    ----------
    model : Module
    recipe : Recipe

    Returns
    -------
    torch.optim.AdamW
        With two groups: weights that decay, and biases and norms, which do not.
    """
    decayed: list[Any] = []
    plain: list[Any] = []
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            (decayed if is_decayed(name, weight.ndim) else plain).append(weight)
    groups = [{"params": decayed, "weight_decay": recipe.decay}, {"params": plain, "weight_decay": 0.0}]
    # One kernel for all weights where the device has it; on the CPU the loop is as fast and plainer.
    return adamw(groups, recipe, fused=all(weight.is_cuda for weight in (*decayed, *plain)))


def is_decayed(name: str, axes: int) -> bool:
    """
    Whether a weight decays.

    Parameters
    ----------
    name : str
    axes : int
        Vectors are biases and norms, whatever a family calls them.

    Returns
    -------
    bool
    """
    return axes >= 2 and not any(part in name.lower() for part in UNDECAYED)


def adamw(groups: Sequence[dict[str, Any]], recipe: Recipe, *, fused: bool) -> torch.optim.AdamW:
    """
    Make AdamW for groups of weights; on a GPU, such that its steps can be recorded.

    Parameters
    ----------
    groups : sequence of dict
        With `params` and `weight_decay`; empty ones are left out.
    recipe : Recipe
    fused : bool
        Whether all weights are updated in one sweep.

    Returns
    -------
    torch.optim.AdamW
    """
    import torch

    given = [group for group in groups if group["params"]]
    recorded = fused and all(weight.is_cuda for group in given for weight in group["params"])
    # What a recording reads again at each step must lie on the device.
    rate = torch.tensor(recipe.rate, device=given[0]["params"][0].device) if recorded else recipe.rate
    optimizer = torch.optim.AdamW(
        given, lr=rate, betas=recipe.betas, eps=recipe.epsilon, fused=fused, capturable=recorded
    )
    if not recipe.bias_correction:
        for weight in (weight for group in given for weight in group["params"]):
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
        Of `adamw`.
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
