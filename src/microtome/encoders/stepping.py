"""What would a model say without some of its blocks? Its blocks are driven by hand, each prefix once.

A cut is the tuple of blocks that run. Cuts with the same beginning share its states: together they are a tree
whose edges are blocks, and walking the tree is all the work there is. The longest way down, the model as it
is, comes with the pass that shows how blocks are called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import InputError, must
from .family import Family, submodule

if TYPE_CHECKING:
    import torch

Cut = tuple[int, ...]
Visit = Callable[[Sequence[int], "torch.Tensor"], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """
    How a module was called.

    Parameters
    ----------
    module : torch.nn.Module
    args : tuple
        What came after the states: masks, positions.
    kwargs : mapping
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recorded:
    """
    One run of a base model, after which its blocks can be run on other states.

    Parameters
    ----------
    calls : list of Call
        One a block, in the order in which they ran.
    layers : dict of int to Tensor
        States as blocks pass them, of the layers that were asked for.
    after : list of Call
        What runs once more after the first block and reads the embedding output; empty in most families.
    """

    calls: list[Call] = field(default_factory=list)
    layers: dict[int, torch.Tensor] = field(default_factory=dict)
    after: list[Call] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Node:
    """States after some blocks: which cuts end here, and which blocks run next."""

    ends: list[int] = field(default_factory=list)
    then: dict[int, _Node] = field(default_factory=dict)


def walk(
    base: torch.nn.Module,
    family: Family,
    inputs: Mapping[str, torch.Tensor],
    cuts: Sequence[Cut],
    visit: Visit,
) -> None:
    """
    Run a batch through many cuts of a model at once.

    Parameters
    ----------
    base : torch.nn.Module
        A base model of the library, in evaluation mode.
    family : Family
    inputs : mapping of str to Tensor
        What the base model is given, examples first.
    cuts : sequence of tuple of int
        The blocks that run, numbered from 1, in their order; none, and the embedding output is the last
        state. Blocks are as they are in the model: one with a mask or a scale of its own keeps it.
    visit : callable
        Called once for each different cut with the numbers of the cuts that are it, and its last states,
        shape (examples, tokens, features), behind the model's final norm where it has one. They are to be
        read, not to be changed.

    Notes
    -----
    States are held where cuts part: those of the model's own layers, and on the way down at most one more a
    block. The numbers are those of a model that was really cut, but for rounding.
    """
    import torch

    names = _names(base, family)
    check_cuts(cuts, len(names))
    root = _tree(cuts, names)
    trunk = _trunk(root, names)
    norm = None if family.final_norm is None else submodule(base, family.final_norm)

    def shown(states: torch.Tensor) -> torch.Tensor:
        states = states if norm is None else norm(states)
        return states.transpose(0, 1) if family.time_major else states

    # Where no cut ends or turns off the model's own way, its states are not needed again.
    kept = [layer for layer, node in trunk.items() if node.ends or _aside(node, trunk)]
    with torch.inference_mode():
        found = record(base, family, inputs, kept)
        pending: list[tuple[torch.Tensor, int | None, int, _Node]]
        pending = [(found.layers[layer], None, layer, trunk[layer]) for layer in reversed(kept)]
        while pending:
            states, block, ran, node = pending.pop()
            if block is not None:
                states = step(found, block, states, first=ran == 1)
            if node.ends:
                visit(node.ends, shown(states))
            pending += [(states, then, ran + 1, child) for then, child in _aside(node, trunk)]


def check_cuts(cuts: Sequence[Cut], depth: int) -> None:
    """Refuse cuts of blocks that a model of so many blocks has not."""
    if not len(cuts):
        raise must("cuts", "at least one", 0)
    for cut in cuts:
        for block in cut:
            if isinstance(block, bool) or not isinstance(block, int) or not 1 <= block <= depth:
                raise must("blocks of a cut", f"whole numbers from 1 to {depth}", block)


