"""Interventions on whole blocks: truncation, removal, permutation and freezing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..checks import whole_number
from ..encoders.cutting import check_numbers
from ..errors import InputError, must
from .declare import (
    Change,
    at_most_depth,
    check_whole_groups,
    modules_at,
    named,
    names_of,
    numbers,
    one_of,
    recompose,
)

if TYPE_CHECKING:
    import torch

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


LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Permute:
    """
    Run the blocks in another order.

    Parameters
    ----------
    seed : int, optional
        For a random order: numpy's `RandomState(seed).permutation(depth)`, as in Tamkin et al. (2020).
    order : tuple of int, optional
        The blocks, numbered from 1, in the order in which they run: (2, 1, 3) swaps the lowest two of
        three.
    """

    seed: int | None = None
    order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        one_of({"seed": self.seed, "order": self.order}, "Permute")
        if self.seed is not None:
            object.__setattr__(self, "seed", whole_number("seed", self.seed, 0, LARGEST_SEED))
        else:
            object.__setattr__(self, "order", numbers("order", self.order))

    def edit(self, encoder: TransformerEncoder) -> Change:
        """Reorder the blocks in place."""
        depth, family = encoder.depth, encoder.family
        if family.shared:
            raise InputError(
                f"blocks must have weights of their own to be permuted, but layers of {family.title} share "
                "them."
            )
        order = self.order_of(depth)
        check_numbers("order", order, depth)
        if len(order) != depth:
            raise must("order", f"all of the {depth} blocks of {encoder.name} in some order", order)
        seed_note = "" if self.seed is None else f" (seed {self.seed})"
        description = f"blocks put in the order {', '.join(map(str, order))}{seed_note}"
        return Change(description=description, names=recompose(encoder, order))

    def order_of(self, depth: int) -> tuple[int, ...]:
        """Return the order in which the blocks of a model of the given depth run."""
        if self.order is not None:
            return self.order
        import numpy as np

        # The published orders come from this generator, so they can be reproduced.
        permutation = np.random.RandomState(self.seed).permutation(depth)
        return tuple(int(index) + 1 for index in permutation)


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
