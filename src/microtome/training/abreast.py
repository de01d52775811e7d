"""How do several small models share a GPU? Abreast: as one model whose products have one more axis.

A GPU can start only so many kernels a second, from however many processes they come, and a small model needs
a thousand of them for an update and fills none. Models of one shape that learn the same task are therefore
put into one: each kernel then works for all of them. What each learns is what it would learn alone, but for
rounding and for the draws of dropout.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encoders.elmo.latemodule import LateModule
from ..errors import InputError
from ..randomness import generator
from .loop import LOG_UPDATES, Course, kernels
from .optimizer import is_decayed
from .order import updates as in_updates
from .recipe import Recipe
from .replay import Replay
from .taskmodel import TaskModel

if TYPE_CHECKING:
    import torch

# Lengths are filled up to a multiple of this, so that shapes come again.
LENGTHS = 16
KINDS = ("classification", "regression")


def train_abreast(
    models: Sequence[TaskModel],
    features: Sequence[Any],
    recipes: Sequence[Recipe],
    *,
    seeds: Sequence[int],
    longest: int,
    rounded: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Course]:
    """
    Train models as one.

    Parameters
    ----------
    models : sequence of TaskModel
        Of one shape, on one device; changed in place.
    features : sequence of Features
        Examples, which all of them learn from.
    recipes : sequence of Recipe
        One for each; they may differ in their rates.
    seeds : sequence of int
        Of the order of the examples, one for each.
    longest : int
        Tokens of an example at most.
    rounded : bool
        Whether products on a GPU round what is multiplied (TF32).
    progress : callable, optional
        Called with what is done, how much of it, and of how much.

    Returns
    -------
    list of Course
        One for each.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    recipe, device = recipes[0], models[0].device
    check_abreast(models, recipes)
    from .inputs import collate

    whole = collate(features, device, multiple=LENGTHS, longest=longest)
    lengths = np.array([len(each) for each in features])
    planned = recipe.updates(len(features))
    orders = [
        in_updates(lengths.tolist(), batch=recipe.batch, seed=seed, bucket=recipe.bucket) for seed in seeds
    ]
    for model in models:
        model.train()
    joined = Joined(models, recipe, [each.rate for each in recipes])
    choosing = kernels(device, rounded)

    def wrong(batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        each = joined.losses(batch)
        return torch.cat([each.sum()[None], each.detach()])

    played = Replay(wrong, joined.weights, None, joined.step) if device.type == "cuda" else None
    start, since = time.monotonic(), 0
    recent = torch.zeros(len(models), device=device)
    losses: list[list[tuple[int, float]]] = [[] for _ in models]
    for update in range(planned):
        chosen = np.stack([next(order) for order in orders])
        joined.set_rate(recipe.factor(update, planned))
        torch.manual_seed(int(generator(seeds[0], "dropout", update).integers(2**62)))
        batch = _batch(whole, chosen, int(lengths[chosen].max()), longest)
        # Attention in its parts: only these know of one axis more.
        with choosing(), sdpa_kernel([SDPBackend.MATH]):
            if played is not None:
                recent += played(batch)[1:]
            else:
                joined.forget()
                found = wrong(batch)
                found[0].backward()
                joined.step()
                recent += found[1:].detach()
        since += 1
        if (update + 1) % LOG_UPDATES == 0 or update + 1 == planned:
            for each, mean in zip(losses, (recent / since).tolist(), strict=True):
                each.append((update + 1, mean))
            recent.zero_()
            since = 0
        if progress is not None:
            progress("training abreast", update + 1, planned)
    joined.give_back(models)
    for model in models:
        model.eval()
    spent = time.monotonic() - start
    return [
        Course(
            updates=planned,
            planned=planned,
            seconds=spent,
            resumed=0,
            losses=tuple(each),
            diverged=_diverged(each, planned),
        )
        for each in losses
    ]


def check_abreast(models: Sequence[TaskModel], recipes: Sequence[Recipe]) -> None:
    """
    Say in a sentence why models cannot be trained as one, where they cannot.

    Parameters
    ----------
    models : sequence of TaskModel
    recipes : sequence of Recipe
    """
    first, recipe = models[0], recipes[0]
    if first.kind not in KINDS:
        raise InputError(f"a task of models abreast must be {' or '.join(KINDS)}, but got {first.kind}.")
    shapes = [{name: weight.shape for name, weight in model.named_parameters()} for model in models]
    if any(each != shapes[0] for each in shapes) or len({type(model.net) for model in models}) > 1:
        raise InputError("models that are trained abreast must have one shape, but these differ.")
    learning = [{n for n, weight in model.named_parameters() if weight.requires_grad} for model in models]
    if any(each != learning[0] for each in learning):
        raise InputError("models that are trained abreast must learn in the same weights, but these do not.")
    if recipe.accumulate > 1:
        raise InputError("models abreast must make each update whole, but it is to be made in parts.")
    values = [{**each.specification(), "rate": None} for each in recipes]
    if any(each != values[0] for each in values):
        raise InputError("recipes of models abreast must be the same but for their rates.")


def _batch(
    whole: Mapping[str, torch.Tensor], chosen: np.ndarray, length: int, longest: int
) -> dict[str, torch.Tensor]:
    """Take examples of shape (models, examples), cut to the length that they need."""
    import torch

    ids = whole["input_ids"]
    filled = min(-(-length // LENGTHS) * LENGTHS, max(longest, length), ids.shape[1])
    places = torch.from_numpy(chosen).to(ids.device, non_blocking=True)
    return {
        name: value[places][..., :filled].contiguous() if value.ndim > 1 else value[places]
        for name, value in whole.items()
    }


def _diverged(losses: Sequence[tuple[int, float]], planned: int) -> str | None:
    wrong = [update for update, loss in losses if not math.isfinite(loss)]
    return f"the loss was no number at update {wrong[0]} of {planned}" if wrong else None


class _Losing(LateModule):
    """A model whose forward pass ends with its loss."""

    def __init__(self, model: TaskModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Find the loss of a batch, shape ()."""
        import torch

        kept = batch["attention_mask"].bool()
        # Whole, one row for each token: making it out of a row asks whether anything is padded at all,
        # which several models at once cannot answer.
        square = kept[:, None, None, :].expand(-1, 1, kept.shape[1], -1)
        if self.model.family.causal:
            square = square & torch.ones_like(square[0, 0]).tril()
        return self.model.loss(self.model({**batch, "square": square}), batch)


class Joined:
    """
    Owns the weights of several models of one shape, and their AdamW.

    Parameters
    ----------
    models : sequence of TaskModel
    recipe : Recipe
    rates : sequence of float
        Learning rates, one for each model.
    """

    def __init__(self, models: Sequence[TaskModel], recipe: Recipe, rates: Sequence[float]) -> None:
        import torch

        self._recipe, self._losing = recipe, _Losing(models[0])
        whole = [dict(_Losing(model).named_parameters()) for model in models]
        named = [{name: one for name, one in each.items() if one.requires_grad} for each in whole]
        still = [name for name in whole[0] if name not in named[0]]
        self._still = {name: torch.stack([each[name].detach() for each in whole]) for name in still}
        self._names = list(named[0])
        shapes = {name: weight.shape for name, weight in named[0].items()}
        ends = np.cumsum([0, *(shape.numel() for shape in shapes.values())])
        device, count = models[0].device, len(models)
        # One row a model: what is done to all weights of all models is one kernel.
        self._flat = torch.cat(
            [
                torch.cat([each[name].detach().flatten() for name in self._names])[None].float()
                for each in named
            ]
        )
        self._parts = {
            name: slice(int(a), int(b)) for name, a, b in zip(shapes, ends, ends[1:], strict=False)
        }
        self.weights = [
            self._flat[:, self._parts[name]].view(count, *shape).detach().requires_grad_()
            for name, shape in shapes.items()
        ]
        self._buffers = {
            name: torch.stack([dict(_Losing(model).named_buffers())[name] for model in models])
            for name, _ in self._losing.named_buffers()
        }
        self._rates = torch.tensor(rates, device=device)[:, None]
        self._rate = self._rates.clone()
        self._decay = torch.cat(
            [
                torch.full((shape.numel(),), recipe.decay if is_decayed(name, len(shape)) else 0.0)
                for name, shape in shapes.items()
            ]
        ).to(device)
        # Rows that never learn; of several models at once, torch minds that for the first one only.
        self._pads = {
            f"{name}.weight": module.padding_idx
            for name, module in self._losing.named_modules()
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None
        }
        self._first, self._second = torch.zeros_like(self._flat), torch.zeros_like(self._flat)
        self._count = torch.zeros((), device=device)

    def losses(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """
        Find the loss of each model.

        Parameters
        ----------
        batch : mapping of str to Tensor of shape (models, examples, ...)

        Returns
        -------
        Tensor of shape (models,)
        """
        from torch.func import functional_call, vmap

        def one(weights: Any, buffers: Any, given: Any) -> torch.Tensor:
            return functional_call(self._losing, (weights, buffers), (given,))

        weights = {**self._still, **dict(zip(self._names, self.weights, strict=True))}
        return vmap(one, randomness="different")(weights, self._buffers, dict(batch))

    def set_rate(self, factor: float) -> None:
        """Set the rates of an update: each model's own times what the schedule says."""
        self._rate.copy_(self._rates * factor)

    def forget(self) -> None:
        """Drop the gradients."""
        for weight in self.weights:
            weight.grad = None

    def step(self) -> None:
        """Move all weights, each model with its own clipping and rate."""
        import torch

        recipe, (slow, slower) = self._recipe, self._recipe.betas
        with torch.no_grad():
            for name, weight in zip(self._names, self.weights, strict=True):
                if weight.grad is None:
                    # Nothing is learned here, so nothing decays either.
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
            self._first.lerp_(gradient, 1 - slow)
            self._second.mul_(slower).addcmul_(gradient, gradient, value=1 - slower)
            self._count += 1
            first, second = self._first, self._second
            if recipe.bias_correction:
                first, second = first / (1 - slow**self._count), second / (1 - slower**self._count)
            self._flat.mul_(1 - self._rate * self._decay)
            self._flat.sub_(self._rate * first / (second.sqrt() + recipe.epsilon))

    def give_back(self, models: Sequence[TaskModel]) -> None:
        """
        Put the weights into the models.

        Parameters
        ----------
        models : sequence of TaskModel
        """
        import torch

        with torch.no_grad():
            for place, model in enumerate(models):
                for name, weight in _Losing(model).named_parameters():
                    if name in self._parts:
                        weight.copy_(self._flat[place, self._parts[name]].view(weight.shape))
