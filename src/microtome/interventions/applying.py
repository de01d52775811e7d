"""How is an encoder changed? On a copy, one intervention after the other, each checked by hashes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from ..encoders.encoder import TransformerEncoder
from ..errors import InputError, must
from .hashing import account, fingerprint
from .table import INTERVENTIONS

if TYPE_CHECKING:
    from ..encoders.encoder import Encoder
    from .declare import Intervention


def apply(encoder: Encoder, *interventions: Intervention) -> TransformerEncoder:
    """
    Change a copy of an encoder.

    Interventions are applied in the order in which they are given, each to what the one before it left:
    blocks are counted anew after some were taken out. What was done is told in `source.changes`, a
    sentence each with the number of tensors that changed.

    Parameters
    ----------
    encoder : Encoder
        A model of transformers. It stays as it is.
    *interventions : Intervention
        Such as `Truncate(keep=8)`.

    Returns
    -------
    TransformerEncoder
        With the same name and tokenizer, and with its head where it has one.

    Raises
    ------
    InputError
        Where an intervention does not fit the model, or the family cannot do it.
    WorkError
        Where other tensors changed than should have.
    """
    if not isinstance(encoder, TransformerEncoder):
        told = getattr(encoder, "name", repr(encoder))
        family = getattr(getattr(encoder, "family", None), "title", type(encoder).__name__)
        raise InputError(f"{told} must be a model of transformers to be changed, but it is: {family}.")
    for each in interventions:
        if isinstance(each, type) or not hasattr(each, "edit"):
            known = ", ".join(kind.__name__ for kind in INTERVENTIONS.values())
            raise must("an intervention", f"one of {known}, with its options", each)
    # The model alone: a family's read-only tables cannot be copied along.
    found = _like(encoder, copy.deepcopy(encoder.model).eval())
    seen = fingerprint(found.model)
    for each in interventions:
        change = each.edit(found)
        now = fingerprint(found.model)
        said = account(seen, now, change)
        # Made anew, since an encoder remembers its list of blocks.
        found, seen = _like(found, found.model, said), now
    return found


def _like(encoder: TransformerEncoder, model: object, *said: str) -> TransformerEncoder:
    return TransformerEncoder(
        name=encoder.name,
        family=encoder.family,
        model=model,  # pyright: ignore[reportArgumentType]
        tokenizer=encoder.tokenizer,
        source=replace(encoder.source, changes=(*encoder.source.changes, *said)),
        autocast=encoder.autocast,
    )
