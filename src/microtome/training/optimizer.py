"""How do weights follow their gradients? AdamW, with or without its correction for the first updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .recipe import Recipe

if TYPE_CHECKING:
    import torch

UNDECAYED = ("bias", "norm")


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
    import torch

    decayed: list[Any] = []
    plain: list[Any] = []
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            # Vectors are biases and norms, whatever a family calls them.
            free = weight.ndim < 2 or any(part in name.lower() for part in UNDECAYED)
            (plain if free else decayed).append(weight)
    groups = [{"params": decayed, "weight_decay": recipe.decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=recipe.rate,
        betas=recipe.betas,
        eps=recipe.epsilon,
        # One kernel for all weights where the device has it; on the CPU the loop is as fast and plainer.
        fused=all(weight.is_cuda for weight in (*decayed, *plain)),
    )


def set_rate(optimizer: Any, recipe: Recipe, update: int, updates: int) -> float:
    """
    Set the learning rate of an update.

    Without bias correction, the first moments count as they are: rate, epsilon and decay are changed such
    that torch's corrections cancel.

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
        The rate as the recipe means it.
    """
    rate = recipe.rate * recipe.factor(update, updates)
    first, second = (1 - beta ** (update + 1) for beta in recipe.betas)
    scale = 1.0 if recipe.bias_correction else first / second**0.5
    for group in optimizer.param_groups:
        group["lr"] = rate * scale
        if not recipe.bias_correction:
            group["eps"] = recipe.epsilon / second**0.5
            if group["weight_decay"]:
                group["weight_decay"] = recipe.decay / scale
    return rate
