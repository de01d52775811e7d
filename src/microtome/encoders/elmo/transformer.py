"""The bidirectional Transformer layer of ELMo, its final norm and its positional encoding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .bilstm import Memory
from .directions import halves, joined, layer_norm, linear

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class BiTransformer:
    """
    The options of a layer.

    Parameters
    ----------
    heads : int
        Always 8 in the released code; its configuration does not record it.
    """

    heads: int = 8


def bitransformer(
    options: BiTransformer,
    weights: Mapping[str, Tensor],
    x: Tensor,
    mask: Tensor,
    memory: Memory | None = None,
) -> Tensor:
    """
    Run one pre-norm block in each direction; a token attends to itself and those before it.

    Parameters
    ----------
    options : BiTransformer
    weights : mapping of str to tensor
        `query`, `key`, `value`, `output` (2, features, features), `inner` (2, features, hidden), `outer`
        (2, hidden, features), each with its `_bias`; `attention_gamma`, `attention_beta`,
        `feedforward_gamma`, `feedforward_beta` (2, features); forward before backward.
    x : tensor of shape (sentences, tokens, 2 * features)
    mask : bool tensor of shape (sentences, tokens)
        A sentence's tokens come first.
    memory : None
        Ignored: a block of this kind has no state.

    Returns
    -------
    tensor of shape (sentences, tokens, 2 * features)
        Arbitrary where there is no token.
    """
    x = halves(x)
    x = x + _attention(options, weights, _normed(x, weights, "attention"), _visible(mask))
    inner = linear(_normed(x, weights, "feedforward"), weights["inner"], weights["inner_bias"]).relu()
    return joined(x + linear(inner, weights["outer"], weights["outer_bias"]))


def _normed(x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
    gamma, beta = weights[f"{name}_gamma"], weights[f"{name}_beta"]
    return layer_norm(x, gamma[:, None, None], beta[:, None, None])


def _visible(mask: Tensor) -> Tensor:
    """Build the attention mask: bool of shape (2, sentences, 1, tokens, tokens), keys on the last axis."""
    import torch

    ahead = (
        mask[:, :, None]
        & torch.ones(mask.shape[1], mask.shape[1], dtype=torch.bool, device=mask.device).tril()
    )
    return torch.stack([ahead, ahead.mT])[:, :, None]


def _attention(options: BiTransformer, weights: Mapping[str, Tensor], x: Tensor, visible: Tensor) -> Tensor:
    import torch

    def heads(name: str) -> Tensor:  # (2, sentences, heads, tokens, features of a head)
        return (
            linear(x, weights[name], weights[f"{name}_bias"])
            .unflatten(-1, (options.heads, -1))
            .transpose(2, 3)
        )

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    # Padding attends to nothing: a large finite number instead of infinity keeps its rows defined.
    scores = scores.masked_fill(~visible, max(-1e9, torch.finfo(scores.dtype).min))
    mixed = (scores.softmax(-1) @ value).transpose(2, 3).flatten(-2)
    return linear(mixed, weights["output"], weights["output_bias"])


def final_norm(options: None, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """
    Normalize each half of the last layer, as the released model does.

    Parameters
    ----------
    options : None
    weights : mapping of str to tensor
        `final_gamma`, `final_beta` (2, features).
    x : tensor of shape (sentences, tokens, 2 * features)

    Returns
    -------
    tensor of the shape of x
    """
    return joined(_normed(halves(x), weights, "final"))


def with_positions(x: Tensor) -> Tensor:
    """
    Add sinusoidal position encodings, counted from the left, to both halves of layer 0.

    Parameters
    ----------
    x : tensor of shape (sentences, tokens, 2 * features)

    Returns
    -------
    tensor of the shape of x
    """
    import torch

    features = x.shape[-1] // 2
    position = torch.arange(x.shape[1], dtype=torch.float32, device=x.device)[:, None]
    even = torch.arange(0, features, 2, dtype=torch.float32, device=x.device)
    angle = position * torch.exp(even * (-math.log(10000.0) / features))
    wave = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2).to(x.dtype)
    return x + torch.cat([wave, wave], -1)
