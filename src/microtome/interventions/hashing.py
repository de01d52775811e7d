"""Hashes of all tensors before and after an edit, and the check that only the declared ones changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import WorkError
from ..lazy import torch
from .declare import Change


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
    _demand(not wrong, change, "leave the tensors that it names", wrong)
    changed = {name for name, old in names.items() if after.hashes[name] != before.hashes[old]}
    stayed = change.reinitialized - changed
    _demand(not stayed, change, "change every tensor that it draws", stayed)
    unexpected = changed - change.reinitialized - change.touched
    _demand(not unexpected, change, "change nothing else", unexpected)
    carried = {name for name, old in names.items() if old in before.frozen} | change.frozen
    mismatched = carried ^ after.frozen
    _demand(not mismatched, change, "freeze what it names and nothing else", mismatched)
    total, gone = len(before.hashes), len(before.hashes) - len(names)
    counts = f"{len(changed)} of {total} tensors changed" if changed else "no tensor changed"
    if gone:
        counts = f"{gone} of {total} tensors left out, {counts}"
    if change.frozen:
        counts = f"{len(change.frozen)} of {total} tensors frozen, {counts}"
    return f"{change.description}: {counts}"


def _demand(holds: bool, change: Change, requirement: str, names: Iterable[str]) -> None:
    if not holds:
        raise WorkError(f"an edit ({change.description}) must {requirement}, but {min(names)} is not so.")


def _hash(tensor: torch.Tensor) -> str:
    digest = hashlib.sha256(f"{tensor.dtype}|{tuple(tensor.shape)}|".encode())
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return digest.hexdigest()
