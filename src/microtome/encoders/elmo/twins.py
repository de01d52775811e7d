"""How are the weights of a new ELMo drawn? As those who trained the published ones drew theirs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import WorkError, must
from ...randomness import generator
from ..encoder import digest_weights


def draw_anew(model: Any, *, seed: int, keep_embeddings: bool) -> str:
    """
    Draw all weights of an ELMo as those of a new one.

    Letters are uniform within 1 and their filters within 0.05, highways and the projection after them
    normal with the variance 1 / inputs, everything in the blocks uniform as Glorot and Bengio 2010 have
    it; norms begin at 1 and 0, biases at 0, and the gates of highways half open.

    Parameters
    ----------
    model : ElmoModel
        Changed in place.
    seed : int
    keep_embeddings : bool
        Whether what turns letters into vectors stays as it was trained.

    Returns
    -------
    str
        What was done, in words.
    """
    import torch

    if not isinstance(seed, int) or seed < 0:
        raise must("seed", "a whole number of at least 0", seed)
    before = digest_weights(model)
    with torch.no_grad():
        for name, weight in model.state_dict().items():
            if keep_embeddings and name.startswith("embeddings."):
                continue
            drawn = _draw(name.rpartition(".")[2], tuple(weight.shape), generator(seed, "twin", name))
            weight.copy_(torch.from_numpy(drawn))
    if digest_weights(model) == before:
        raise WorkError("a random twin must differ from its model, but every weight stayed as it was.")
    return f"all weights drawn anew (seed {seed}){', embeddings kept' if keep_embeddings else ''}"


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
