"""Which rows are the spans of a sentence, and how do the sentences of a batch lie side by side?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, must
from .targets import Annotated

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """
    Labeled spans of rows; with other labels on the same spans it is `dataclasses.replace(edges, right=...)`.

    Parameters
    ----------
    spans : ndarray of int of shape (targets, slots, 2)
        First row of each span, and the one after its last.
    right : ndarray of bool of shape (targets, labels)
    owner : ndarray of int of shape (targets,)
        The sentence of each, rising.
    labels : tuple of str
    multilabel : bool
        Whether a target may have several labels or none.
    left_out : int
        Targets that lack a row, such as those behind the longest input.
    """

    spans: np.ndarray
    right: np.ndarray
    owner: np.ndarray
    labels: tuple[str, ...]
    multilabel: bool = False
    left_out: int = 0

    def __post_init__(self) -> None:
        count = len(self.owner)
        if self.spans.shape[:1] + self.spans.shape[2:] != (count, 2) or self.spans.shape[1] not in (1, 2):
            raise must("spans", f"of shape ({count}, 1 or 2, 2)", self.spans.shape)
        if self.right.shape != (count, len(self.labels)) or self.right.dtype != bool:
            told = f"{self.right.dtype} of shape {self.right.shape}"
            raise must("right", f"bool of shape ({count}, {len(self.labels)})", told)
        if count and (np.diff(self.owner) < 0).any():
            raise InputError("targets must be in the order of their sentences, but they are not.")
        if count and (self.spans[..., 0] >= self.spans[..., 1]).any():
            raise InputError("spans must have at least one row, but some have none.")

    @property
    def slots(self) -> int:
        """One span a target, or two."""
        return self.spans.shape[1]

    @property
    def wide(self) -> tuple[bool, ...]:
        """For each slot, whether some span has several rows."""
        sizes = self.spans[..., 1] - self.spans[..., 0]
        return tuple(bool((sizes[:, slot] > 1).any()) for slot in range(self.slots))

    def of(self, sentences: np.ndarray) -> np.ndarray:
        """Places of the targets of some sentences, in their order."""
        begin, end = (np.searchsorted(self.owner, sentences, side) for side in ("left", "right"))
        return in_ranges(begin, end)


def in_ranges(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """
    List all whole numbers of some ranges, one range after the other.

    Examples
    --------
    >>> in_ranges(np.array([3, 7]), np.array([5, 8])).tolist()
    [3, 4, 7]
    """
    sizes = end - begin
    return np.arange(sizes.sum()) + np.repeat(begin - np.cumsum(sizes) + sizes, sizes)


def find_edges(found: Annotated, examples: Any, units: Any) -> Edges:
    """
    Find the rows of labeled spans in what was extracted from the same sentences.

    Parameters
    ----------
    found : Annotated
        Of words or spans.
    examples : ndarray of int of shape (rows,)
        The sentence of each row, rising, as `Activations.rows.examples` has it.
    units : ndarray of int of shape (rows,)
        The word that each row is of, rising within a sentence; several rows may be of one word.

    Returns
    -------
    Edges
        Without targets of which some word has no row.

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
    whole = words[rows[..., 1]] - words[rows[..., 0]] == found.spans[..., 1] - found.spans[..., 0]
    kept = whole.all(1)
    if not kept.any():
        raise InputError("rows must hold the words of at least one target, but they hold none.")
    return Edges(
        spans=rows[kept],
        right=found.right[kept],
        owner=found.owner[kept],
        labels=found.labels,
        multilabel=found.target.multilabel,
        left_out=int((~kept).sum()),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slot:
    """
    The spans of one slot in a batch.

    Parameters
    ----------
    rows : Tensor of int of shape (sets, slot rows), optional
        Places among the rows of the batch; all of them where absent.
    places : Tensor of int of shape (sets, members), optional
        Rows of all spans, one span after the other, as places among the rows of the slot; those in their
        order where absent.
    spans : Tensor of int of shape (sets, members), optional
        The target of each; what fills up is of one more. Absent where every span is one row.
    starts : Tensor of int of shape (sets, targets + 1), optional
        Where each span begins among them.
    """

    rows: torch.Tensor | None
    places: torch.Tensor | None
    spans: torch.Tensor | None = None
    starts: torch.Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """
    Sentences that are read together, one set of them for each seed, short sets filled up at the end.

    Parameters
    ----------
    rows : Tensor of int of shape (sets, rows)
        Rows in any span, rising.
    slots : tuple of Slot
    right : Tensor of shape (sets, targets, labels)
    share : Tensor of shape (sets, targets)
        What each target weighs in the mean loss of its set; 0 for what fills up.
    counts : tuple of (int, int)
        Rows and targets of each set, without what fills up.
    """

    rows: torch.Tensor
    slots: tuple[Slot, ...]
    right: torch.Tensor
    share: torch.Tensor
    counts: tuple[tuple[int, int], ...]


def make_batch(edges: Edges, sets: Sequence[np.ndarray], device: Any = "cpu") -> Batch:
    """
    Lay the targets of sentences side by side.

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
    import torch

    wide = edges.wide
    chosen = [edges.of(np.sort(one)) for one in sets]
    own = [[_slot_rows(edges.spans[at, slot], wide[slot]) for slot in range(edges.slots)] for at in chosen]
    rows = [each[0] if len(each) == 1 else np.union1d(*each) for each in own]

    def placed(values: Sequence[np.ndarray], fill: int = 0) -> torch.Tensor:
        out = np.full((len(values), max(map(len, values))), fill)
        for line, value in zip(out, values, strict=True):
            line[: len(value)] = value
        return torch.from_numpy(out).to(device)

    most = max(map(len, chosen))
    slots = []
    for slot in range(edges.slots):
        mine = [each[slot] for each in own]
        ends = [edges.spans[at, slot] for at in chosen]
        members = [in_ranges(each[:, 0], each[:, 1]) if wide[slot] else each[:, 0] for each in ends]
        places = [np.searchsorted(r, m) for r, m in zip(mine, members, strict=True)]
        same = all(len(r) == len(a) for r, a in zip(mine, rows, strict=True))
        direct = all(np.array_equal(p, np.arange(len(r))) for p, r in zip(places, mine, strict=True))
        found: dict[str, torch.Tensor] = {}
        if wide[slot]:
            sizes = [each[:, 1] - each[:, 0] for each in ends]
            found["spans"] = placed([np.repeat(np.arange(len(one)), one) for one in sizes], most)
            # Targets that fill up have no rows: they begin where those of others end.
            found["starts"] = torch.from_numpy(
                np.stack([np.cumsum([0, *one, *[0] * (most - len(one))]) for one in sizes])
            ).to(device)
        slots.append(
            Slot(
                rows=None
                if same
                else placed([np.searchsorted(a, r) for a, r in zip(rows, mine, strict=True)]),
                places=None if direct and not wide[slot] else placed(places),
                **found,
            )
        )
    right = np.zeros((len(sets), most, len(edges.labels)), dtype=np.float32)
    share = np.zeros(right.shape[:2], dtype=np.float32)
    for place, at in enumerate(chosen):
        right[place, : len(at)] = edges.right[at]
        share[place, : len(at)] = 1 / (len(at) * len(edges.labels))
    return Batch(
        rows=placed(rows),
        slots=tuple(slots),
        right=torch.from_numpy(right).to(device),
        share=torch.from_numpy(share).to(device),
        counts=tuple((len(r), len(at)) for r, at in zip(rows, chosen, strict=True)),
    )


def _slot_rows(spans: np.ndarray, wide: bool) -> np.ndarray:
    return np.unique(in_ranges(spans[:, 0], spans[:, 1]) if wide else spans[:, 0])
