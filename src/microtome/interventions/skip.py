"""What is a model without some of its blocks? One in which the block below feeds the block above."""

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
    Leave blocks out, wherever they are.

    The blocks that stay are numbered anew, from 1. A block that all layers share is run fewer times.

    Parameters
    ----------
    blocks : tuple of int
        Numbered from 1.
    """

    blocks: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", numbers("blocks", self.blocks))

    def edit(self, encoder: TransformerEncoder) -> Change:
        """Take the blocks out in place."""
        check_numbers("blocks", self.blocks, encoder.depth)
        depth = encoder.depth
        kept = tuple(block for block in range(1, depth + 1) if block not in self.blocks)
        return Change(said=f"skipped {named(self.blocks)} of {depth}", names=recompose(encoder, kept))
