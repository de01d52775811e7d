"""Language models with the head of the checkpoint, and their mask tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...encoders.load_errors import one_sentence
from ...encoders.sentence import unpack
from ...errors import InputError
from ...lazy import torch
from .stock import made

if TYPE_CHECKING:
    from ...encoders.encoder import TransformerEncoder

_MASKS = ("[MASK]", "<mask>")


def language_model(
    encoder: TransformerEncoder, kind: Any, config: Any, *, seed: int
) -> tuple[torch.nn.Module, str]:
    """
    Make a model that predicts tokens.

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
    note : str
        Origin of its head.
    """
    net: Any = made(kind, config, encoder, seed=seed)
    base = f"{net.base_model_prefix}."
    tied = set(net.all_tied_weights_keys)
    names = {n for n, _ in net.named_parameters(remove_duplicate=False) if not n.startswith(base)} - tied
    state = {n: t for n, t in encoder.model.state_dict().items() if n in names}
    if names - set(state):
        state = _from_file(encoder, kind, names) or state
    net.load_state_dict(state, strict=False)
    missing = names - set(state)
    if not missing:
        return net, f"{kind.__name__} with the head of the checkpoint; nothing drawn"
    return net, f"{kind.__name__}, {len(missing)} tensors of its head drawn: the checkpoint has none"


def _from_file(encoder: TransformerEncoder, kind: Any, names: set[str]) -> dict[str, torch.Tensor] | None:
    """Read the head from the checkpoint of an encoder that was loaded without it."""
    if any("all weights re-initialized" in change for change in encoder.source.changes):
        return None
    path = unpack(encoder.source.given).model
    try:
        with one_sentence(path):
            net, report = kind.from_pretrained(
                path, revision=encoder.source.revision, output_loading_info=True
            )
    except InputError:
        return None
    missing = {str(key) for key in report.get("missing_keys", ())}
    return {n: t for n, t in net.state_dict().items() if n in names and n not in missing}


def mask_of(encoder: TransformerEncoder) -> int | None:
    """Find the mask token; None in causal models, and where the tokenizer has none."""
    if encoder.family.causal:
        return None
    added = json.loads(encoder.tokenizer.json).get("added_tokens") or ()
    return next((token["id"] for token in added if token["content"] in _MASKS), None)
