"""Table of interventions, and their application to a copy of an encoder, checked by tensor hashes."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..arguments import checked
from ..encoders.encoder import TransformerEncoder
from ..errors import InputError, WorkError, must
from ..lazy import torch
from .blocks import Freeze, Permute, Skip, Truncate
from .declare import Change
from .reinit import Reinit

if TYPE_CHECKING:
    from ..encoders.encoder import Encoder
    from .declare import Intervention

INTERVENTIONS: Mapping[str, type] = MappingProxyType(
    {"truncate": Truncate, "skip": Skip, "freeze": Freeze, "reinit": Reinit, "permute": Permute}
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """
    The hashes of a model's tensors and the names of its frozen parameters.

    Parameters
    ----------
    hashes : dict of str to str
        A hash of the type, shape and bits of every tensor, by its name in the model.
    frozen : frozenset of str
        Parameters that are not trained.
    """

    hashes: dict[str, str]
    frozen: frozenset[str]


def fingerprint(model: torch.nn.Module) -> Fingerprint:
    """Hash every tensor of a model."""
    hashes = {name: _hash(tensor) for name, tensor in model.state_dict().items()}
    parameters = model.named_parameters(remove_duplicate=False)
    return Fingerprint(
        hashes=hashes, frozen=frozenset(name for name, parameter in parameters if not parameter.requires_grad)
    )


def account(before: Fingerprint, after: Fingerprint, change: Change) -> str:
    """
    Check an edit against the hashes, and describe what changed.

    Parameters
    ----------
    before, after : Fingerprint
    change : Change
        What the edit declares to have changed.

    Returns
    -------
    str
        The edit and the number of tensors that it changed, left out or froze.

    Raises
    ------
    WorkError
        If a tensor is unchanged that should have changed, or changed that should not have.
    """
    names = {name: name for name in before.hashes} if change.names is None else dict(change.names)
    wrong = set(names) ^ set(after.hashes)
    _demand_none(change, "leave the tensors that it names", wrong)
    changed = {name for name, old in names.items() if after.hashes[name] != before.hashes[old]}
    stayed = change.reinitialized - changed
    _demand_none(change, "change every tensor that it draws", stayed)
    unexpected = changed - change.reinitialized - change.touched
    _demand_none(change, "change nothing else", unexpected)
    carried = {name for name, old in names.items() if old in before.frozen} | change.frozen
    mismatched = carried ^ after.frozen
    _demand_none(change, "freeze what it names and nothing else", mismatched)
    total, gone = len(before.hashes), len(before.hashes) - len(names)
    counts = f"{len(changed)} of {total} tensors changed" if changed else "no tensor changed"
    if gone:
        counts = f"{gone} of {total} tensors left out, {counts}"
    if change.frozen:
        counts = f"{len(change.frozen)} of {total} tensors frozen, {counts}"
    return f"{change.description}: {counts}"


def _demand_none(change: Change, requirement: str, names: Collection[str]) -> None:
    """Raise an error that names a tensor for which a requirement does not hold."""
    if names:
        raise WorkError(f"an edit ({change.description}) must {requirement}, but {min(names)} is not so.")


def _hash(tensor: torch.Tensor) -> str:
    digest = hashlib.sha256(f"{tensor.dtype}|{tuple(tensor.shape)}|".encode())
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return digest.hexdigest()
