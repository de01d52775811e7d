"""How many labels are right in each sentence? Counts that add up, so that intervals can be had of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, must
from ..inference.answers import Answers
from ..tasks.scores_declare import Labels, additive, ratio
from .edgebatch import Edges

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeCounts:
    """
    Labels that were found rightly, found wrongly, and missed.

    Parameters
    ----------
    sentences : ndarray of int of shape (sentences,)
        Their numbers.
    counts : ndarray of int of shape (seeds, inputs, sentences, 3)
        True positives, false positives and false negatives.
    seeds : tuple of int
    inputs : tuple of str
        Names of what the probes read.
    """

    sentences: np.ndarray
    counts: np.ndarray
    seeds: tuple[int, ...] = (0,)
    inputs: tuple[str, ...] = ("",)

    @property
    def f1(self) -> Array:
        """Micro-averaged F1 over all sentences, shape (seeds, inputs)."""
        return micro_f1(self.counts.sum(2))

    def answers(self, number: int, ids: Sequence[str], groups: Sequence[Any] | None = None) -> Answers:
        """
        Give the counts of one input to `microtome.inference.pairing.compare_scores`, with `EDGE_F1`.

        Parameters
        ----------
        number : int
            Of the input.
        ids : sequence of str
            Of all sentences, by their number.
        groups : sequence, optional
            What clusters all sentences, such as their documents.

        Returns
        -------
        Answers
            Of the sentences counted. What is right in a sentence is the number of its labels.
        """
        chosen = self.counts[:, number]
        return Answers(
            ids=[str(ids[at]) for at in self.sentences.tolist()],
            targets=(chosen[0, :, 0] + chosen[0, :, 2]).tolist(),
            predictions=list(chosen),
            groups=None if groups is None else [groups[at] for at in self.sentences.tolist()],
            seeds=self.seeds,
        )


def micro_f1(counts: Any) -> Array:
    """
    F1 of true positives, false positives and false negatives, shape (..., 3); 0 where there are none.

    Examples
    --------
    >>> float(micro_f1([2, 1, 1]))
    0.6666666666666666
    """
    found = np.asarray(counts, dtype=np.float64)
    return ratio(2 * found[..., 0], 2 * found[..., 0] + found[..., 1] + found[..., 2])


def _counted(predictions: Any, targets: Any = None, labels: Labels = ()) -> Array:
    found = np.asarray(predictions, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] != 3 or not len(found) or (found < 0).any():
        raise must("predictions", "true positives, false positives and false negatives a sentence", found)
    return found


def _nothing(predictions: Any, targets: Any = None, labels: Labels = ()) -> str | None:
    return None if _counted(predictions).any() else "there is no label and none was predicted"


def _extremes(sums: Array, n: int) -> tuple[Array, Array]:
    size = max(1.0, (sums[0] + sums[2]) / n)
    return np.array([0, size, size]), np.array([size, 0, 0])


EDGE_F1 = additive(
    name="edge_f1",
    title="Micro-averaged F1 of labels",
    # It scores counts of probes, not predictions of a task.
    kinds=(),
    parts=_counted,
    from_parts=micro_f1,
    extremes=_extremes,
    undefined=_nothing,
)


def count_labels(said: np.ndarray, edges: Edges, sentences: np.ndarray) -> np.ndarray:
    """
    Count what was said of some sentences.

    Parameters
    ----------
    said : ndarray of bool of shape (..., targets, labels)
        Labels that are said to be right, of the targets `edges.of(sentences)`.
    edges : Edges
    sentences : ndarray of int of shape (sentences,)

    Returns
    -------
    ndarray of int of shape (..., sentences, 3)
    """
    at = edges.of(sentences)
    if said.shape[-2:] != (len(at), len(edges.labels)):
        raise must("said", f"of shape (..., {len(at)}, {len(edges.labels)})", said.shape)
    right = edges.right[at]
    found = [(said & right).sum(-1), (said & ~right).sum(-1), (~said & right).sum(-1)]
    return by_sentence(np.stack(found, axis=-1), edges, sentences)


def by_sentence(each: np.ndarray, edges: Edges, sentences: np.ndarray) -> np.ndarray:
    """Add up counts of the targets of some sentences, shape (..., targets, 3), to (..., sentences, 3)."""
    left, right = (np.searchsorted(edges.owner, sentences, side) for side in ("left", "right"))
    ends = np.cumsum(right - left)
    total = np.zeros((*each.shape[:-2], each.shape[-2] + 1, 3), dtype=np.int64)
    np.cumsum(each, axis=-2, out=total[..., 1:, :])
    return total[..., ends, :] - total[..., ends - (right - left), :]


def majority(edges: Edges, train: Any, test: Any) -> EdgeCounts:
    """
    Count what one would get right without reading anything.

    Parameters
    ----------
    edges : Edges
    train, test : sequence of int
        Numbers of sentences.

    Returns
    -------
    EdgeCounts
        Of answering each target by the most frequent label; where targets have several labels, also by all
        others that more than half of the targets have.
    """
    learned, asked = edges.of(np.unique(np.asarray(train))), np.unique(np.asarray(test))
    if not len(learned) or not len(edges.of(asked)):
        raise InputError("sentences must have targets to learn from and to be scored on, but have none.")
    often = edges.right[learned].mean(0)
    said = np.arange(len(often)) == often.argmax()
    if edges.multilabel:
        said |= often > 0.5
    told = np.broadcast_to(said, (1, 1, len(edges.of(asked)), len(said)))
    return EdgeCounts(sentences=asked, counts=count_labels(told, edges, asked), inputs=("majority",))
