"""What is an intervention? Options, and an edit that says beforehand which tensors it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..encoders.encoder import TransformerEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """
    What an edit did, to be held against the hashes of all tensors before and after.

    Parameters
    ----------
    said : str
        What was done, in words, for `Source.changes`.
    names : mapping of str to str, optional
        Where each tensor of the model comes from: its name now, and its name before. All tensors keep
        their names when absent.
    redrawn : frozenset of str
        Tensors whose bits must differ now.
    touched : frozenset of str
        Tensors whose bits may differ, beside the redrawn ones.
    frozen : frozenset of str
        Parameters that must not learn from now on.
    """

    said: str
    names: Mapping[str, str] | None = None
    redrawn: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    frozen: frozenset[str] = frozenset()


class Intervention(Protocol):
    """Options of a change to an encoder, which `apply` makes on a copy."""

    def edit(self, encoder: TransformerEncoder) -> Change:
        """
        Change an encoder in place.

        Parameters
        ----------
        encoder : TransformerEncoder
            A copy that nobody else holds. Its list of blocks is to be read before they are edited.

        Returns
        -------
        Change
            What was meant to happen; `apply` checks that it did, and nothing else.
        """
        ...
