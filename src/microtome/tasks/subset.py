"""How is a part of a split taken? Seeded, nested, with the labels in proportion, and groups kept whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType

import numpy as np

from ..errors import InputError, must
from ..randomness import generator
from .items import Split
from .task import Task

BINS = 10  # of the numbers of a regression task
# A group comes only when this many times its size were taken, so that a subset is nearly as large as asked.
PATIENCE = 10


def subset(split: Split, size: int, seed: int = 0) -> Split:
    """
    Take some examples of a split.

    All groups are put into one order that depends on the seed alone, and the first are taken; so a smaller
    subset is part of each larger one of the same seed. In the order the labels come in proportion: where
    every example is a group of its own, each label has its share of the subset to within one example.

    Parameters
    ----------
    split : Split
    size : int
        How many examples. Where groups do not allow it, the subset ends before the group that would go
        beyond it, and a note says so. Large groups come late in the order, lest they leave much undone.
    seed : int

    Returns
    -------
    Split
        In the order of the split.
    """
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= len(split):
        raise must("size", f"a whole number between 1 and {len(split):,}, the size of {split.name}", size)
    if size == len(split):
        return split
    kept = _first(split, size, seed)
    if not kept:
        raise InputError(
            f"size must allow the smallest group of {split.name}, but {size} is smaller than it."
        )
    told = f"{len(kept):,} of {len(split):,} examples, drawn with seed {seed}"
    if len(kept) < size:
        told += f"; {size:,} were asked for, but groups are kept whole"
    return replace(split, items=tuple(split.items[i] for i in sorted(kept)), notes=(*split.notes, told))


def held_out(task: Task, size: int, *, source: str = "validation", seed: int = 0) -> Task:
    """
    Cut one split into a training and a validation split, where the data has no other.

    Parameters
    ----------
    task : Task
    size : int
        How many examples to validate on; the rest is learned from.
    source : str
        The split to be cut.
    seed : int

    Returns
    -------
    Task
        With train and validation cut from the source, and all other splits as they were; a validation split
        that is not the source is kept as original_validation.
    """
    if source not in task.readers:
        task.split(source)
    kept = {n: r for n, r in task.readers.items() if n not in (source, "train", "validation")}
    if source != "validation" and "validation" in task.readers:
        kept["original_validation"] = task.readers["validation"]
    return _parts(task, source, {"validation": size}, seed, kept)


def cut(task: Task, source: str, shares: Mapping[str, float], *, seed: int = 0) -> Task:
    """
    Cut the only split of a task into several.

    Parameters
    ----------
    task : Task
    source : str
        The split to be cut.
    shares : mapping of str to float
        The share of the examples in each new split; train gets the rest.
    seed : int

    Returns
    -------
    Task
    """
    return _parts(task, source, shares, seed, {})


def _parts(task: Task, source: str, sizes: Mapping[str, float], seed: int, kept: Mapping) -> Task:
    @cache
    def parts() -> Mapping[str, Split]:
        rest = task.split(source)
        total = len(rest)
        made: dict[str, Split] = {}
        for name, size in sizes.items():
            count = size if isinstance(size, int) else max(1, round(size * total))
            if count >= len(rest):
                raise must("size", f"smaller than the {len(rest):,} examples of {task.name}/{source}", count)
            part = subset(rest, count, seed)
            taken = {item.id for item in part}
            rest = replace(rest, items=tuple(item for item in rest if item.id not in taken))
            if not rest.items:
                raise must("size", f"one that leaves groups of {task.name}/{source} to learn from", count)
            made[name] = part
        made["train"] = rest
        return {
            name: replace(part, name=name, notes=(*task.split(source).notes, _cut(part, total, source, seed)))
            for name, part in made.items()
        }

    def read(name: str) -> Split:
        return parts()[name]

    readers = {name: partial(read, name) for name in ("train", *sizes)}
    return replace(
        task,
        readers=MappingProxyType({**readers, **kept}),
        source=f"{task.source}, {source} cut with seed {seed}",
        train="train",
        validation="validation",
    )


def _cut(part: Split, total: int, source: str, seed: int) -> str:
    where = "the file" if source == "whole" else source
    return f"{len(part):,} of the {total:,} examples of {where}, cut with seed {seed}, groups kept whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Strata:
    """
    Groups sorted by the labels they have.

    Parameters
    ----------
    queues : list of (list of int)
        The groups of each stratum in random order.
    vectors : array of shape (strata, labels)
        How many examples of each label a group of the stratum has.
    """

    queues: list[list[int]]
    vectors: np.ndarray


def _first(split: Split, size: int, seed: int) -> list[int]:
    """Places of the examples of the first groups."""
    members: dict[int, list[int]] = {}
    for place, group in enumerate(split.groups.tolist()):
        members.setdefault(group, []).append(place)
    kept: list[int] = []
    for group in _order(split, members, seed):
        if len(kept) + len(members[group]) > size:
            break
        kept += members[group]
        if len(kept) == size:
            break
    return kept


def _order(split: Split, members: Mapping[int, list[int]], seed: int) -> Iterator[int]:
    labels = _labels(split)
    shuffled = generator(seed, "subset").permutation(len(members)).tolist()
    width = int(labels.max()) + 1
    found: dict[bytes, int] = {}
    queues: list[list[int]] = []
    vectors: list[np.ndarray] = []
    for group in shuffled:
        vector = np.bincount(labels[members[group]], minlength=width)
        place = found.setdefault(vector.tobytes(), len(queues))
        if place == len(queues):
            queues.append([])
            vectors.append(vector)
        queues[place].append(group)
    strata = _Strata(queues=queues, vectors=np.array(vectors))
    if len(queues) == 1:
        return iter(queues[0])
    if len(members) == len(split):
        return _by_turns(strata)
    return _balanced(strata)


def _labels(split: Split) -> np.ndarray:
    """The stratum of each example: its label, the bin of its number, or the only one there is."""
    targets = [item.target for item in split]
    if any(target is None or isinstance(target, tuple) for target in targets) or split.items[0].choices:
        return np.zeros(len(split), dtype=np.int64)
    values = np.array(targets)
    if np.issubdtype(values.dtype, np.integer):
        return values.astype(np.int64)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
    return np.searchsorted(edges, values, side="right").astype(np.int64)


def _by_turns(strata: _Strata) -> Iterator[int]:
    """
    Give single examples so that each label has its share of every beginning to within one.

    This is Tijdeman's rule for the chairman assignment problem: among the labels that are due, the one that
    would be late first.
    """
    counts = np.array([len(queue) for queue in strata.queues], dtype=np.float64)
    share = counts / counts.sum()
    least = 1 / (2 * len(counts) - 2)
    given = np.zeros(len(counts))
    for step in range(1, int(counts.sum()) + 1):
        due = share * step - given
        wait = np.where(due >= least - 1e-9, (1 - least - due) / share, np.inf)
        wait[given >= counts] = np.inf
        place = int(np.argmin(wait if np.isfinite(wait).any() else np.where(given < counts, -due, np.inf)))
        yield strata.queues[place][int(given[place])]
        given[place] += 1


def _balanced(strata: _Strata) -> Iterator[int]:
    """
    Give groups so that labels stay near their shares.

    Among the kinds of groups that are due by their own share, the one after which the labels are nearest
    to theirs; so a subset has not only the labels of the split but also its sizes of groups.
    """
    counts = np.array([len(queue) for queue in strata.queues], dtype=np.float64)
    vectors = strata.vectors.astype(np.float64)
    share = counts / counts.sum()
    total = counts @ vectors
    goal = total / total.sum()
    sizes = vectors.sum(axis=1)
    given = np.zeros(len(counts))
    have = np.zeros(vectors.shape[1])
    for step in range(1, int(counts.sum()) + 1):
        due = share * step - given
        after = np.abs(have + vectors - np.outer(have.sum() + sizes, goal)).max(axis=1) - 1e-6 * due
        left = given < counts
        small = left & (sizes <= max(have.sum() / PATIENCE, sizes[left].min()))
        ready = small & (due > 1e-9)
        place = int(np.argmin(np.where(ready if ready.any() else small, after, np.inf)))
        yield strata.queues[place][int(given[place])]
        given[place] += 1
        have += vectors[place]
