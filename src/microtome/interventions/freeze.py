"""Freezing of blocks and embeddings during fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..checks import whole_number
from ..encoders.cutting import check_numbers
from ..errors import InputError, must
from .choosing import at_most_depth, check_whole_groups, modules_at, named, names_of, numbers, one_of
from .declare import Change

if TYPE_CHECKING:
    import torch

    from ..encoders.encoder import TransformerEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """
    Exclude weights from training.

    The model's output does not change. Modules beside the blocks, such as relative positions that all
    blocks share, are frozen with the embeddings. Poolers, norms after the last block and heads are never
    frozen.

    Parameters
    ----------
    bottom : int, optional
        The number of lowest blocks to freeze.
    top : int, optional
        The number of highest blocks to freeze.
    blocks : tuple of int, optional
        The blocks to freeze, numbered from 1.
    embeddings : bool, optional
        Whether the embeddings are frozen too. By default they are frozen only with `bottom` (otherwise the
        backward pass would still go through all blocks); with `bottom=0` nothing is frozen.
        `Freeze(embeddings=True)` freezes only the embeddings.
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
        option = one_of(parts, "Freeze")
        if option == "blocks":
            object.__setattr__(self, "blocks", numbers("blocks", self.blocks))
        else:
            object.__setattr__(self, option, whole_number(option, parts[option], 0))

    def edit(self, encoder: TransformerEncoder) -> Change:
        """Freeze the weights in place."""
        blocks = self._blocks(encoder)
        check_whole_groups(encoder, blocks, "frozen")
        frozen: list[Any] = [p for block in blocks for p in encoder.blocks[block - 1].parameters()]
        description = named(blocks) if blocks else "nothing"
        if bool(self.bottom) if self.embeddings is None else self.embeddings:
            inputs = dict(modules_at(encoder, encoder.family.embeddings))
            beside = dict(modules_at(encoder, encoder.family.beside))
            frozen += [p for module in (*inputs.values(), *beside.values()) for p in module.parameters()]
            description = f"{description}, with the embeddings" if blocks else "the embeddings"
            description += f" and what lies beside the blocks ({', '.join(beside)})" if beside else ""
        for parameter in frozen:
            parameter.requires_grad_(False)
        return Change(description=f"froze {description}", frozen=names_of(encoder, frozen))

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
    Return the names of the frozen parameters.

    Returns
    -------
    frozenset of str
        Names of parameters within the base model.
    """
    base: torch.nn.Module = encoder.base
    return frozenset(name for name, parameter in base.named_parameters() if not parameter.requires_grad)
