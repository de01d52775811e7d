"""How is a model made of some of its blocks? By editing it so that the library could have built it so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InputError, must
from .family import Family, submodule

if TYPE_CHECKING:
    import torch

Kept = Sequence[int]
"""Blocks that stay, numbered from 1, in the order in which they run."""


def keep_blocks(model: torch.nn.Module, family: Family, kept: Kept) -> None:
    """
    Leave some blocks of a model, in place, and write its configuration accordingly.

    What is saved afterwards loads with the library alone and computes the same. Blocks keep their weights
    and all that they are besides, such as local attention or attention without positions.

    Parameters
    ----------
    model : torch.nn.Module
        Of the library, with or without a head.
    family : Family
    kept : sequence of int
        Blocks that stay, numbered from 1, in the order in which they run; each at most once. With none
        the model norms and reads its embeddings.

    Raises
    ------
    InputError
        Where the library could not build such a model: see `refusal`.
    """
    reason = refusal(model, family, kept)
    if reason is not None:
        raise InputError(reason)
    base: Any = model.base_model
    before = len(family.blocks_of(base))
    if family.shared:
        _keep_groups(base, family, kept)
    else:
        _keep_listed(base, family, kept)
    for config in _configs(model):
        _rewrite(config, family, kept, before)
    # DistilBERT and XLNet also keep their depth beside the configuration.
    own = base.config.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    for part in base.modules():
        if type(vars(part).get(own)) is int:
            setattr(part, own, len(kept))


def refusal(model: torch.nn.Module, family: Family, kept: Kept) -> str | None:
    """
    Say why a cut cannot be made into a model of the library.

    Parameters
    ----------
    model : torch.nn.Module
    family : Family
    kept : sequence of int
        As in `keep_blocks`.

    Returns
    -------
    str or None
        One sentence; None where the cut can be made.

    Raises
    ------
    InputError
        Where the numbers are not those of blocks, or one comes twice.
    """
    if not hasattr(model, "base_model"):
        return f"blocks must be those of a model of transformers to be cut, but {family.title} is none."
    base: Any = model.base_model
    depth = len(family.blocks_of(base))
    check_numbers("kept blocks", kept, depth)
    if not kept:
        if family.needs_block:
            return f"at least one block of {family.title} must stay, but none would."
        return None
    if family.first_fixed and kept[0] != 1:
        return (
            f"block 1 of {family.title} must stay the first, since the library builds it without a norm of "
            f"its input, but the blocks {_listed(kept)} would run."
        )
    switch = family.index_scaled
    if switch is not None and getattr(base.config, switch, False) and tuple(kept) != _upto(len(kept)):
        return (
            f"blocks of {family.title} with {switch} must keep their numbers, which scale their attention, "
            f"but the blocks {_listed(kept)} would be renumbered."
        )
    if family.shared:
        run = _groups_run(base, family, kept)
        if run != _groups_built(len(kept), len(set(run))):
            return (
                f"the groups of {family.title} must run as the library spreads them over the depth, but "
                f"the blocks {_listed(kept)} would run them as {_listed([group + 1 for group in run])}."
            )
    return None


def check_numbers(what: str, blocks: Sequence[int], depth: int) -> None:
    """Refuse what is not a block of a model of this depth, and blocks that are named twice."""
    for block in blocks:
        if isinstance(block, bool) or not isinstance(block, int) or not 1 <= block <= depth:
            raise must(what, f"whole numbers between 1 and {depth}, the depth of the model", block)
    twice = sorted({block for block in blocks if list(blocks).count(block) > 1})
    if twice:
        raise InputError(f"{what} must name each block once, but block {twice[0]} comes twice.")


def _keep_listed(base: torch.nn.Module, family: Family, kept: Kept) -> None:
    import torch

    whole = list(submodule(base, family.blocks).children())
    left = [whole[block - 1] for block in kept]
    for place, block in enumerate(left):
        for part in block.modules():
            if type(vars(part).get("layer_idx")) is int:
                # Where a cache keeps what the block computed: counted over the blocks that are there.
                part.layer_idx = place  # pyright: ignore[reportArgumentType]
    base.set_submodule(family.blocks, torch.nn.ModuleList(left))


def _keep_groups(base: torch.nn.Module, family: Family, kept: Kept) -> None:
    """Leave the groups of shared blocks that still run, in the order in which they do."""
    import torch

    if not kept:
        return
    steps = family.blocks_of(base)
    left = list(dict.fromkeys(steps[block - 1] for block in kept))
    base.set_submodule(family.blocks, torch.nn.ModuleList(left))
    base.config.num_hidden_groups = len(left)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]


def _groups_run(base: torch.nn.Module, family: Family, kept: Kept) -> list[int]:
    """Number the groups that the kept blocks run, in the order in which they come first."""
    steps = family.blocks_of(base)
    run = [steps[block - 1] for block in kept]
    numbers = {id(group): number for number, group in enumerate(dict.fromkeys(run))}
    return [numbers[id(group)] for group in run]


def _groups_built(depth: int, groups: int) -> list[int]:
    """Spread groups over the depth in the way of the library, rounding included."""
    return [int(step / (depth / groups)) for step in range(depth)]


def _configs(model: torch.nn.Module) -> Iterator[Any]:
    """Every configuration that parts of a model hold: usually one object, held by all."""
    found = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    yield from found.values()


def _rewrite(config: Any, family: Family, kept: Kept, before: int) -> None:
    config.num_hidden_layers = len(kept)
    for name in family.per_block:
        entries = getattr(config, name, None)
        if isinstance(entries, (list, tuple)) and len(entries) == before:
            setattr(config, name, [entries[block - 1] for block in kept])


def _upto(last: int) -> tuple[int, ...]:
    return tuple(range(1, last + 1))


def _listed(blocks: Sequence[int]) -> str:
    return ", ".join(map(str, blocks))
