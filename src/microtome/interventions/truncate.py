"""Truncation of an encoder to its first blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..checks import whole_number
from .choosing import at_most_depth
from .declare import Change
from .recomposing import recompose

if TYPE_CHECKING:
    from ..encoders.encoder import TransformerEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """
    Keep the first blocks of a model and drop those above them.

    A norm after the last block is applied after the last block that is kept. A block that all layers share
    is run fewer times.

    Parameters
    ----------
    keep : int
        The number of blocks to keep. With 0 the head reads the embedding output, in families for which the
        library supports this.
    """

    keep: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", whole_number("keep", self.keep, 0))

    def edit(self, encoder: TransformerEncoder) -> Change:
        """Truncate the encoder in place."""
        at_most_depth("keep", self.keep, encoder)
        depth = encoder.depth
        names = recompose(encoder, tuple(range(1, self.keep + 1)))
        return Change(description=f"truncated to the first {self.keep} of {depth} blocks", names=names)
