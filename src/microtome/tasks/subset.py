"""Stratified, nested and seeded subsets of splits, which keep groups together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from types import MappingProxyType

import numpy as np

from ..arguments import checked
from ..checks import whole_number
from ..errors import InputError, must
from ..randomness import generator
from .task import Split, Task

BINS = 10  # of the targets of a regression task
# A group is taken only after this many times its size, so that a subset is nearly of the requested size.
PATIENCE = 10


def subset(split: Split, size: int, seed: int = 0) -> Split:
    """
    Draw a subset of a split.

    The groups are put into an order that depends only on the seed, and the first are taken; a smaller subset
    is thus contained in each larger one of the same seed. The order is stratified by label: if every
    example is a group of its own, each label has its share of the subset to within one example.

    Parameters
    ----------
    split : Split
    size : int
        The number of examples. If groups do not allow it, the subset ends before the group that would exceed
        it, and a note reports this. Large groups come late in the order, so that little is missing.
    seed : int

    Returns
    -------
    Split
        In the order of the split.
    """
    whole_number(f"the size of a subset of {split.name}", size, 1, len(split))
    if size == len(split):
        return split
    indices = _first(split, size, seed)
    if not indices:
        raise InputError(
            f"size must allow the smallest group of {split.name}, but {size} is smaller than it."
        )
    note = f"{len(indices):,} of {len(split):,} examples, drawn with seed {seed}"
    if len(indices) < size:
        note += f"; {size:,} were asked for, but groups are kept whole"
    return replace(split, items=tuple(split.items[i] for i in sorted(indices)), notes=(*split.notes, note))


@checked
def held_out(task: Task, size: int, *, source: str = "validation", seed: int = 0) -> Task:
    """
    Divide one split into a training and a validation split.

    Parameters
    ----------
    task : Task
    size : int
        The number of validation examples; the others are for training.
    source : str
        The split to divide.
    seed : int

    Returns
    -------
    Task
        With train and validation taken from the source, and all other splits unchanged; a validation split
        that is not the source is kept as original_validation.

    Examples
    --------
    >>> import microtome as mt
    >>> task = mt.held_out(mt.task("polarity"), 200)
    >>> len(task.split("train")), len(task.split("validation"))
    (800, 200)
    """
    whole_number("size", size, 1)
    if source not in task.readers:
        task.split(source)
    readers = {n: r for n, r in task.readers.items() if n not in (source, "train", "validation")}
    if source != "validation" and "validation" in task.readers:
        readers["original_validation"] = task.readers["validation"]
    return cut(task, source, {"validation": size}, seed=seed, others=readers)


def cut(
    task: Task,
    source: str,
    sizes: Mapping[str, float],
    *,
    seed: int = 0,
    others: Mapping[str, Callable[[], Split]] | None = None,
) -> Task:
    """
    Divide a split of a task into several.

    Parameters
    ----------
    task : Task
    source : str
        The split to divide.
    sizes : mapping of str to (int or float)
        The number of examples in each new split, or their share; train gets the remaining ones.
    seed : int
    others : mapping of str to callable, optional
        Readers of further splits, which stay as they are.

    Returns
    -------
    Task
    """

    @cache
    def parts() -> Mapping[str, Split]:
        remaining = task.split(source)
        total = len(remaining)
        pieces: dict[str, Split] = {}
        for name, size in sizes.items():
            count = size if isinstance(size, int) else max(1, round(size * total))
            if count >= len(remaining):
                raise must(
                    "size", f"smaller than the {len(remaining):,} examples of {task.name}/{source}", count
                )
            part = subset(remaining, count, seed)
            taken = {item.id for item in part}
            remaining = replace(remaining, items=tuple(item for item in remaining if item.id not in taken))
            if not remaining.items:
                raise must("size", f"one that leaves groups of {task.name}/{source} to learn from", count)
            pieces[name] = part
        pieces["train"] = remaining
        return {
            name: replace(part, name=name, notes=(*task.split(source).notes, _cut(part, total, source, seed)))
            for name, part in pieces.items()
        }

    def read(name: str) -> Split:
        return parts()[name]

    readers = {name: partial(read, name) for name in ("train", *sizes)}
    return replace(
        task,
        readers=MappingProxyType({**readers, **(others or {})}),
        source=f"{task.source}, {source} cut with seed {seed}",
        train="train",
        validation="validation",
    )


def _cut(part: Split, total: int, source: str, seed: int) -> str:
    where = "the file" if source == "whole" else source
    return f"{len(part):,} of the {total:,} examples of {where}, cut with seed {seed}, groups kept whole"


def _first(split: Split, size: int, seed: int) -> list[int]:
    """Return the indices of the examples of the first groups."""
    members: dict[int, list[int]] = {}
    for index, group in enumerate(split.groups.tolist()):
        members.setdefault(group, []).append(index)
    indices: list[int] = []
    for group in _order(split, members, seed):
        if len(indices) + len(members[group]) > size:
            break
        indices += members[group]
    return indices


def _order(split: Split, members: Mapping[int, list[int]], seed: int) -> Iterator[int]:
    labels = _labels(split)
    shuffled = generator(seed, "subset").permutation(len(members)).tolist()
    width = int(labels.max()) + 1
    numbers: dict[bytes, int] = {}
    # Groups with the same number of examples of each label form a stratum, in random order.
    queues: list[list[int]] = []
    vectors: list[np.ndarray] = []
    for group in shuffled:
        vector = np.bincount(labels[members[group]], minlength=width)
        stratum = numbers.setdefault(vector.tobytes(), len(queues))
        if stratum == len(queues):
            queues.append([])
            vectors.append(vector)
        queues[stratum].append(group)
    if len(queues) == 1:
        return iter(queues[0])
    if len(members) == len(split):
        return _by_turns(queues)
    return _balanced(queues, np.array(vectors, dtype=np.float64))


def _labels(split: Split) -> np.ndarray:
    """Return the stratum of each example: its label, the bin of its number, or 0 for other targets."""
    targets = [item.target for item in split]
    if any(target is None or isinstance(target, tuple) for target in targets) or split.items[0].choices:
        return np.zeros(len(split), dtype=np.int64)
    values = np.array(targets)
    if np.issubdtype(values.dtype, np.integer):
        return values.astype(np.int64)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
    return np.searchsorted(edges, values, side="right").astype(np.int64)


def _by_turns(queues: list[list[int]]) -> Iterator[int]:
    """
    Iterate over single examples so that each label has its share of every prefix to within one.

    This is Tijdeman's algorithm for the chairman assignment problem: among the labels that are due, the one
    with the earliest deadline comes next.
    """
    counts = np.array([len(queue) for queue in queues], dtype=np.float64)
    share = counts / counts.sum()
    least = 1 / (2 * len(counts) - 2)
    taken = np.zeros(len(counts))
    for step in range(1, int(counts.sum()) + 1):
        due = share * step - taken
        wait = np.where(due >= least - 1e-9, (1 - least - due) / share, np.inf)
        wait[taken >= counts] = np.inf
        stratum = int(np.argmin(wait if np.isfinite(wait).any() else np.where(taken < counts, -due, np.inf)))
        yield queues[stratum][int(taken[stratum])]
        taken[stratum] += 1


def _balanced(queues: list[list[int]], vectors: np.ndarray) -> Iterator[int]:
    """
    Iterate over groups so that labels stay near their shares.

    Among the strata that are due by their own share, the one after which the labels are nearest to their
    shares comes next; a subset thus resembles the split in its labels and its sizes of groups. The vector of
    a stratum is the number of examples of each label in its groups.
    """
    counts = np.array([len(queue) for queue in queues], dtype=np.float64)
    share = counts / counts.sum()
    total = counts @ vectors
    goal = total / total.sum()
    sizes = vectors.sum(axis=1)
    taken = np.zeros(len(counts))
    label_counts = np.zeros(vectors.shape[1])
    for step in range(1, int(counts.sum()) + 1):
        due = share * step - taken
        after = (
            np.abs(label_counts + vectors - np.outer(label_counts.sum() + sizes, goal)).max(axis=1)
            - 1e-6 * due
        )
        available = taken < counts
        small = available & (sizes <= max(label_counts.sum() / PATIENCE, sizes[available].min()))
        ready = small & (due > 1e-9)
        stratum = int(np.argmin(np.where(ready if ready.any() else small, after, np.inf)))
        yield queues[stratum][int(taken[stratum])]
        taken[stratum] += 1
        label_counts += vectors[stratum]
