"""Candidate cuts: top cuts, spans, both at once, and those that similar layers or scores suggest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encoders.cutting import refusal
from ..errors import must
from ..training.cuts import Cut, depth_of

if TYPE_CHECKING:
    from ..tasks.items import Split
    from ..tasks.task import Task
    from ..training.models.taskmodel import TaskModel

# Up to this many blocks all subsets are tried.
ALL_SUBSETS = 6
# Up to this many blocks all spans are tried, alone and with a top cut: the latter cost nothing more, since
# the states of a shorter stack are met on the way.
ALL_SPANS = 16
BEAM = 12


def first_candidates(
    model: TaskModel, *, alike: np.ndarray | None = None, beam: int = BEAM
) -> tuple[list[Cut], str]:
    """
    List the cuts that are scored first.

    Parameters
    ----------
    model : TaskModel
    alike : ndarray of shape (depth + 1, depth + 1), optional
        Similarity of the layers, needed for models with more than `ALL_SPANS` blocks.
    beam : int
        Spans of each length, those between the most similar layers, where not all are tried.

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
    spans = [(first, last) for first in blocks for last in range(first, depth + 1)]
    description = "every top cut, every span, and every span with a top cut"
    if depth > ALL_SPANS:
        spans = likely_spans(spans, alike, beam)
        description = (
            f"every top cut, and for each length the {beam} spans between the most similar layers, each with "
            "every top cut"
        )
    cuts: dict[Cut, None] = dict.fromkeys(blocks[:size] for size in range(1, depth))
    for first, last in spans:
        for top in range(last + 1, depth + 1):
            cuts[blocks[: first - 1] + blocks[last:top]] = None
    return exportable(model, cuts), description


def likely_spans(
    spans: Sequence[tuple[int, int]], alike: np.ndarray | None, beam: int
) -> list[tuple[int, int]]:
    """
    Keep, for each length, the spans that change their input least.

    Parameters
    ----------
    spans : sequence of (int, int)
        First and last block.
    alike : ndarray of shape (layers, layers)
        Row first - 1, column last: what the first block reads and the last one gives.
    beam : int
    """
    if alike is None:
        raise must("similarities of layers", f"given for models of more than {ALL_SPANS} blocks", None)
    if isinstance(beam, bool) or not isinstance(beam, int) or beam < 1:
        raise must("beam", "a whole number above 0", beam)
    by_length: dict[int, list[tuple[int, int]]] = {}
    for first, last in sorted(spans, key=lambda span: -float(alike[span[0] - 1, span[1]])):
        selected = by_length.setdefault(last - first, [])
        if len(selected) < beam:
            selected.append((first, last))
    return [span for selected in by_length.values() for span in selected]


def more_candidates(model: TaskModel, costs: Mapping[Cut, float], removed: int) -> list[Cut]:
    """
    Take one more block out of the cheapest cut that removes so many.

    Parameters
    ----------
    model : TaskModel
    costs : mapping of cut to float
        What was scored already.
    removed : int

    Returns
    -------
    list of tuple of int
        Those that were not scored yet.
    """
    depth = depth_of(model)
    scored = [cut for cut in costs if len(cut) == depth - removed]
    if not scored or depth - removed < 2 or model.family.shared:
        return []
    best = min(scored, key=lambda cut: costs[cut])
    fewer = [tuple(b for b in best if b != out) for out in best]
    return exportable(model, [cut for cut in fewer if cut not in costs])


def exportable(model: TaskModel, cuts: Iterable[Cut]) -> list[Cut]:
    """Leave out cuts that no model of the library can be."""
    net: Any = model.net
    return [cut for cut in cuts if refusal(net, model.family, cut) is None]


def similar_layers(
    model: TaskModel, split: Split, task: Task, tokenizer: Any, *, longest: int | None, most: int = 500
) -> np.ndarray:
    """
    Compute the similarity of the layers on the examples that choose.

    Parameters
    ----------
    model : TaskModel
    split : Split
    task : Task
    tokenizer : Tokenizer
    longest : int, optional
    most : int
        Examples that are read at most.

    Returns
    -------
    ndarray of shape (depth + 1, depth + 1)
        Debiased CKA of the mean states of the examples.
    """
    from ..comparison.similarity import similarity_matrix
    from ..training.cuts import layer_states
    from ..training.inputs import encode

    items = split.items[:most]
    features = encode(items, task, tokenizer, longest=longest, mask=model.mask)

    def mean(states: Any, batch: dict[str, Any]) -> Any:
        mask = batch["attention_mask"]
        rows = mask.reshape(-1, mask.shape[-1], 1).to(states.dtype)
        means = (states * rows).sum(1) / rows.sum(1)
        return means if mask.ndim == 2 else means.view(*mask.shape[:2], -1).mean(1)

    states = layer_states(model, features, mean)
    return np.asarray(similarity_matrix(list(states), None, "debiased_cka")["debiased_cka"].values)
