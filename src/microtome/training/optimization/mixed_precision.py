"""The loss of a training batch, with a mask and weights prepared once instead of in every block."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ...lazy import torch
from ..models.taskmodel import TaskModel, square_mask


def training_loss(model: TaskModel, batch: Mapping[str, torch.Tensor], *, half: bool) -> torch.Tensor:
    """
    Compute the loss of a batch as autocast does, in fewer kernels.

    Parameters
    ----------
    model : TaskModel
    batch : mapping of str to Tensor
    half : bool
        Whether matrix products are in bfloat16. The weights of linear layers are cast together then, and so
        are their gradients.

    Returns
    -------
    Tensor of shape ()
    """
    inputs, dtype = dict(batch), torch.bfloat16 if half else torch.float32
    if not model.by_choice and model.config._attn_implementation == "sdpa":
        # Each block would turn a boolean mask into this one.
        square = square_mask(batch["attention_mask"].flatten(0, -2), causal=model.family.causal)
        inputs["square"] = torch.where(square, 0.0, float("-inf")).to(dtype)
    if not half:
        return model.loss(model(inputs), inputs)
    weights = linear_weights(model)
    with torch.autocast(batch["input_ids"].device.type, dtype=dtype, cache_enabled=False):
        cast = dict(zip(weights, _casting().apply(*weights.values()), strict=True))
        return model.loss(torch.func.functional_call(model, cast, (inputs,)), inputs)


def linear_weights(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """
    List the weights and biases that only linear layers read.

    Parameters
    ----------
    model : Module

    Returns
    -------
    dict of str to Parameter
        By name; tied weights once.
    """
    others = {
        id(weight)
        for module in model.modules()
        if type(module) is not torch.nn.Linear
        for weight in module.parameters(recurse=False)
    }
    linear = {
        id(weight)
        for module in model.modules()
        if type(module) is torch.nn.Linear
        for weight in module.parameters(recurse=False)
    }
    return {name: weight for name, weight in model.named_parameters() if id(weight) in linear - others}


@functools.cache
def _casting() -> Any:
    """Make the function that casts tensors together; torch is imported late."""

    class Cast(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
            # A weight that is not used has no gradient, instead of zeros, which would let it decay.
            ctx.set_materialize_grads(False)
            return tuple(_cast(weights, torch.bfloat16))

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
            cast = iter(_cast([gradient for gradient in gradients if gradient is not None], torch.float32))
            return tuple(None if gradient is None else next(cast) for gradient in gradients)

    return Cast


def _cast(tensors: Any, dtype: torch.dtype) -> list[torch.Tensor]:
    copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    if copies:
        torch._foreach_copy_(copies, list(tensors))  # pyright: ignore[reportPrivateImportUsage]
    return copies
