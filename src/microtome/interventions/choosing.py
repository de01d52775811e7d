"""Validation of block numbers and their description in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..checks import whole_number
from ..encoders.cutting import check_numbers
from ..encoders.family import submodule
from ..errors import InputError, must

if TYPE_CHECKING:
    import torch

    from ..encoders.encoder import TransformerEncoder


def numbers(what: str, value: Any) -> tuple[int, ...]:
    """Read block numbers, each at least 1 and without repeats; the depth of the model is not known yet."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise must(what, "numbers of blocks, counted from 1", value)
    blocks = tuple(whole_number(what, number, 1) for number in value)
    check_numbers(what, blocks, max(blocks, default=0))
    return blocks


def at_most_depth(what: str, count: int, encoder: TransformerEncoder) -> None:
    """Raise an error if there are more blocks than the model has."""
    if count > encoder.depth:
        raise must(what, f"at most {encoder.depth}, the depth of {encoder.name}", count)


def one_of(options: dict[str, Any], needed: str) -> str:
    """Return the name of the only option that was given, or raise an error unless it is exactly one."""
    names = [name for name, value in options.items() if value is not None]
    if len(names) != 1:
        listing = " and ".join(f"{name}={options[name]!r}" for name in names) or "nothing"
        raise InputError(f"{needed} must be given exactly one of {', '.join(options)}, but got {listing}.")
    return names[0]


def check_whole_groups(encoder: TransformerEncoder, blocks: Sequence[int], what: str) -> None:
    """Raise an error if only some of the layers that share their weights are to be changed."""
    modules = encoder.blocks
    module_ids = {id(modules[block - 1]) for block in blocks}
    sharing = [k for k, module in enumerate(modules, 1) if id(module) in module_ids and k not in blocks]
    if sharing:
        raise InputError(
            f"layers of {encoder.family.title} that share their weights must be {what} together, but "
            f"{named(blocks)} of {encoder.name} {'shares' if len(blocks) == 1 else 'share'} them with "
            f"{named(sharing)}."
        )


def named(blocks: Iterable[int]) -> str:
    """
    Describe blocks in words.

    Examples
    --------
    >>> named([3, 4, 5, 9])
    'blocks 3 to 5 and 9'
    >>> named([2]), named([])
    ('block 2', 'no block')
    """
    ordered = sorted(blocks)
    if not ordered:
        return "no block"
    breaks = [k for k, (block, following) in enumerate(pairwise(ordered), 1) if following != block + 1]
    runs = [ordered[i:j] for i, j in pairwise([0, *breaks, len(ordered)])]
    words = []
    for run in runs:
        words += map(str, run) if len(run) < 3 else [f"{run[0]} to {run[-1]}"]
    listing = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return f"block {listing}" if len(ordered) == 1 else f"blocks {listing}"


def names_of(encoder: TransformerEncoder, parameters: Iterable[torch.Tensor]) -> frozenset[str]:
    """Find all names that parameters have in the model, tied parameters included."""
    ids = {id(parameter) for parameter in parameters}
    named_all = encoder.model.named_parameters(remove_duplicate=False)
    return frozenset(name for name, parameter in named_all if id(parameter) in ids)


def modules_at(encoder: TransformerEncoder, paths: Iterable[str]) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the submodules at those paths of a family's declaration that this model has."""
    present = {name for name, _ in encoder.base.named_modules()}
    yield from ((path, submodule(encoder.base, path)) for path in paths if path in present)
