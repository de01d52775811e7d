"""Rows of labeled spans, and batches of them for edge probes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError, must
from ...lazy import torch
from ..targets import Annotated


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """
    Labeled spans of rows; use `dataclasses.replace(edges, right=...)` for other labels on the same spans.

    Parameters
    ----------
    spans : ndarray of int of shape (targets, slots, 2)
        First row of each span, and the row after its last.
    right : ndarray of bool of shape (targets, labels)
        Gold labels.
    owner : ndarray of int of shape (targets,)
        The sentence of each target, ascending.
    labels : tuple of str
    multilabel : bool
        Whether a target may have several labels or none.
    """

    spans: np.ndarray
    right: np.ndarray
    owner: np.ndarray
    labels: tuple[str, ...]
    multilabel: bool = False

    def __post_init__(self) -> None:
        count = len(self.owner)
        if self.spans.shape[:1] + self.spans.shape[2:] != (count, 2) or self.spans.shape[1] not in (1, 2):
            raise must("spans", f"of shape ({count}, 1 or 2, 2)", self.spans.shape)
        if self.right.shape != (count, len(self.labels)) or self.right.dtype != bool:
            actual = f"{self.right.dtype} of shape {self.right.shape}"
            raise must("right", f"bool of shape ({count}, {len(self.labels)})", actual)
        if count and (np.diff(self.owner) < 0).any():
            raise InputError("targets must be in the order of their sentences, but they are not.")
        if count and (self.spans[..., 0] >= self.spans[..., 1]).any():
            raise InputError("spans must have at least one row, but some have none.")

    @property
    def slots(self) -> int:
        """Number of spans per target, 1 or 2."""
        return self.spans.shape[1]

    @property
    def wide(self) -> tuple[bool, ...]:
        """For each slot, whether any span has several rows."""
        sizes = self.spans[..., 1] - self.spans[..., 0]
        return tuple(bool((sizes[:, slot] > 1).any()) for slot in range(self.slots))

    def of(self, sentences: np.ndarray) -> np.ndarray:
        """Indices of the targets of the given sentences, in their order."""
        begin, end = (np.searchsorted(self.owner, sentences, side) for side in ("left", "right"))
        return in_ranges(begin, end)


def in_ranges(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """
    Concatenate ranges of integers.

    Examples
    --------
    >>> in_ranges(np.array([3, 7]), np.array([5, 8])).tolist()
    [3, 4, 7]
    """
    sizes = end - begin
    return np.arange(sizes.sum()) + np.repeat(begin - np.cumsum(sizes) + sizes, sizes)


def find_edges(found: Annotated, examples: Any, units: Any) -> Edges:
    """
    Find the rows of labeled spans among those extracted from the same sentences.

    Parameters
    ----------
    found : Annotated
        Labels of words or spans.
    examples : ndarray of int of shape (rows,)
        The sentence of each row, ascending, as in `Activations.rows.examples`.
    units : ndarray of int of shape (rows,)
        The word of each row, ascending within a sentence; a word may have several rows.

    Returns
    -------
    Edges
        Without the targets that have a word without a row.

    Examples
    --------
    The rows of sentences that were extracted by `extract(encoder, found.sentences)` are those of
    `find_edges(found, taken.rows.examples, taken.rows.units)`.
    """
    if found.target.kind == "trees":
        raise must("a target for edge probing", "of words or spans", found.target.name)
    examples, units = np.asarray(examples, dtype=np.int64), np.asarray(units, dtype=np.int64)
    if examples.ndim != 1 or examples.shape != units.shape or not len(examples):
        raise must("rows", "a sentence and a word for each", f"{examples.shape} and {units.shape}")
    if examples[-1] >= len(found.sentences):
        raise must("sentences of rows", f"below {len(found.sentences)}", int(examples[-1]))
    wide = int(max(units.max(initial=0), found.spans.max(initial=0))) + 1
    key = examples * wide + units
    if (np.diff(key) < 0).any():
        raise InputError("rows must be in the order of sentences and words, but they are not.")
    rows = np.searchsorted(key, found.owner[:, None, None] * wide + found.spans)
    words = np.concatenate([[0], np.cumsum(np.diff(key, prepend=-1) > 0)])
    complete_spans = words[rows[..., 1]] - words[rows[..., 0]] == found.spans[..., 1] - found.spans[..., 0]
    complete_targets = complete_spans.all(1)
    if not complete_targets.any():
        raise InputError("rows must hold the words of at least one target, but they hold none.")
    return Edges(
        spans=rows[complete_targets],
        right=found.right[complete_targets],
        owner=found.owner[complete_targets],
        labels=found.labels,
        multilabel=found.target.multilabel,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slot:
    """
    Spans of one slot in a batch.

    Parameters
    ----------
    rows : Tensor of int of shape (sets, slot rows), optional
        Indices into the rows of the batch; all rows when absent.
    places : Tensor of int of shape (sets, members), optional
        Rows of all spans, one span after the other, as indices into the rows of the slot; the rows in
        their order when absent.
    spans : Tensor of int of shape (sets, members), optional
        The target of each member; padding belongs to an extra target. Absent where every span is one row.
    starts : Tensor of int of shape (sets, targets + 1), optional
        Index of the first member of each span.
    """

    rows: torch.Tensor | None
    places: torch.Tensor | None
    spans: torch.Tensor | None = None
    starts: torch.Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """
    A batch of sentences, one set for each seed, with short sets padded at the end.

    Parameters
    ----------
    rows : Tensor of int of shape (sets, rows)
        Rows of all spans, ascending.
    slots : tuple of Slot
    right : Tensor of shape (sets, targets, labels)
        Gold labels.
    share : Tensor of shape (sets, targets)
        Weight of each target in the mean loss of its set; 0 for padding.
    counts : tuple of (int, int)
        Number of rows and of targets of each set, without padding.
    """

    rows: torch.Tensor
    slots: tuple[Slot, ...]
    right: torch.Tensor
    share: torch.Tensor
    counts: tuple[tuple[int, int], ...]


def make_batch(edges: Edges, sets: Sequence[np.ndarray], device: Any = "cpu") -> Batch:
    """
    Collate the targets of sentences into a padded batch.

    Parameters
    ----------
    edges : Edges
    sets : sequence of ndarray of int
        Sentences that have targets, one set for each seed.
    device : str or device

    Returns
    -------
    Batch
    """
    wide = edges.wide
    targets = [edges.of(np.sort(sentences)) for sentences in sets]
    slot_rows = [
        [_slot_rows(edges.spans[set_targets, slot], wide[slot]) for slot in range(edges.slots)]
        for set_targets in targets
    ]
    rows = [set_rows[0] if len(set_rows) == 1 else np.union1d(*set_rows) for set_rows in slot_rows]

    def placed(values: Sequence[np.ndarray], fill: int = 0) -> torch.Tensor:
        out = np.full((len(values), max(map(len, values))), fill)
        for line, value in zip(out, values, strict=True):
            line[: len(value)] = value
        return torch.from_numpy(out).to(device)

    most = max(map(len, targets))
    slots = []
    for slot in range(edges.slots):
        own_rows = [set_rows[slot] for set_rows in slot_rows]
        ends = [edges.spans[set_targets, slot] for set_targets in targets]
        members = [
            in_ranges(set_ends[:, 0], set_ends[:, 1]) if wide[slot] else set_ends[:, 0] for set_ends in ends
        ]
        places = [np.searchsorted(r, m) for r, m in zip(own_rows, members, strict=True)]
        same = all(len(r) == len(a) for r, a in zip(own_rows, rows, strict=True))
        direct = all(np.array_equal(p, np.arange(len(r))) for p, r in zip(places, own_rows, strict=True))
        pooling: dict[str, torch.Tensor] = {}
        if wide[slot]:
            sizes = [set_ends[:, 1] - set_ends[:, 0] for set_ends in ends]
            pooling["spans"] = placed(
                [np.repeat(np.arange(len(set_sizes)), set_sizes) for set_sizes in sizes], most
            )
            # Padding targets have no rows: they begin where the last target ends.
            pooling["starts"] = torch.from_numpy(
                np.stack([np.cumsum([0, *set_sizes, *[0] * (most - len(set_sizes))]) for set_sizes in sizes])
            ).to(device)
        slots.append(
            Slot(
                rows=None
                if same
                else placed([np.searchsorted(a, r) for a, r in zip(rows, own_rows, strict=True)]),
                places=None if direct and not wide[slot] else placed(places),
                **pooling,
            )
        )
    gold = np.zeros((len(sets), most, len(edges.labels)), dtype=np.float32)
    share = np.zeros(gold.shape[:2], dtype=np.float32)
    for index, set_targets in enumerate(targets):
        gold[index, : len(set_targets)] = edges.right[set_targets]
        share[index, : len(set_targets)] = 1 / (len(set_targets) * len(edges.labels))
    return Batch(
        rows=placed(rows),
        slots=tuple(slots),
        right=torch.from_numpy(gold).to(device),
        share=torch.from_numpy(share).to(device),
        counts=tuple((len(r), len(set_targets)) for r, set_targets in zip(rows, targets, strict=True)),
    )


def _slot_rows(spans: np.ndarray, wide: bool) -> np.ndarray:
    return np.unique(in_ranges(spans[:, 0], spans[:, 1]) if wide else spans[:, 0])
