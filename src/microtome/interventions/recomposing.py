"""How do tensors move when blocks are left out or put in another order? By the names of their blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..encoders.cutting import Kept, keep_blocks
from ..encoders.family import submodule

if TYPE_CHECKING:
    from ..encoders.encoder import TransformerEncoder


def recompose(encoder: TransformerEncoder, kept: Kept) -> dict[str, str]:
    """
    Leave blocks of an encoder in a given order, in place.

    Parameters
    ----------
    encoder : TransformerEncoder
    kept : sequence of int
        Blocks that stay, numbered from 1, in the order in which they run.

    Returns
    -------
    dict of str to str
        The name of every tensor that the model has now must have, and its name before.
    """
    family, blocks = encoder.family, encoder.blocks
    whole = submodule(encoder.base, family.blocks)
    places = {id(block): place for place, block in enumerate(whole.children())}
    stay = list(dict.fromkeys(places[id(blocks[block - 1])] for block in kept))
    if family.shared and not kept:
        # The shared block is still there, though nothing runs it.
        stay = sorted(places.values())
    before = list(encoder.model.state_dict())
    prefix = next(name for name, module in encoder.model.named_modules() if module is whole)
    inside = [name for name in before if name.startswith(f"{prefix}.")]
    names = {name: name for name in before if not name.startswith(f"{prefix}.")}
    for now, place in enumerate(stay):
        own = f"{prefix}.{place}."
        names |= {f"{prefix}.{now}.{n.removeprefix(own)}": n for n in inside if n.startswith(own)}
    keep_blocks(encoder.model, family, kept)
    return names
