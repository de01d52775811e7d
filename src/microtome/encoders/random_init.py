"""Random re-initialization of an encoder: the same architecture without its training."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from ..errors import WorkError
from ..randomness import generator
from .encoder import digest_weights
from .family import submodule

if TYPE_CHECKING:
    import torch

    from .encoder import TransformerEncoder


def reinitialize(encoder: TransformerEncoder, *, seed: int, keep_embeddings: bool) -> str:
    """
    Re-initialize all weights of an encoder as the library initializes a new model.

    Parameters
    ----------
    encoder : TransformerEncoder
        Changed in place.
    seed : int
    keep_embeddings : bool
        Whether the embeddings keep their trained weights.

    Returns
    -------
    str
        A description of the change.
    """
    import torch

    before, kind = digest_weights(encoder.model), type(encoder.model)
    draw = int(generator(seed, "twin").integers(2**62))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw)
        fresh = kind(copy.deepcopy(encoder.config))
    embeddings = _parts(encoder, encoder.base) if keep_embeddings else {}
    encoder.model.load_state_dict(fresh.state_dict())
    _restore(encoder, embeddings)
    if digest_weights(encoder.model) == before:
        raise WorkError("a random baseline must differ from its model, but every weight stayed as it was.")
    return f"all weights re-initialized (seed {seed}){', embeddings kept' if keep_embeddings else ''}"


def _parts(encoder: TransformerEncoder, base: torch.nn.Module) -> dict[str, torch.Tensor]:
    tensors = {}
    for path in encoder.family.embeddings:
        if any(name == path for name, _ in base.named_modules()):
            for name, tensor in submodule(base, path).state_dict().items():
                tensors[f"{path}.{name}"] = tensor.clone()
    return tensors


def _restore(encoder: TransformerEncoder, tensors: dict[str, torch.Tensor]) -> None:
    import torch

    state = encoder.base.state_dict()
    with torch.no_grad():
        for name, tensor in tensors.items():
            state[name].copy_(tensor)
