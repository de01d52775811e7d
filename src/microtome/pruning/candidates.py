"""Candidate cuts: top cuts, spans, both at once, and those that scores suggest."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ..encoders.cutting import refusal
from ..errors import must
from ..training.cuts import Cut, depth_of

if TYPE_CHECKING:
    from ..training.models.taskmodel import TaskModel

# Up to this many blocks all subsets are tried.
ALL_SUBSETS = 6


def first_candidates(model: TaskModel) -> tuple[list[Cut], str]:
    """
    List the cuts that are scored first.

    Parameters
    ----------
    model : TaskModel

    Returns
    -------
    cuts : list of tuple of int
        Blocks that stay, in the order of their number; at least one stays and at least one goes. Only such
        as can be exported.
    description : str
    """
    depth = depth_of(model)
    if depth < 2:
        raise must("a model to be cut", "at least 2 blocks deep", f"{depth}")
    blocks = tuple(range(1, depth + 1))
    if model.family.shared:
        # One block that runs several times: only how often counts.
        return exportable(model, [blocks[:size] for size in range(1, depth)]), "every smaller number of runs"
    if depth <= ALL_SUBSETS:
        subsets = [cut for size in range(1, depth) for cut in combinations(blocks, size)]
        return exportable(model, subsets), "every subset of the blocks"
    cuts: dict[Cut, None] = dict.fromkeys(blocks[:size] for size in range(1, depth))
    # A span with a top cut costs nothing more, since the states of a shorter stack are met on the way.
    for first, last in combinations(range(depth), 2):
        for top in range(last + 1, depth + 1):
            cuts[blocks[:first] + blocks[last:top]] = None
    return exportable(model, cuts), "every top cut, every span, and every span with a top cut"


def more_candidates(model: TaskModel, best: Iterable[Cut], scored: Collection[Cut]) -> list[Cut]:
    """
    Take one more block out of cuts.

    Parameters
    ----------
    model : TaskModel
    best : iterable of cut
    scored : collection of cut
        What was scored already.

    Returns
    -------
    list of tuple of int
        Those that were not scored yet, each once.
    """
    if model.family.shared:
        return []
    fewer = dict.fromkeys(tuple(b for b in cut if b != out) for cut in best if len(cut) > 1 for out in cut)
    return exportable(model, [cut for cut in fewer if cut not in scored])


def exportable(model: TaskModel, cuts: Iterable[Cut]) -> list[Cut]:
    """Leave out cuts that no model of the library can be."""
    net: Any = model.net
    return [cut for cut in cuts if refusal(net, model.family, cut) is None]
