"""Context-independent token vectors of ELMo: the character CNN with its highway layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ...lazy import torch
from .characters import PADDING
from .layers import Weights, layer_norm

ACTIVATIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = MappingProxyType(
    {"relu": lambda x: x.relu(), "tanh": lambda x: x.tanh()}
)

# Words per batch of the filters: a wide model needs about 200 KB for each.
_AT_ONCE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterNetwork:
    """
    The options of the character CNN.

    Parameters
    ----------
    filters : tuple of (int, int)
        Width and number of the filters of each convolution.
    activation : str
        A name in `ACTIVATIONS`, applied after the maximum over positions.
    highways : int
    projection : {"before", "after", "none"}
        Whether the projection comes before or after the highways.
    norm : bool
        Whether a layer norm comes last.
    """

    filters: tuple[tuple[int, int], ...]
    activation: str
    highways: int
    projection: Literal["before", "after", "none"]
    norm: bool


def embed(network: CharacterNetwork, weights: Weights, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """
    Compute layer 0: the vector of each token, repeated for the two directions; zero where there is no token.

    Parameters
    ----------
    network : CharacterNetwork
    weights : mapping of str to tensor
        `characters` (262, size); for each convolution `filter_0` (filters, size, width) and
        `filter_bias_0`; for each highway `highway_0` (2 * features, features), the new value above the
        gate, and `highway_bias_0`; `projection` (features, filters) and `projection_bias`; `gamma`, `beta`.
    ids : integer tensor of shape (sentences, tokens, 50)
    mask : bool tensor of shape (sentences, tokens)

    Returns
    -------
    tensor of shape (sentences, tokens, 2 * features)
    """
    # Words repeat: each distinct word goes through the network once.
    words, which = torch.unique(ids[mask], dim=0, return_inverse=True)
    vectors = torch.cat([_vectors(network, weights, part) for part in words.split(_AT_ONCE)])[which]
    layer = vectors.new_zeros(*mask.shape, vectors.shape[-1]).masked_scatter(mask[..., None], vectors)
    return torch.cat([layer, layer], -1)


def _vectors(network: CharacterNetwork, weights: Weights, words: torch.Tensor) -> torch.Tensor:
    """Map words (words, 50) to vectors (words, features)."""
    functional = torch.nn.functional
    activation = ACTIVATIONS[network.activation]
    x = functional.embedding(_without_padding(network, words), weights["characters"])
    # A convolution as a matrix product over windows: on a GPU torch rounds the inputs of its own convolutions
    # to 10 bits (TF32), but not those of a matrix product.
    pooled = [
        functional.linear(
            x.unfold(1, width, 1).flatten(2), weights[f"filter_{i}"].flatten(1), weights[f"filter_bias_{i}"]
        ).amax(1)
        for i, (width, _) in enumerate(network.filters)
    ]
    x = activation(torch.cat(pooled, -1))
    if network.projection == "before":
        x = functional.linear(x, weights["projection"], weights["projection_bias"])
    for i in range(network.highways):
        new, gate = functional.linear(x, weights[f"highway_{i}"], weights[f"highway_bias_{i}"]).chunk(2, -1)
        carry = gate.sigmoid()
        x = carry * x + (1 - carry) * new.relu()
    if network.projection == "after":
        x = functional.linear(x, weights["projection"], weights["projection_bias"])
    return layer_norm(x, weights["gamma"], weights["beta"]) if network.norm else x


def _without_padding(network: CharacterNetwork, words: torch.Tensor) -> torch.Tensor:
    # All windows of padding alone have the same value: one of each width is enough.
    used = (words != PADDING).any(0).nonzero()
    widest = max(width for width, _ in network.filters)
    return words[:, : int(used[-1]) + 1 + widest] if len(used) else words
