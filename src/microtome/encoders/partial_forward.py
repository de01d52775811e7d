"""Evaluation of a model without some of its blocks: many cuts at once, each common prefix run once.

A cut is the tuple of blocks that run. Cuts with a common prefix share its states: together they form a tree
whose edges are blocks, and each edge is computed once. The longest path, the full model, is computed by the
pass that records how the blocks are called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..checks import whole_number
from ..errors import InputError, must
from ..lazy import torch
from .family import Family, submodule

Cut = tuple[int, ...]
Visit = Callable[[Sequence[int], "torch.Tensor"], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """
    One recorded call of a module.

    Parameters
    ----------
    module : torch.nn.Module
    args : tuple
        Positional arguments after the states: masks, positions.
    kwargs : mapping
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedRun:
    """
    One recorded run of a base model, after which its blocks can be run on other states.

    Parameters
    ----------
    calls : list of Call
        One per block, in the order in which they ran.
    layers : dict of int to Tensor
        States of the requested layers, in the layout of the blocks.
    after : list of Call
        Calls after the first block that also read the embedding output; empty in most families.
    """

    calls: list[Call] = field(default_factory=list)
    layers: dict[int, torch.Tensor] = field(default_factory=dict)
    after: list[Call] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Node:
    """A node of the tree of cuts: the cuts that end here, and the blocks that run next."""

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
        The inputs of the base model, examples first.
    cuts : sequence of tuple of int
        The blocks that run, numbered from 1, in their order; with none, the embedding output is the last
        state. A block with a mask or a scale of its own keeps it.
    visit : callable
        Called once for each distinct cut with the indices of the cuts equal to it, and its last states,
        shape (examples, tokens, features), after the model's final norm where it has one. The states must
        not be modified.

    Notes
    -----
    States are held where cuts diverge: those of layers of the full model, and at most one more per block
    during the descent. The results equal those of a model that is really cut, up to rounding.
    """
    names = _names(base, family)
    check_cuts(cuts, len(names))
    root = _tree(cuts, names)
    trunk = _trunk(root, names)
    norm = None if family.final_norm is None else submodule(base, family.final_norm)

    def final_states(states: torch.Tensor) -> torch.Tensor:
        states = states if norm is None else norm(states)
        return states.transpose(0, 1) if family.time_major else states

    # States of the full model are needed again only where a cut ends or diverges from it.
    needed = [layer for layer, node in trunk.items() if node.ends or _aside(node, trunk)]
    with torch.inference_mode():
        recording = record(base, family, inputs, needed)
        pending: list[tuple[torch.Tensor, int | None, int, _Node]]
        pending = [(recording.layers[layer], None, layer, trunk[layer]) for layer in reversed(needed)]
        while pending:
            states, block, ran, node = pending.pop()
            if block is not None:
                states = step(recording, block, states, first=ran == 1)
            if node.ends:
                visit(node.ends, final_states(states))
            pending += [(states, following, ran + 1, child) for following, child in _aside(node, trunk)]


def check_cuts(cuts: Sequence[Cut], depth: int) -> None:
    """Raise if there are no cuts, or one names a block beyond the depth of the model."""
    if not len(cuts):
        raise must("cuts", "at least one", 0)
    for cut in cuts:
        for block in cut:
            whole_number("a block of a cut", block, 1, depth)


def record(
    base: torch.nn.Module, family: Family, inputs: Mapping[str, torch.Tensor], keep: Collection[int]
) -> RecordedRun:
    """
    Run a base model unchanged, and record how its blocks are called.

    Parameters
    ----------
    base, family, inputs
        As in `walk`.
    keep : collection of int
        Layers whose states are kept.

    Returns
    -------
    RecordedRun
    """
    recording = RecordedRun()
    with _recording(base, family, recording, frozenset(keep)):
        base(**inputs, **family.arguments)
    depth = len(family.blocks_of(base))
    if len(recording.calls) != depth:
        name = type(base).__name__
        raise InputError(f"{name} must run its {depth} blocks once each, but it ran {len(recording.calls)}.")
    _check_repeated(recording.calls)
    return recording


def step(recording: RecordedRun, block: int, states: torch.Tensor, *, first: bool) -> torch.Tensor:
    """
    Run one block.

    Parameters
    ----------
    recording : RecordedRun
        The recording of the same batch.
    block : int
        Numbered from 1.
    states : Tensor
        Shape (examples, tokens, features), or tokens first where the family is time-major.
    first : bool
        Whether this is the first block to run: the module after a model's first block then runs after it.

    Returns
    -------
    Tensor
        In the shape of the states.
    """
    call = recording.calls[block - 1]
    out = _states(call.module(states, *call.args, **call.kwargs))
    for following in recording.after if first else ():
        out = _states(following.module(states, out, *following.args, **following.kwargs))
    return out


@contextmanager
def _recording(
    base: torch.nn.Module, family: Family, recording: RecordedRun, keep: frozenset[int]
) -> Iterator[None]:
    blocks = family.blocks_of(base)

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if len(recording.calls) in keep:
            recording.layers[len(recording.calls)] = args[0]
        recording.calls.append(Call(module=module, args=args[1:], kwargs=kwargs))

    def after(_: Any, __: Any, result: Any) -> None:
        # The last layer; every other one is the input of the next block.
        if len(recording.calls) == len(blocks) and len(blocks) in keep:
            recording.layers[len(blocks)] = _states(result)

    def once(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # `step` supplies the embedding output and the output of the first block.
        recording.after.append(Call(module=module, args=args[2:], kwargs=kwargs))

    # A handle of a hook removes it on exit.
    with ExitStack() as hooks:
        for block in dict.fromkeys(blocks):
            hooks.enter_context(block.register_forward_pre_hook(before, with_kwargs=True))
            hooks.enter_context(block.register_forward_hook(after))
        if family.after_first in dict(base.named_modules()):
            module = submodule(base, str(family.after_first))
            hooks.enter_context(module.register_forward_pre_hook(once, with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(after))
        yield


def _states(value: Any) -> torch.Tensor:
    return value[0] if isinstance(value, (tuple, list)) else value


def _names(base: torch.nn.Module, family: Family) -> list[int]:
    """Return for each block the number of the first block that is the same module."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(id(b), number) for number, b in enumerate(family.blocks_of(base), start=1)]


