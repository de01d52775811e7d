"""What must a model keep while it learns? Blocks and embeddings that are frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..encoders.cutting import check_numbers
from ..errors import InputError, must
from .choosing import at_most_depth, check_whole_groups, modules_at, named, names_of, numbers, one_of, whole
from .declare import Change

if TYPE_CHECKING:
    import torch

    from ..encoders.encoder import TransformerEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """
    Keep weights as they are while the rest is trained.

    Nothing else changes: the model computes what it did. What lies beside the blocks, such as relative
    positions that all of them share, is frozen with the embeddings. Poolers, norms after the last block
    and heads are never frozen.

    Parameters
    ----------
    bottom : int, optional
        The first so many blocks.
    top : int, optional
        The last so many blocks.
    blocks : tuple of int, optional
        These blocks, numbered from 1.
    embeddings : bool, optional
        Whether the embeddings are frozen too. When absent they are frozen with the bottom, without which
        training would still have to go back through all blocks, and not otherwise; with `bottom=0`
        nothing is frozen. `Freeze(embeddings=True)` freezes them alone.
    """

    bottom: int | None = None
    top: int | None = None
    blocks: tuple[int, ...] | None = None
    embeddings: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.embeddings, (bool, type(None))):
            raise must("embeddings", "True, False or None", self.embeddings)
        parts = {"bottom": self.bottom, "top": self.top, "blocks": self.blocks}
        if all(value is None for value in parts.values()):
            if not self.embeddings:
                raise InputError("Freeze must be given one of bottom, top, blocks or embeddings=True.")
            return
        given = one_of(parts, "Freeze")
        if given == "blocks":
            object.__setattr__(self, "blocks", numbers("blocks", self.blocks))
        else:
            object.__setattr__(self, given, whole(given, parts[given]))

    def edit(self, encoder: TransformerEncoder) -> Change:
        """Freeze the weights in place."""
        blocks = self._blocks(encoder)
        check_whole_groups(encoder, blocks, "frozen")
        frozen: list[Any] = [p for block in blocks for p in encoder.blocks[block - 1].parameters()]
        told = named(blocks) if blocks else "nothing"
        if bool(self.bottom) if self.embeddings is None else self.embeddings:
            inputs = dict(modules_at(encoder, encoder.family.embeddings))
            beside = dict(modules_at(encoder, encoder.family.beside))
            frozen += [p for module in (*inputs.values(), *beside.values()) for p in module.parameters()]
            told = f"{told}, with the embeddings" if blocks else "the embeddings"
            told += f" and what lies beside the blocks ({', '.join(beside)})" if beside else ""
        for parameter in frozen:
            parameter.requires_grad_(False)
        return Change(said=f"froze {told}", frozen=names_of(encoder, frozen))

    def _blocks(self, encoder: TransformerEncoder) -> tuple[int, ...]:
        depth = encoder.depth
        if self.blocks is not None:
            check_numbers("blocks", self.blocks, depth)
            return tuple(sorted(self.blocks))
        if self.top is not None:
            at_most_depth("top", self.top, encoder)
            return tuple(range(depth - self.top + 1, depth + 1))
        at_most_depth("bottom", self.bottom or 0, encoder)
        return tuple(range(1, (self.bottom or 0) + 1))


def frozen_names(encoder: TransformerEncoder) -> frozenset[str]:
    """
    Find what must not learn.

    Returns
    -------
    frozenset of str
        Names of parameters below the base model.
    """
    base: torch.nn.Module = encoder.base
    return frozenset(name for name, parameter in base.named_parameters() if not parameter.requires_grad)
