"""Operations on the two directions of a layer: splitting, joining, linear maps and layer norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def halves(x: Tensor) -> Tensor:
    """
    Split a layer into its forward and its backward half.

    Parameters
    ----------
    x : tensor of shape (sentences, tokens, 2 * features)

    Returns
    -------
    tensor of shape (2, sentences, tokens, features)
    """
    return x.unflatten(-1, (2, -1)).movedim(-2, 0)


def joined(x: Tensor) -> Tensor:
    """
    Concatenate the halves of a layer: the inverse of `halves`.

    Parameters
    ----------
    x : tensor of shape (2, sentences, tokens, features)

    Returns
    -------
    tensor of shape (sentences, tokens, 2 * features)
    """
    return x.movedim(0, -2).flatten(-2)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """
    Multiply each direction by its own matrix.

    Parameters
    ----------
    x : tensor of shape (2, ..., inputs)
    weight : tensor of shape (2, inputs, outputs)
    bias : tensor of shape (2, outputs)

    Returns
    -------
    tensor of shape (2, ..., outputs)
    """
    import torch

    return torch.baddbmm(bias[:, None], x.flatten(1, -2), weight).unflatten(1, x.shape[1:-1])


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """
    Normalize as AllenNLP does: epsilon is added to the standard deviation; torch adds it to the variance.

    Parameters
    ----------
    x : tensor of shape (..., features)
    gamma, beta : tensor that broadcasts to x

    Returns
    -------
    tensor of the shape of x
    """
    centered = x - x.mean(-1, keepdim=True)
    return gamma * centered / (centered.square().mean(-1, keepdim=True).sqrt() + 1e-6) + beta
