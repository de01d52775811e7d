"""The interface of interventions, and the record of the tensors that an edit changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..encoders.encoder import TransformerEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """
    What an edit did, to be checked against the hashes of all tensors before and after it.

    Parameters
    ----------
    description : str
        A description of the edit in words, for `Source.changes`.
    names : mapping of str to str, optional
        The name of each tensor before the edit, by its name after it. All tensors keep their names when
        absent.
    reinitialized : frozenset of str
        Tensors whose bits must differ after the edit.
    touched : frozenset of str
        Tensors whose bits may differ, besides the reinitialized ones.
    frozen : frozenset of str
        Parameters that are not trained after the edit.
    """

    description: str
    names: Mapping[str, str] | None = None
    reinitialized: frozenset[str] = frozenset()
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
            A copy with no other references. Its list of blocks must be read before they are edited.

        Returns
        -------
        Change
            What the edit declares to have changed; `apply` checks that this and nothing else changed.
        """
        ...
