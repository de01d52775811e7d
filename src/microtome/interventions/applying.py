"""Application of interventions to a copy of an encoder, each checked by tensor hashes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from ..arguments import checked
from ..encoders.encoder import TransformerEncoder
from ..errors import InputError, must
from .hashing import account, fingerprint
from .table import INTERVENTIONS

if TYPE_CHECKING:
    from ..encoders.encoder import Encoder
    from .declare import Intervention


@checked
def apply(encoder: Encoder, *interventions: Intervention) -> TransformerEncoder:
    """
    Change a copy of an encoder.

    Interventions are applied in the order in which they are given, each to the model that the previous one
    left: blocks are renumbered after some are removed. Each change is described in `source.changes` by one
    sentence with the number of tensors that changed.

    Parameters
    ----------
    encoder : Encoder
        A model of transformers. It is not modified.
    *interventions : Intervention
        Such as `Truncate(keep=8)`.

    Returns
    -------
    TransformerEncoder
        A changed copy with the same name and tokenizer, and with its head where it has one.

    Raises
    ------
    InputError
        If an intervention does not fit the model, or the family does not support it.
    WorkError
        If tensors changed other than those that should have.

    Examples
    --------
    >>> import microtome as mt
    >>> shallow = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> shallow.depth
    2
    """
    if not isinstance(encoder, TransformerEncoder):
        name = getattr(encoder, "name", repr(encoder))
        family = getattr(getattr(encoder, "family", None), "title", type(encoder).__name__)
        raise InputError(f"{name} must be a model of transformers to be changed, but it is: {family}.")
    for intervention in interventions:
        if isinstance(intervention, type) or not hasattr(intervention, "edit"):
            names = ", ".join(kind.__name__ for kind in INTERVENTIONS.values())
            raise must("an intervention", f"one of {names}, with its options", intervention)
    # Only the model is copied: a family's read-only tables cannot be deep-copied.
    edited = _like(encoder, copy.deepcopy(encoder.model).eval())
    before = fingerprint(edited.model)
    for intervention in interventions:
        change = intervention.edit(edited)
        after = fingerprint(edited.model)
        summary = account(before, after, change)
        # A new encoder, since an encoder caches its list of blocks.
        edited, before = _like(edited, edited.model, summary), after
    return edited


def _like(encoder: TransformerEncoder, model: object, *changes: str) -> TransformerEncoder:
    return TransformerEncoder(
        name=encoder.name,
        family=encoder.family,
        model=model,  # pyright: ignore[reportArgumentType]
        tokenizer=encoder.tokenizer,
        source=replace(encoder.source, changes=(*encoder.source.changes, *changes)),
        autocast=encoder.autocast,
    )
