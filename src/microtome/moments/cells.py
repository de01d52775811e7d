"""Values of a measure for one left layer against several right layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """
    Values of one left layer against b right layers.

    Parameters
    ----------
    forward : Tensor of shape (b,)
        Left matched in, or predicted from, right. NaN where undefined.
    backward : Tensor of shape (b,), optional
        The other direction; None for a symmetric measure.
    reasons : tuple of (str or None), optional
        Why a cell is undefined, one entry per cell.
    details : mapping of str to Tensor of shape (b,)
        Further values per cell, by name.
    """

    forward: torch.Tensor
    backward: torch.Tensor | None = None
    reasons: tuple[str | None, ...] | None = None
    details: Mapping[str, torch.Tensor] = field(default_factory=lambda: MappingProxyType({}))
