"""Removal of blocks from an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..encoders.cutting import check_numbers
from .choosing import named, numbers
from .declare import Change
from .recomposing import recompose

if TYPE_CHECKING:
    from ..encoders.encoder import TransformerEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """
    Remove blocks at any depth.

    The remaining blocks are renumbered from 1. A block that all layers share is run fewer times.

    Parameters
    ----------
    blocks : tuple of int
        The blocks to remove, numbered from 1.
    """

    blocks: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", numbers("blocks", self.blocks))

    def edit(self, encoder: TransformerEncoder) -> Change:
        """Remove the blocks in place."""
        check_numbers("blocks", self.blocks, encoder.depth)
        depth = encoder.depth
        remaining = tuple(block for block in range(1, depth + 1) if block not in self.blocks)
        return Change(
            description=f"skipped {named(self.blocks)} of {depth}", names=recompose(encoder, remaining)
        )
