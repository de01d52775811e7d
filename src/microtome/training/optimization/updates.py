"""What makes an update: its examples, learning rate and dropout, and AdamW."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...lazy import torch
from ...randomness import generator
from ..recipe import Recipe

# Number of updates whose examples are sorted by length together: enough for similar lengths, few enough to
# stay random.
BUCKET_UPDATES = 50
UNDECAYED = ("bias", "norm")
# After so many updates the bias corrections are exactly 1, and the float32 step count no longer grows.
SETTLED = 1e9


def example_batches(
    lengths: Sequence[int], *, batch: int, seed: int, bucket: bool = False, start: int = 0
) -> Iterator[np.ndarray]:
    """
    Yield the examples of each update, indefinitely.

    Parameters
    ----------
    lengths : sequence of int
        Number of tokens of each example.
    batch : int
        Number of examples per update; the last update of an epoch may have fewer.
    seed : int
    bucket : bool
        Whether examples of similar length share an update.
    start : int
        Number of updates to skip at the beginning, when a training is resumed.

    Yields
    ------
    ndarray of int of shape (examples,)
    """
    per_epoch = -(-len(lengths) // batch)
    epoch, skip = divmod(start, per_epoch)
    while True:
        yield from one_pass(lengths, batch=batch, seed=seed, epoch=epoch, bucket=bucket)[skip:]
        epoch, skip = epoch + 1, 0


def one_pass(
    lengths: Sequence[int], *, batch: int, seed: int, epoch: int, bucket: bool = False
) -> list[np.ndarray]:
    """
    Split one epoch over all examples into updates.

    Returns
    -------
    list of ndarray of int
    """
    rng = generator(seed, "order", epoch)
    shuffled = rng.permutation(len(lengths))
    if not bucket:
        return [shuffled[i : i + batch] for i in range(0, len(shuffled), batch)]
    token_counts = np.asarray(lengths)
    batches: list[np.ndarray] = []
    for begin in range(0, len(shuffled), BUCKET_UPDATES * batch):
        part = shuffled[begin : begin + BUCKET_UPDATES * batch]
        part = part[np.argsort(token_counts[part], kind="stable")]
        batches += [part[i : i + batch] for i in range(0, len(part), batch)]
    # The order of lengths is the same for all seeds: seeds trained as one model need no extra padding.
    return [batches[index] for index in generator(0, "lengths", epoch).permutation(len(batches))]


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


def set_rate(optimizer: Any, recipe: Recipe, update: int, updates: int) -> None:
    """
    Set the learning rate of an update.

    Parameters
    ----------
    optimizer : torch.optim.AdamW
    recipe : Recipe
    update : int
        Counted from 0.
    updates : int
    """
    rate = recipe.rate * recipe.factor(update, updates)
    for group in optimizer.param_groups:
        if isinstance(group["lr"], float):
            group["lr"] = rate
        else:
            group["lr"].fill_(rate)


def seed_dropout(seed: int, update: int) -> None:
    """Seed the dropout of an update, so that no random state has to be saved."""
    torch.manual_seed(int(generator(seed, "dropout", update).integers(2**62)))
