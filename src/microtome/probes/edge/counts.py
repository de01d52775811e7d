"""True positives, false positives and false negatives per sentence, and micro-averaged F1 of edge probes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, must
from ...inference.answers import Answers
from ...scores.declare import Labels, additive, ratio
from .batches import Edges

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeCounts:
    """
    True positives, false positives and false negatives of each sentence.

    Parameters
    ----------
    sentences : ndarray of int of shape (sentences,)
        Indices of the sentences.
    counts : ndarray of int of shape (seeds, inputs, sentences, 3)
        True positives, false positives and false negatives.
    seeds : tuple of int
    """

    sentences: np.ndarray
    counts: np.ndarray
    seeds: tuple[int, ...] = (0,)

    @property
    def f1(self) -> Array:
        """Micro-averaged F1 over all sentences, shape (seeds, inputs)."""
        return micro_f1(self.counts.sum(2))

    def answers(self, number: int, ids: Sequence[str], groups: Sequence[Any] | None = None) -> Answers:
        """
        Convert the counts of one input for `microtome.inference.pairing.compare_scores`, with `EDGE_F1`.

        Parameters
        ----------
        number : int
            Index of the input.
        ids : sequence of str
            Ids of all sentences, by index.
        groups : sequence, optional
            Cluster of each sentence, such as its document.

        Returns
        -------
        Answers
            Of the counted sentences. The target of a sentence is its number of gold labels.
        """
        input_counts = self.counts[:, number]
        return Answers(
            ids=[str(ids[sentence]) for sentence in self.sentences.tolist()],
            targets=(input_counts[0, :, 0] + input_counts[0, :, 2]).tolist(),
            predictions=list(input_counts),
            groups=None if groups is None else [groups[sentence] for sentence in self.sentences.tolist()],
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
    tallies = np.asarray(counts, dtype=np.float64)
    return ratio(2 * tallies[..., 0], 2 * tallies[..., 0] + tallies[..., 1] + tallies[..., 2])


def _counted(predictions: Any, targets: Any = None, labels: Labels = ()) -> Array:
    counts = np.asarray(predictions, dtype=np.float64)
    if counts.ndim != 2 or counts.shape[1] != 3 or not len(counts) or (counts < 0).any():
        raise must("predictions", "true positives, false positives and false negatives a sentence", counts)
    return counts


def _nothing(predictions: Any, targets: Any = None, labels: Labels = ()) -> str | None:
    return None if _counted(predictions).any() else "there is no label and none was predicted"


def _extremes(sums: Array, n: int) -> tuple[Array, Array]:
    size = max(1.0, (sums[0] + sums[2]) / n)
    return np.array([0, size, size]), np.array([size, 0, 0])


EDGE_F1 = additive(
    name="edge_f1",
    title="Micro-averaged F1 of labels",
    # It scores the counts of probes, not the predictions of a task.
    kinds=(),
    parts=_counted,
    from_parts=micro_f1,
    extremes=_extremes,
    undefined=_nothing,
)


def count_labels(said: np.ndarray, edges: Edges, sentences: np.ndarray) -> np.ndarray:
    """
    Count the correct and incorrect labels of sentences.

    Parameters
    ----------
    said : ndarray of bool of shape (..., targets, labels)
        Predicted labels of the targets `edges.of(sentences)`.
    edges : Edges
    sentences : ndarray of int of shape (sentences,)

    Returns
    -------
    ndarray of int of shape (..., sentences, 3)
    """
    targets = edges.of(sentences)
    if said.shape[-2:] != (len(targets), len(edges.labels)):
        raise must("said", f"of shape (..., {len(targets)}, {len(edges.labels)})", said.shape)
    gold = edges.right[targets]
    tallies = [(said & gold).sum(-1), (said & ~gold).sum(-1), (~said & gold).sum(-1)]
    return by_sentence(np.stack(tallies, axis=-1), edges, sentences)


def by_sentence(each: np.ndarray, edges: Edges, sentences: np.ndarray) -> np.ndarray:
    """Sum counts of targets, shape (..., targets, 3), within sentences, to shape (..., sentences, 3)."""
    begin, end = (np.searchsorted(edges.owner, sentences, side) for side in ("left", "right"))
    ends = np.cumsum(end - begin)
    total = np.zeros((*each.shape[:-2], each.shape[-2] + 1, 3), dtype=np.int64)
    np.cumsum(each, axis=-2, out=total[..., 1:, :])
    return total[..., ends, :] - total[..., ends - (end - begin), :]


def majority(edges: Edges, train: Any, test: Any) -> EdgeCounts:
    """
    Counts of the majority baseline.

    Parameters
    ----------
    edges : Edges
    train, test : sequence of int
        Indices of sentences.

    Returns
    -------
    EdgeCounts
        Each target is assigned the most frequent label; where targets may have several labels, also every
        other label that more than half of the targets have.
    """
    learned, test_sentences = edges.of(np.unique(np.asarray(train))), np.unique(np.asarray(test))
    if not len(learned) or not len(edges.of(test_sentences)):
        raise InputError("sentences must have targets to learn from and to be scored on, but have none.")
    frequency = edges.right[learned].mean(0)
    predicted = np.arange(len(frequency)) == frequency.argmax()
    if edges.multilabel:
        predicted |= frequency > 0.5
    predictions = np.broadcast_to(predicted, (1, 1, len(edges.of(test_sentences)), len(predicted)))
    return EdgeCounts(
        sentences=test_sentences,
        counts=count_labels(predictions, edges, test_sentences),
    )
