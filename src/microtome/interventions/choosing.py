"""Which blocks are meant? Numbers from 1, checked, and told in words."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..encoders.cutting import check_numbers
from ..encoders.family import submodule
from ..errors import InputError, must

if TYPE_CHECKING:
    import torch

    from ..encoders.encoder import TransformerEncoder


def numbers(what: str, given: Any) -> tuple[int, ...]:
    """Read numbers of blocks, each at least 1 and named once; how deep a model is nobody knows yet."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise must(what, "numbers of blocks, counted from 1", given)
    found = tuple(whole(what, each, least=1) for each in given)
    check_numbers(what, found, max(found, default=0))
    return found


def whole(what: str, given: Any, *, least: int = 0) -> int:
    """Read a whole number."""
    try:
        found = operator.index(given)
    except TypeError:
        found = None
    if found is None or isinstance(given, bool) or found < least:
        raise must(what, f"a whole number of at least {least}", given)
    return found


def at_most_depth(what: str, count: int, encoder: TransformerEncoder) -> None:
    """Refuse more blocks than a model has."""
    if count > encoder.depth:
        raise must(what, f"at most {encoder.depth}, the depth of {encoder.name}", count)


def one_of(options: dict[str, Any], needed: str) -> str:
    """Find the only option that was given, or say that it must be one alone."""
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        came = " and ".join(f"{name}={options[name]!r}" for name in given) or "nothing"
        raise InputError(f"{needed} must be given exactly one of {', '.join(options)}, but got {came}.")
    return given[0]


def check_whole_groups(encoder: TransformerEncoder, blocks: Sequence[int], what: str) -> None:
    """Refuse to change one of the layers that share their weights without the others."""
    modules = encoder.blocks
    asked = {id(modules[block - 1]) for block in blocks}
    also = [k for k, module in enumerate(modules, 1) if id(module) in asked and k not in blocks]
    if also:
        raise InputError(
            f"layers of {encoder.family.title} that share their weights must be {what} together, but "
            f"{named(blocks)} of {encoder.name} {'shares' if len(blocks) == 1 else 'share'} them with "
            f"{named(also)}."
        )


def named(blocks: Iterable[int]) -> str:
    """
    Tell blocks in words.

    Examples
    --------
    >>> named([3, 4, 5, 9])
    'blocks 3 to 5 and 9'
    >>> named([2]), named([])
    ('block 2', 'no block')
    """
    found = sorted(blocks)
    if not found:
        return "no block"
    breaks = [k for k, (one, two) in enumerate(pairwise(found), 1) if two != one + 1]
    runs = [found[i:j] for i, j in pairwise([0, *breaks, len(found)])]
    words = []
    for run in runs:
        words += map(str, run) if len(run) < 3 else [f"{run[0]} to {run[-1]}"]
    told = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return f"block {told}" if len(found) == 1 else f"blocks {told}"


def names_of(encoder: TransformerEncoder, wanted: Iterable[torch.Tensor]) -> frozenset[str]:
    """Find the names that parameters have in the whole model, ties included."""
    ids = {id(each) for each in wanted}
    named_all = encoder.model.named_parameters(remove_duplicate=False)
    return frozenset(name for name, parameter in named_all if id(parameter) in ids)


def modules_at(encoder: TransformerEncoder, paths: Iterable[str]) -> Iterator[tuple[str, torch.nn.Module]]:
    """Those of the places in a family's declaration that this model has."""
    present = {name for name, _ in encoder.base.named_modules()}
    yield from ((path, submodule(encoder.base, path)) for path in paths if path in present)
