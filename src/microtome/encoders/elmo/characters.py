"""Characters of ELMo: their ids, the mask of the real tokens, and the CNN that makes vectors of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...errors import InputError, must
from ...lazy import torch

Weights = Mapping[str, "torch.Tensor"]

ACTIVATIONS = ("relu", "tanh")  # functions of torch

# Words per batch of the filters: a wide model needs about 200 KB for each.
_AT_ONCE = 512

WORD = 50  # ids of a token
CHARACTERS = 262  # rows of a table of characters: 0 for "no token", then the 261 ids below, each plus one
SENTENCE_BEGIN, SENTENCE_END, WORD_BEGIN, WORD_END, PADDING = 257, 258, 259, 260, 261
BEGIN, END = "<S>", "</S>"


def character_ids(sentences: Sequence[Sequence[str]]) -> torch.Tensor:
    """
    Encode sentences as the character ids that every ELMo reads.

    A token is its UTF-8 bytes, at most 48 of them, between markers of its begin and end. Each sentence gets a
    token for its begin and one for its end; the words `<S>` and `</S>` mean these same tokens.

    Parameters
    ----------
    sentences : sequence of sequences of str
        The words of each sentence; a sentence may be empty.

    Returns
    -------
    int64 tensor of shape (sentences, longest + 2, 50)
        Positions after a sentence's end are 0.

    Examples
    --------
    >>> ids = character_ids([["Hi", "!"], []])
    >>> ids.shape
    torch.Size([2, 4, 50])
    >>> ids[0, 1, :5].tolist()
    [259, 73, 106, 260, 261]
    """
    for sentence in sentences:
        _check_sentence(sentence)
    longest = max((len(sentence) for sentence in sentences), default=0)
    ids = np.zeros((len(sentences), longest + 2, WORD), dtype=np.int64)
    spellings: dict[str, list[int]] = {}
    for row, sentence in zip(ids, sentences, strict=True):
        for token_ids, word in zip(row, [BEGIN, *sentence, END], strict=False):
            if word not in spellings:
                spellings[word] = _word_ids(word)
            token_ids[:] = spellings[word]
    return torch.from_numpy(ids)


def _check_sentence(sentence: object) -> None:
    if isinstance(sentence, str) or not isinstance(sentence, Sequence):
        raise must("each of the sentences", "a list of words", sentence)
    for word in sentence:
        if not isinstance(word, str):
            raise must("each word of the sentences", "a string", word)


def _word_ids(word: str) -> list[int]:
    if word in (BEGIN, END):
        middle = [SENTENCE_BEGIN if word == BEGIN else SENTENCE_END]
    else:
        # A lone surrogate has no bytes in UTF-8; the released code drops it too.
        middle = [byte + 1 for byte in word.encode("utf-8", "ignore")[: WORD - 2]]
    ids = [WORD_BEGIN, *middle, WORD_END]
    return ids + [PADDING] * (WORD - len(ids))


def real_tokens(ids: torch.Tensor) -> torch.Tensor:
    """
    Return the mask of the positions that hold a token; raise if the ids are not character ids.

    Parameters
    ----------
    ids : integer tensor of shape (sentences, tokens, 50)

    Returns
    -------
    bool tensor of shape (sentences, tokens)
    """
    if ids.ndim != 3 or ids.shape[-1] != WORD:
        raise must("ids", f"of the shape (sentences, tokens, {WORD})", tuple(ids.shape))
    if ids.is_floating_point() or ids.is_complex():
        raise must("ids", "whole numbers", str(ids.dtype))
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < CHARACTERS:
        wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
        raise must("ids", f"between 0 and {CHARACTERS - 1}", wrong)
    mask = (ids > 0).any(-1)
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        raise InputError(
            "ids must be padded after a sentence's last token, but got an empty token before it."
        )
    return mask


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterNetwork:
    """
    The options of the character CNN.

    Parameters
    ----------
    filters : list of (int, int)
        Width and number of the filters of each convolution.
    activation : str
        A name in `ACTIVATIONS`, applied after the maximum over positions.
    highways : int
    projection : {"before", "after", "none"}
        Whether the projection comes before or after the highways.
    norm : bool
        Whether a layer norm comes last.
    """

    filters: list[tuple[int, int]]
    activation: str
    highways: int
    projection: Literal["before", "after", "none"]
    norm: bool


def embed(
    weights: Weights, ids: torch.Tensor, mask: torch.Tensor, *, network: CharacterNetwork
) -> torch.Tensor:
    """
    Compute layer 0: the vector of each token, repeated for the two directions; zero where there is no token.

    Parameters
    ----------
    weights : mapping of str to tensor
        `characters` (262, size); for each convolution `filter_0` (filters, size, width) and
        `filter_bias_0`; for each highway `highway_0` (2 * features, features), the new value above the
        gate, and `highway_bias_0`; `projection` (features, filters) and `projection_bias`; `gamma`, `beta`.
    ids : integer tensor of shape (sentences, tokens, 50)
    mask : bool tensor of shape (sentences, tokens)
    network : CharacterNetwork

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
    x = functional.embedding(_without_padding(network, words), weights["characters"])
    # A convolution as a matrix product over windows: on a GPU torch rounds the inputs of its own convolutions
    # to 10 bits (TF32), but not those of a matrix product.
    pooled = [
        functional.linear(
            x.unfold(1, width, 1).flatten(2), weights[f"filter_{i}"].flatten(1), weights[f"filter_bias_{i}"]
        ).amax(1)
        for i, (width, _) in enumerate(network.filters)
    ]
    x = getattr(torch, network.activation)(torch.cat(pooled, -1))
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


def layer_norm(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
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
