"""Removal and reordering of blocks, with the names of the tensors before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..encoders.cutting import Kept, keep_blocks
from ..encoders.family import submodule

if TYPE_CHECKING:
    from ..encoders.encoder import TransformerEncoder


def recompose(encoder: TransformerEncoder, order: Kept) -> dict[str, str]:
    """
    Keep the given blocks of an encoder in the given order, in place.

    Parameters
    ----------
    encoder : TransformerEncoder
    order : sequence of int
        Blocks that stay, numbered from 1, in the order in which they run.

    Returns
    -------
    dict of str to str
        The previous name of every tensor, by the name it must have after the change.
    """
    family, blocks = encoder.family, encoder.blocks
    block_list = submodule(encoder.base, family.blocks)
    indices = {id(block): index for index, block in enumerate(block_list.children())}
    kept_indices = list(dict.fromkeys(indices[id(blocks[block - 1])] for block in order))
    if family.shared and not order:
        # The shared block still exists, though it is never run.
        kept_indices = sorted(indices.values())
    before = list(encoder.model.state_dict())
    prefix = next(name for name, module in encoder.model.named_modules() if module is block_list)
    block_names = [name for name in before if name.startswith(f"{prefix}.")]
    names = {name: name for name in before if not name.startswith(f"{prefix}.")}
    for new_index, index in enumerate(kept_indices):
        old_prefix = f"{prefix}.{index}."
        names |= {
            f"{prefix}.{new_index}.{n.removeprefix(old_prefix)}": n
            for n in block_names
            if n.startswith(old_prefix)
        }
    keep_blocks(encoder.model, family, order)
    return names
