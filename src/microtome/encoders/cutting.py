"""Removal of blocks from a model, with its configuration rewritten so that the library can load it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..errors import InputError, must
from ..lazy import torch
from .family import Family, submodule

Kept = Sequence[int]
"""Blocks that stay, numbered from 1, in the order in which they run."""


def keep_blocks(model: torch.nn.Module, family: Family, blocks: Kept) -> None:
    """
    Keep some blocks of a model, in place, and update its configuration to match.

    The model can then be saved and loaded with the library alone, and computes the same. Blocks keep their
    weights and their other properties, such as local attention or attention without positions.

    Parameters
    ----------
    model : torch.nn.Module
        A model of transformers, with or without a head.
    family : Family
    blocks : sequence of int
        Blocks that stay, numbered from 1, in the order in which they run; each at most once. With none,
        only the embeddings remain, and the final norm where there is one.

    Raises
    ------
    InputError
        If the library could not build such a model; see `refusal`.
    """
    reason = refusal(model, family, blocks)
    if reason is not None:
        raise InputError(reason)
    base: Any = model.base_model
    before = len(family.blocks_of(base))
    if family.shared:
        _keep_groups(base, family, blocks)
    else:
        _keep_listed(base, family, blocks)
    # The parts of a model usually share one configuration.
    configs: list[Any] = [part.config for part in model.modules() if hasattr(part, "config")]
    for config in {id(config): config for config in configs}.values():
        _rewrite(config, family, blocks, before)
    # DistilBERT and XLNet also keep their depth beside the configuration.
    depth_attribute = base.config.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    for part in base.modules():
        if type(vars(part).get(depth_attribute)) is int:
            setattr(part, depth_attribute, len(blocks))


def refusal(model: torch.nn.Module, family: Family, blocks: Kept) -> str | None:
    """
    Explain why the library could not build the model that a cut leaves.

    Parameters
    ----------
    model : torch.nn.Module
    family : Family
    blocks : sequence of int
        As in `keep_blocks`.

    Returns
    -------
    str or None
        One sentence; None if the cut is possible.

    Raises
    ------
    InputError
        If a number is not that of a block, or is repeated.
    """
    if not hasattr(model, "base_model"):
        return f"blocks must be those of a model of transformers to be cut, but {family.title} is none."
    base: Any = model.base_model
    depth = len(family.blocks_of(base))
    check_numbers("kept blocks", blocks, depth)
    if not blocks:
        if family.needs_block:
            return f"at least one block of {family.title} must stay, but none would."
        return None
    if family.first_fixed and blocks[0] != 1:
        return (
            f"block 1 of {family.title} must stay the first, since the library builds it without a norm of "
            f"its input, but the blocks {_listed(blocks)} would run."
        )
    switch = family.index_scaled
    if (
        switch is not None
        and getattr(base.config, switch, False)
        and list(blocks) != list(range(1, len(blocks) + 1))
    ):
        return (
            f"blocks of {family.title} with {switch} must keep their numbers, which scale their attention, "
            f"but the blocks {_listed(blocks)} would be renumbered."
        )
    if family.shared:
        run = _groups_run(base, family, blocks)
        # The library assigns a group to each step of the depth, rounding included.
        steps_per_group = len(blocks) / len(set(run))
        if run != [int(step / steps_per_group) for step in range(len(blocks))]:
            return (
                f"the groups of {family.title} must run as the library spreads them over the depth, but "
                f"the blocks {_listed(blocks)} would run them as {_listed([group + 1 for group in run])}."
            )
    return None


def check_numbers(what: str, blocks: Sequence[int], depth: int) -> None:
    """Raise if a number is not a block of a model of this depth, or is repeated."""
    for block in blocks:
        if isinstance(block, bool) or not isinstance(block, int) or not 1 <= block <= depth:
            raise must(what, f"whole numbers between 1 and {depth}, the depth of the model", block)
    repeated = [block for block, count in Counter(blocks).items() if count > 1]
    if repeated:
        raise InputError(f"{what} must name each block once, but block {repeated[0]} comes twice.")


def _keep_listed(base: torch.nn.Module, family: Family, order: Kept) -> None:
    blocks = list(submodule(base, family.blocks).children())
    remaining = [blocks[block - 1] for block in order]
    for index, block in enumerate(remaining):
        for part in block.modules():
            if type(vars(part).get("layer_idx")) is int:
                # The index of the block in the key-value cache, counted over the remaining blocks.
                part.layer_idx = index  # pyright: ignore[reportArgumentType]
    base.set_submodule(family.blocks, torch.nn.ModuleList(remaining))


def _keep_groups(base: torch.nn.Module, family: Family, blocks: Kept) -> None:
    """Keep the groups of shared blocks that still run, in the order in which they run."""
    if not blocks:
        return
    steps = family.blocks_of(base)
    groups = list(dict.fromkeys(steps[block - 1] for block in blocks))
    base.set_submodule(family.blocks, torch.nn.ModuleList(groups))
    base.config.num_hidden_groups = len(groups)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]


def _groups_run(base: torch.nn.Module, family: Family, blocks: Kept) -> list[int]:
    """Number the groups that the kept blocks use, in the order of their first use."""
    steps = family.blocks_of(base)
    run = [steps[block - 1] for block in blocks]
    numbers = {id(group): number for number, group in enumerate(dict.fromkeys(run))}
    return [numbers[id(group)] for group in run]


def _rewrite(config: Any, family: Family, blocks: Kept, before: int) -> None:
    config.num_hidden_layers = len(blocks)
    for name in family.per_block:
        entries = getattr(config, name, None)
        if isinstance(entries, (list, tuple)) and len(entries) == before:
            setattr(config, name, [entries[block - 1] for block in blocks])


def _listed(blocks: Sequence[int]) -> str:
    return ", ".join(map(str, blocks))