def record(
    base: torch.nn.Module, family: Family, inputs: Mapping[str, torch.Tensor], keep: Collection[int]
) -> Recorded:
    """
    Run a base model as it is, and remember how its blocks were called.

    Parameters
    ----------
    base, family, inputs
        As in `walk`.
    keep : collection of int
        Layers whose states are kept.

    Returns
    -------
    Recorded
    """
    found = Recorded()
    with _recording(base, family, found, frozenset(keep)):
        base(**inputs, **family.arguments)
    depth = len(family.blocks_of(base))
    if len(found.calls) != depth:
        name = type(base).__name__
        raise InputError(f"{name} must run its {depth} blocks once each, but it ran {len(found.calls)}.")
    _check_repeated(found.calls)
    return found


def step(found: Recorded, block: int, states: torch.Tensor, *, first: bool) -> torch.Tensor:
    """
    Run one block.

    Parameters
    ----------
    found : Recorded
        Of the same batch.
    block : int
        Numbered from 1.
    states : Tensor
        As blocks pass them: (examples, tokens, features), or tokens first where the family has it so.
    first : bool
        Whether no block ran before: what follows a model's first block then follows this one.

    Returns
    -------
    Tensor
        In the shape of the states.
    """
    call = found.calls[block - 1]
    out = _states(call.module(states, *call.args, **call.kwargs))
    for then in found.after if first else ():
        out = _states(then.module(states, out, *then.args, **then.kwargs))
    return out


@contextmanager
def _recording(
    base: torch.nn.Module, family: Family, found: Recorded, keep: frozenset[int]
) -> Iterator[None]:
    blocks = family.blocks_of(base)

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if len(found.calls) in keep:
            found.layers[len(found.calls)] = args[0]
        found.calls.append(Call(module=module, args=args[1:], kwargs=kwargs))

    def after(_: Any, __: Any, result: Any) -> None:
        # The last layer; every other one is what the next block reads.
        if len(found.calls) == len(blocks) and len(blocks) in keep:
            found.layers[len(blocks)] = _states(result)

    def once(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # The embedding output and the first block's are known to whoever calls it again.
        found.after.append(Call(module=module, args=args[2:], kwargs=kwargs))

    hooks: list[Any] = []
    try:
        for block in dict.fromkeys(blocks):
            hooks.append(block.register_forward_pre_hook(before, with_kwargs=True))
            hooks.append(block.register_forward_hook(after))
        if family.after_first is not None and _has(base, family.after_first):
            module = submodule(base, family.after_first)
            hooks.append(module.register_forward_pre_hook(once, with_kwargs=True))
            hooks.append(module.register_forward_hook(after))
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _states(value: Any) -> torch.Tensor:
    return value[0] if isinstance(value, (tuple, list)) else value


def _has(base: torch.nn.Module, path: str) -> bool:
    return any(name == path for name, _ in base.named_modules())


def _names(base: torch.nn.Module, family: Family) -> list[int]:
    """For each block the number of the first one that is the same module: to run either is to run both."""
    places: dict[int, int] = {}
    return [places.setdefault(id(b), number) for number, b in enumerate(family.blocks_of(base), start=1)]


def _tree(cuts: Sequence[Cut], names: Sequence[int]) -> _Node:
    root = _Node()
    for number, cut in enumerate(cuts):
        node = root
        for block in cut:
            node = node.then.setdefault(names[block - 1], _Node())
        node.ends.append(number)
    return root


def _trunk(root: _Node, names: Sequence[int]) -> dict[int, _Node]:
    """The nodes that the whole model passes, by their layer."""
    found, node = {0: root}, root
    for layer, name in enumerate(names, start=1):
        if name not in node.then:
            break
        node = node.then[name]
        found[layer] = node
    return found


def _aside(node: _Node, trunk: Mapping[int, _Node]) -> list[tuple[int, _Node]]:
    """The blocks that run next, but for the one that the whole model runs."""
    return [(block, child) for block, child in node.then.items() if child not in trunk.values()]


def _check_repeated(calls: Sequence[Call]) -> None:
    """See that a block which runs several times is always called alike."""
    seen: dict[int, Call] = {}
    for call in calls:
        known = seen.setdefault(id(call.module), call)
        alike = len(known.args) == len(call.args) and known.kwargs.keys() == call.kwargs.keys()
        pairs = [*zip(known.args, call.args, strict=False)]
        pairs += [(value, call.kwargs.get(name)) for name, value in known.kwargs.items()]
        if not alike or any(one is not other for one, other in pairs):
            name = type(call.module).__name__
            raise InputError(f"{name} must be called alike each time it runs, but its arguments differ.")