def _tree(cuts: Sequence[Cut], names: Sequence[int]) -> _Node:
    root = _Node()
    for number, cut in enumerate(cuts):
        node = root
        for block in cut:
            node = node.then.setdefault(names[block - 1], _Node())
        node.ends.append(number)
    return root


def _trunk(root: _Node, names: Sequence[int]) -> dict[int, _Node]:
    """Map layers to the nodes on the path of the full model."""
    trunk, node = {0: root}, root
    for layer, name in enumerate(names, start=1):
        if name not in node.then:
            break
        node = node.then[name]
        trunk[layer] = node
    return trunk


def _aside(node: _Node, trunk: Mapping[int, _Node]) -> list[tuple[int, _Node]]:
    """List the blocks that run next, except for the one on the path of the full model."""
    return [(block, child) for block, child in node.then.items() if child not in trunk.values()]


def _check_repeated(calls: Sequence[Call]) -> None:
    """Raise if a block that runs several times is called with different arguments."""
    seen: dict[int, Call] = {}
    for call in calls:
        first_call = seen.setdefault(id(call.module), call)
        alike = len(first_call.args) == len(call.args) and first_call.kwargs.keys() == call.kwargs.keys()
        pairs = [*zip(first_call.args, call.args, strict=False)]
        pairs += [(value, call.kwargs.get(name)) for name, value in first_call.kwargs.items()]
        if not alike or any(first is not repeated for first, repeated in pairs):
            name = type(call.module).__name__
            raise InputError(f"{name} must be called alike each time it runs, but its arguments differ.")
