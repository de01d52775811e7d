"""What interventions share: their interface, checks of block numbers, and renumbering of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from ..checks import whole_number
from ..encoders.cutting import Kept, check_numbers, keep_blocks
from ..encoders.family import submodule
from ..errors import InputError, must

if TYPE_CHECKING:
    import torch

    from ..encoders.encoder import TransformerEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """
    What an edit did, to be checked against the hashes of all tensors before and after it.

    Parameters
    ----------
    description : str
        A description of the edit in words, for `Source.changes`.
    names : mapping of str to str, optional
        The name of each tensor before the edit, by its name after it. All tensors keep their names when
        absent.
    reinitialized : frozenset of str
        Tensors whose bits must differ after the edit.
    touched : frozenset of str
        Tensors whose bits may differ, besides the reinitialized ones.
    frozen : frozenset of str
        Parameters that are not trained after the edit.
    """

    description: str
    names: Mapping[str, str] | None = None
    reinitialized: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    frozen: frozenset[str] = frozenset()


class Intervention(Protocol):
    """Options of a change to an encoder, which `apply` makes on a copy."""

    def edit(self, encoder: TransformerEncoder) -> Change:
        """
        Change an encoder in place.

        Parameters
        ----------
        encoder : TransformerEncoder
            A copy with no other references. Its list of blocks must be read before they are edited.

        Returns
        -------
        Change
            What the edit declares to have changed; `apply` checks that this and nothing else changed.
        """
        ...


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
