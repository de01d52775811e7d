"""How does a model come by its language-modeling head? From the checkpoint, and else it is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..encoders.sentence import unpack
from ..encoders.telling import telling
from ..errors import InputError
from .stock import made

if TYPE_CHECKING:
    import torch

    from ..encoders.encoder import TransformerEncoder

_MASKS = ("[MASK]", "<mask>")


def language_model(
    encoder: TransformerEncoder, kind: Any, config: Any, *, seed: int
) -> tuple[torch.nn.Module, str]:
    """
    Make the model that says which token stands where.

    Parameters
    ----------
    encoder : TransformerEncoder
    kind : type
        The library's class.
    config : transformers.PretrainedConfig
    seed : int
        For weights that the checkpoint does not have.

    Returns
    -------
    net : torch.nn.Module
    said : str
        Where its head came from.
    """
    net: Any = made(kind, config, encoder, seed=seed)
    base = f"{net.base_model_prefix}."
    tied = set(net.all_tied_weights_keys)
    wanted = {n for n, _ in net.named_parameters(remove_duplicate=False) if not n.startswith(base)} - tied
    state = {n: t for n, t in encoder.model.state_dict().items() if n in wanted}
    if wanted - set(state):
        state = _from_file(encoder, kind, wanted) or state
    net.load_state_dict(state, strict=False)
    lost = wanted - set(state)
    if not lost:
        return net, f"{kind.__name__} with the head of the checkpoint; nothing drawn"
    return net, f"{kind.__name__}, {len(lost)} tensors of its head drawn: the checkpoint has none"


def _from_file(encoder: TransformerEncoder, kind: Any, wanted: set[str]) -> dict[str, torch.Tensor] | None:
    """Find a head that was left in the file when the encoder was loaded without it."""
    if any("drawn anew" in change for change in encoder.source.changes):
        return None
    place = unpack(encoder.source.given).model
    try:
        with telling(place):
            net, report = kind.from_pretrained(
                place, revision=encoder.source.revision, output_loading_info=True
            )
    except InputError:
        return None
    lost = {str(key) for key in report.get("missing_keys", ())}
    return {n: t for n, t in net.state_dict().items() if n in wanted and n not in lost}


def mask_of(encoder: TransformerEncoder) -> int | None:
    """Find the token that hides another one; None in causal models, and where the tokenizer has none."""
    if encoder.family.causal:
        return None
    added = json.loads(encoder.tokenizer.json).get("added_tokens") or ()
    return next((each["id"] for each in added if each["content"] in _MASKS), None)
