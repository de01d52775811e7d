"""Inputs of probes: single layers, or scalar mixes of several layers with learned weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..lazy import torch

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """
    Input of a probe: a layer, or a mix of layers.

    Parameters
    ----------
    layers : tuple of int
        Indices of the layers, ascending.
    mixed : bool
        Whether the layers are mixed with learned weights; otherwise a single layer is read unchanged.
    """

    layers: tuple[int, ...]
    mixed: bool = False


def one_layer(layer: int) -> Input:
    """Input of a single layer."""
    return Input(layers=(layer,))


def mix_up_to(layer: int) -> Input:
    """Input of the mix of all layers from 0 up to `layer`."""
    return Input(layers=tuple(range(layer + 1)), mixed=True)


INPUTS: Mapping[str, Callable[[int], tuple[Input, ...]]] = MappingProxyType(
    {
        "layers": lambda count: tuple(one_layer(layer) for layer in range(count)),
        "prefixes": lambda count: tuple(mix_up_to(layer) for layer in range(count)),
        "mix": lambda count: (mix_up_to(count - 1),),
    }
)


def layers_read(
    inputs: Sequence[Input], device: Any = "cpu"
) -> tuple[list[int], torch.Tensor, torch.Tensor | None]:
    """
    Layers needed by a set of probes, and which of them each probe reads.

    Returns
    -------
    used : list of int
        Layers that any probe reads, ascending.
    taken : Tensor of bool of shape (inputs, used layers)
    mixed : Tensor of bool of shape (inputs,), or None where nothing is mixed
    """
    used = sorted({layer for probe_input in inputs for layer in probe_input.layers})
    taken = torch.tensor(
        [[layer in probe_input.layers for layer in used] for probe_input in inputs], device=device
    )
    mixed = torch.tensor([probe_input.mixed for probe_input in inputs], device=device)
    return used, taken, mixed if any(probe_input.mixed for probe_input in inputs) else None


def mixed_rows(
    rows: torch.Tensor,
    scores: torch.Tensor,
    gamma: torch.Tensor,
    taken: torch.Tensor,
    mixed: torch.Tensor | None,
) -> torch.Tensor:
    """
    Compute the input rows of each probe: the mix gamma softmax(scores) of its layers, or its single layer.

    Parameters
    ----------
    rows : Tensor of shape (sets, layers, rows, features)
    scores : Tensor of shape (sets, probes, layers)
    gamma : Tensor of shape (sets, probes, 1)
    taken, mixed
        As returned by `layers_read`.

    Returns
    -------
    Tensor of shape (sets, probes, rows, features)

    References
    ----------
    Peters et al. (2018), Deep contextualized word representations, N18-1202
    """
    if mixed is None:
        return rows.index_select(1, taken.int().argmax(1))
    shares = gamma * scores.masked_fill(~taken, -torch.inf).softmax(-1)
    shares = torch.where(mixed[:, None], shares, taken.to(shares.dtype))
    return (shares @ rows.flatten(2)).unflatten(-1, tuple(rows.shape[2:]))


def center_of_gravity(shares: ArrayLike) -> Array:
    """
    Mean layer of a mix, weighted by its softmax weights.

    Parameters
    ----------
    shares : array_like of shape (..., layers)
        Softmax weights.

    Returns
    -------
    ndarray of shape (...)

    References
    ----------
    Tenney et al. (2019), BERT Rediscovers the Classical NLP Pipeline, P19-1452

    Examples
    --------
    >>> float(center_of_gravity([0.25, 0.25, 0.5]))
    1.25
    """
    weights = np.asarray(shares, dtype=np.float64)
    return weights @ np.arange(weights.shape[-1])


def expected_layer(scores: ArrayLike) -> Array:
    """
    Expected layer at which a task is solved: the mean layer, weighted by its increment of the score.

    Parameters
    ----------
    scores : array_like of shape (..., layers)
        Scores of probes that read layers 0..l, for every l.

    Returns
    -------
    ndarray of shape (...)
        NaN where the layers above 0 add nothing in total. May lie outside the range of layers where some
        increments are negative.

    References
    ----------
    Tenney et al. (2019), BERT Rediscovers the Classical NLP Pipeline, P19-1452

    Examples
    --------
    >>> round(float(expected_layer([0.5, 0.7, 0.9])), 6)
    1.5
    """
    added = np.diff(np.asarray(scores, dtype=np.float64), axis=-1)
    total = added.sum(-1)
    weighted = added @ np.arange(1, added.shape[-1] + 1)
    return np.divide(weighted, total, out=np.full(np.shape(total), np.nan), where=total != 0)
