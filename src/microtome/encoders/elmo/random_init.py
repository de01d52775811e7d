"""Random re-initialization of an ELMo, with the distributions of the published models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import WorkError
from ...randomness import generator
from ..encoder import digest_weights


def reinitialize(model: Any, *, seed: int, keep_embeddings: bool) -> str:
    """
    Re-initialize all weights of an ELMo.

    Character embeddings are uniform in [-1, 1] and their filters in [-0.05, 0.05]; highways and the
    projection are normal with variance 1 / inputs; matrices of the blocks are uniform as in Glorot and
    Bengio 2010; norms start at 1 and 0, biases at 0, and the biases of highway gates at 1.

    Parameters
    ----------
    model : ElmoModel
        Changed in place.
    seed : int
    keep_embeddings : bool
        Whether the character network keeps its trained weights.

    Returns
    -------
    str
        A description of the change.
    """
    import torch

    before = digest_weights(model)
    with torch.no_grad():
        for name, weight in model.state_dict().items():
            if keep_embeddings and name.startswith("embeddings."):
                continue
            values = _draw(name.rpartition(".")[2], tuple(weight.shape), generator(seed, "twin", name))
            weight.copy_(torch.from_numpy(values))
    if digest_weights(model) == before:
        raise WorkError("a random baseline must differ from its model, but every weight stayed as it was.")
    return f"all weights re-initialized (seed {seed}){', embeddings kept' if keep_embeddings else ''}"


def _draw(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw one tensor; matrices of the blocks have the shape (directions, inputs, outputs)."""
    if name.endswith("gamma"):
        return np.ones(shape)
    if name.startswith("highway_bias"):
        return np.repeat([0.0, 1.0], shape[0] // 2)
    if "bias" in name or name.endswith("beta"):
        return np.zeros(shape)
    if name == "characters":
        return rng.uniform(-1, 1, shape)
    if name.startswith("filter"):
        return rng.uniform(-0.05, 0.05, shape)
    if len(shape) == 2:
        return rng.normal(0, 1 / math.sqrt(shape[1]), shape)
    bound = math.sqrt(6 / (shape[-2] + shape[-1]))
    return rng.uniform(-bound, bound, shape)
