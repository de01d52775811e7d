"""Permutation of the blocks of an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..checks import whole_number
from ..encoders.cutting import check_numbers
from ..errors import InputError, must
from .choosing import numbers, one_of
from .declare import Change
from .recomposing import recompose

if TYPE_CHECKING:
    from ..encoders.encoder import TransformerEncoder

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
