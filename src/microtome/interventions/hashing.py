"""Did an edit change what it should, and nothing else? Hashes of all tensors before and after tell."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import WorkError
from .declare import Change

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """
    What a model is made of.

    Parameters
    ----------
    hashes : dict of str to str
        Of every tensor, by its name in the model: its type, shape and bits.
    frozen : frozenset of str
        Parameters that do not learn.
    """

    hashes: dict[str, str]
    frozen: frozenset[str]


def fingerprint(model: torch.nn.Module) -> Fingerprint:
    """Hash every tensor of a model."""
    hashes = {name: _hash(tensor) for name, tensor in model.state_dict().items()}
    parameters = model.named_parameters(remove_duplicate=False)
    return Fingerprint(
        hashes=hashes, frozen=frozenset(name for name, each in parameters if not each.requires_grad)
    )


def account(before: Fingerprint, after: Fingerprint, change: Change) -> str:
    """
    Hold an edit against the hashes, and tell what changed.

    Parameters
    ----------
    before, after : Fingerprint
    change : Change
        What was meant to happen.

    Returns
    -------
    str
        What was done and how many tensors changed, were left out or are frozen by it.

    Raises
    ------
    WorkError
        Where a tensor stayed that should have changed, or changed that should have stayed.
    """
    names = {name: name for name in before.hashes} if change.names is None else dict(change.names)
    wrong = set(names) ^ set(after.hashes)
    _demand(not wrong, change, "leave the tensors that it names", wrong)
    changed = {name for name, old in names.items() if after.hashes[name] != before.hashes[old]}
    stayed = change.redrawn - changed
    _demand(not stayed, change, "change every tensor that it draws", stayed)
    others = changed - change.redrawn - change.touched
    _demand(not others, change, "change nothing else", others)
    carried = {name for name, old in names.items() if old in before.frozen} | change.frozen
    unlike = carried ^ after.frozen
    _demand(not unlike, change, "freeze what it names and nothing else", unlike)
    total, gone = len(before.hashes), len(before.hashes) - len(names)
    told = f"{len(changed)} of {total} tensors changed" if changed else "no tensor changed"
    if gone:
        told = f"{gone} of {total} tensors left out, {told}"
    if change.frozen:
        told = f"{len(change.frozen)} of {total} tensors frozen, {told}"
    return f"{change.said}: {told}"


def _demand(holds: bool, change: Change, wanted: str, names: Iterable[str]) -> None:
    if not holds:
        raise WorkError(f"an edit ({change.said}) must {wanted}, but {min(names)} is not so.")


def _hash(tensor: torch.Tensor) -> str:
    import torch

    found = hashlib.sha256(f"{tensor.dtype}|{tuple(tensor.shape)}|".encode())
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    found.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return found.hexdigest()
