"""Training of several small models of one shape as a single model, batched with vmap.

A GPU can launch only so many kernels per second, from however many processes they come, and a small model
needs a thousand of them per update and fills none. Models of one shape that learn the same task are therefore
stacked: each kernel then works for all of them. Each model learns what it would learn alone, up to rounding
and the dropout masks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...context import SILENT, Context
from ...errors import InputError
from ...lazy import LateModule, torch
from ..inputs import collate
from ..models.taskmodel import TaskModel, square_mask
from ..precision import training_kernels
from ..recipe import Recipe
from .cuda_graphs import LENGTHS, TrainingStep
from .loop import TrainingCourse, TrainingRecords, run_updates
from .updates import example_batches, is_decayed, seed_dropout

KINDS = ("classification", "regression")


def train_vectorized(
    models: Sequence[TaskModel],
    features: Sequence[Any],
    recipes: Sequence[Recipe],
    *,
    seeds: Sequence[int],
    longest: int,
    tf32: bool = False,
    context: Context = SILENT,
) -> list[TrainingCourse]:
    """
    Train several models as one, batched with vmap.

    Parameters
    ----------
    models : sequence of TaskModel
        Models of one shape, on one device; changed in place.
    features : sequence of Features
        Training examples, shared by all models.
    recipes : sequence of Recipe
        One per model; they may differ only in their learning rates.
    seeds : sequence of int
        Seeds of the order of the examples, one per model.
    longest : int
        Maximum number of tokens per example.
    tf32 : bool
        Whether matrix products on a GPU use TF32.
    context : Context

    Returns
    -------
    list of TrainingCourse
        One per model.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    recipe, device = recipes[0], models[0].device
    check_vectorized(models, recipes)
    tensors = collate(features, device, multiple=LENGTHS, longest=longest)
    lengths = np.array([len(feature) for feature in features])
    planned = recipe.updates(len(features))
    orders = [
        example_batches(lengths.tolist(), batch=recipe.batch, seed=seed, bucket=recipe.bucket)
        for seed in seeds
    ]
    for model in models:
        model.train()
    joined = Joined(models, recipe, [model_recipe.rate for model_recipe in recipes])
    kernel_context = training_kernels(device, tf32=tf32)
    histories: list[list[tuple[int, float]]] = [[] for _ in models]

    def losses_of(batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        losses = joined.losses(batch)
        return torch.cat([losses.sum()[None], losses.detach()])

    training_step = TrainingStep(
        losses_of, joined.weights, update=joined.update, capture=device.type == "cuda"
    )

    def step(update: int) -> list[torch.Tensor]:
        indices = np.stack([next(order) for order in orders])
        joined.set_rate(recipe.factor(update, planned))
        seed_dropout(seeds[0], update)
        batch = _batch(tensors, indices, int(lengths[indices].max()), longest)
        # Only the math implementation of attention can be batched with vmap.
        with kernel_context(), sdpa_kernel([SDPBackend.MATH]):
            return [training_step(batch)[1:]]

    def summarize(loss_sums: torch.Tensor, count: int, update: int) -> dict[str, float]:
        for history, mean in zip(histories, (loss_sums / count).tolist(), strict=True):
            history.append((update + 1, mean))
        return {}

    records = TrainingRecords(context=context, label="training, vectorized")
    course = run_updates(step, planned, records, summarize=summarize)
    joined.give_back(models)
    for model in models:
        model.eval()
    return [
        replace(course, losses=tuple(history), diverged=_diverged(history, planned)) for history in histories
    ]


def check_vectorized(models: Sequence[TaskModel], recipes: Sequence[Recipe]) -> None:
    """
    Raise an InputError if models cannot be trained as one.

    Parameters
    ----------
    models : sequence of TaskModel
    recipes : sequence of Recipe
    """
    first, recipe = models[0], recipes[0]
    if first.kind not in KINDS:
        raise InputError(
            f"the task of vectorized training must be {' or '.join(KINDS)}, but got {first.kind}."
        )
    shapes = [{name: weight.shape for name, weight in model.named_parameters()} for model in models]
    if any(shape != shapes[0] for shape in shapes) or len({type(model.net) for model in models}) > 1:
        raise InputError("models of vectorized training must have one shape, but these differ.")
    learning = [{n for n, weight in model.named_parameters() if weight.requires_grad} for model in models]
    if any(names != learning[0] for names in learning):
        raise InputError("models of vectorized training must learn in the same weights, but these do not.")
    if recipe.accumulate > 1:
        raise InputError(
            "vectorized training must make each update at once, but the recipe accumulates gradients."
        )
    values = [{**model_recipe.specification(), "rate": None} for model_recipe in recipes]
    if any(specification != values[0] for specification in values):
        raise InputError("recipes of vectorized training must be the same but for their rates.")


def _batch(
    tensors: Mapping[str, torch.Tensor], indices: np.ndarray, length: int, longest: int
) -> dict[str, torch.Tensor]:
    """Gather a batch of shape (models, examples, ...), cut to the length that its examples need."""
    ids = tensors["input_ids"]
    filled = min(-(-length // LENGTHS) * LENGTHS, max(longest, length), ids.shape[1])
    index = torch.from_numpy(indices).to(ids.device, non_blocking=True)
    return {
        name: value[index][..., :filled].contiguous() if value.ndim > 1 else value[index]
        for name, value in tensors.items()
    }


def _diverged(losses: Sequence[tuple[int, float]], planned: int) -> str | None:
    nonfinite = [update for update, loss in losses if not math.isfinite(loss)]
    return f"the loss was no number at update {nonfinite[0]} of {planned}" if nonfinite else None


class _Losing(LateModule):
    """A model whose forward pass returns its loss."""

    def __init__(self, model: TaskModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Compute the loss of a batch, shape ()."""
        # vmap does not support the check that the library would do with the smaller mask.
        square = square_mask(batch["attention_mask"], causal=self.model.family.causal)
        return self.model.loss(self.model({**batch, "square": square}), batch)


class Joined:
    """
    Stacked weights of several models of one shape, with their AdamW optimizer.

    Parameters
    ----------
    models : sequence of TaskModel
    recipe : Recipe
    rates : sequence of float
        Learning rates, one per model.
    """

    def __init__(self, models: Sequence[TaskModel], recipe: Recipe, rates: Sequence[float]) -> None:
        self._recipe, losing = recipe, [_Losing(model) for model in models]
        self._losing = losing[0]
        stacked, self._buffers = torch.func.stack_module_state(losing)
        learning = {name: weight for name, weight in stacked.items() if weight.requires_grad}
        self._frozen = {name: weight for name, weight in stacked.items() if name not in learning}
        self._names, device = list(learning), models[0].device
        # One row per model, so that one kernel updates all weights of all models.
        self._flat = torch.cat([weight.detach().flatten(1).float() for weight in learning.values()], dim=1)
        sizes = [weight[0].numel() for weight in learning.values()]
        ends = np.cumsum(sizes).tolist()
        self._parts = {
            name: slice(end - size, end) for name, size, end in zip(learning, sizes, ends, strict=True)
        }
        self.weights = [
            self._flat[:, self._parts[name]].view(weight.shape).detach().requires_grad_()
            for name, weight in learning.items()
        ]
        self._rates = torch.tensor(rates, device=device)[:, None]
        self._rate = self._rates.clone()
        decays = [
            recipe.decay if is_decayed(name, weight.ndim - 1) else 0.0 for name, weight in learning.items()
        ]
        self._decay = torch.tensor(decays).repeat_interleave(torch.tensor(sizes)).to(device)
        # Padding rows, which never learn; under vmap, torch respects that for the first model only.
        self._pads = {
            f"{name}.weight": module.padding_idx
            for name, module in self._losing.named_modules()
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None
        }
        self._first, self._second = torch.zeros_like(self._flat), torch.zeros_like(self._flat)
        self._count = torch.zeros((), device=device)

    def losses(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """
        Compute the loss of each model.

        Parameters
        ----------
        batch : mapping of str to Tensor of shape (models, examples, ...)

        Returns
        -------
        Tensor of shape (models,)
        """
        from torch.func import functional_call, vmap

        def loss_of(weights: Any, buffers: Any, inputs: Any) -> torch.Tensor:
            return functional_call(self._losing, (weights, buffers), (inputs,))

        weights = {**self._frozen, **dict(zip(self._names, self.weights, strict=True))}
        return vmap(loss_of, randomness="different")(weights, self._buffers, dict(batch))

    def set_rate(self, factor: float) -> None:
        """Set the learning rates of an update: each model's own rate times the factor of the schedule."""
        self._rate.copy_(self._rates * factor)

    def update(self) -> None:
        """Update all weights, each model with its own gradient clipping and learning rate."""
        recipe, (beta1, beta2) = self._recipe, self._recipe.betas
        with torch.no_grad():
            for name, weight in zip(self._names, self.weights, strict=True):
                if weight.grad is None:
                    # A weight without a gradient does not decay either.
                    self._decay[self._parts[name]] = 0.0
                elif name in self._pads:
                    weight.grad[:, self._pads[name]] = 0.0
            gradient = torch.cat(
                [
                    (torch.zeros_like(weight) if weight.grad is None else weight.grad).flatten(1)
                    for weight in self.weights
                ],
                dim=1,
            )
            if recipe.clip is not None:
                norms = gradient.norm(dim=1, keepdim=True)
                gradient *= (recipe.clip / (norms + 1e-6)).clamp(max=1.0)
            self._first.lerp_(gradient, 1 - beta1)
            self._second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            self._count += 1
            first, second = self._first, self._second
            if recipe.bias_correction:
                first, second = first / (1 - beta1**self._count), second / (1 - beta2**self._count)
            self._flat.mul_(1 - self._rate * self._decay)
            self._flat.sub_(self._rate * first / (second.sqrt() + recipe.epsilon))

    def give_back(self, models: Sequence[TaskModel]) -> None:
        """
        Copy the weights back into the models.

        Parameters
        ----------
        models : sequence of TaskModel
        """
        with torch.no_grad():
            for index, model in enumerate(models):
                for name, weight in _Losing(model).named_parameters():
                    if name in self._parts:
                        weight.copy_(self._flat[index, self._parts[name]].view(weight.shape))
