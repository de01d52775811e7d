"""Structural probes: linear maps under which squared distances approximate distances in syntax trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...checks import whole_number
from ...errors import must
from ...lazy import torch
from .fitting import Target, learn, place_words
from .trees import Trees, word_rows

EPOCHS = 40
# Minimum number of training sentences without improvement before the learning rate is lowered. Corpora of the
# published size have more per pass; with few batches per pass, noise would lower the rate too early.
ENOUGH = 1_000
NUMBERS = 1 << 23  # predicted at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Structural:
    """
    One structural probe per layer and seed.

    Parameters
    ----------
    target : {"distance", "depth"}
    weights : ndarray of shape (seeds, layers, rank, features)
        The map B. The distance of words i and j is |B (h_i - h_j)|^2; the depth of word i is |B h_i|^2.
    seeds : tuple of int
        Seeds of the initial weights and of the order of sentences.
    losses : ndarray of shape (seeds, layers, passes)
        Mean validation loss after each pass; NaN after early stopping.
    best : ndarray of int of shape (seeds, layers)
        Index of the pass whose weights are kept.
    usual_root : int
        Most frequent position of the root in the training sentences, counted from 0 among the words that
        are not punctuation.
    """

    target: Target
    weights: np.ndarray
    seeds: tuple[int, ...]
    losses: np.ndarray
    best: np.ndarray
    usual_root: int

    @property
    def rank(self) -> int:
        """Dimension of the space that the words are mapped to."""
        return self.weights.shape[2]


def fit_structural(
    X: Any,
    trees: Trees,
    held: tuple[Any, Trees],
    target: Target = "distance",
    *,
    rank: int | None = None,
    seeds: Sequence[int] = (0,),
    epochs: int = EPOCHS,
    enough: int = ENOUGH,
    device: Any = None,
) -> Structural:
    """
    Train the structural probes of all layers together.

    Absolute errors are summed over the pairs of words of a sentence and divided by the square of its length
    (depth: over its words, by its length). Adam, with batches of 20 sentences, starts with a learning rate
    of 0.001, which is divided by 10 after each epoch that does not lower the validation loss. A layer stops
    after 5 epochs without an improvement of 0.0001, and keeps the weights of its last improvement. Layers
    share the initial weights and the order of sentences, so the probe of a layer does not depend on the
    others. Where there are few sentences, an epoch consists of enough passes to process `enough` sentences.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
        Representations of words. Of float32 or float64, which is also the precision of the computation.
    trees : Trees
        Trees of the same words.
    held : (X, trees)
        Of the validation sentences.
    target : {"distance", "depth"}
    rank : int, optional
        Rank of the probes; the number of features when absent.
    seeds : sequence of int
        Seeds of the probes, one probe for each.
    epochs : int
        Maximum number of epochs, of at least `enough` sentences.
    enough : int
        Minimum number of sentences per epoch; 0 for one pass per epoch, as published.
    device : str or torch.device, optional
        Device to compute on; that of X when absent.

    Returns
    -------
    Structural

    References
    ----------
    Hewitt and Manning (2019), A structural probe for finding syntax in word representations, NAACL. Learning
    rates, early stopping and losses are those of the published code.
    """
    if target not in ("distance", "depth"):
        raise must("target", '"distance" or "depth"', target)
    whole_number("epochs", epochs, least=1)
    whole_number("enough", enough, least=0)
    compute_device = torch.device(device if device is not None else getattr(X, "device", "cpu"))
    rows, held_rows = word_rows(X, trees), word_rows(*held)
    if (*rows.shape[::2], rows.dtype) != (*held_rows.shape[::2], held_rows.dtype):
        allowed = f"of {rows.shape[0]} layers of {rows.shape[2]} features of {rows.dtype}"
        raise must("held", allowed, f"{held_rows.dtype} {held_rows.shape}")
    features = rows.shape[2]
    started = tuple(whole_number("seeds", seed, least=0) for seed in seeds)
    width = features if rank is None else rank
    if not started or len(set(started)) < len(started):
        raise must("seeds", "different whole numbers of at least 0", list(seeds))
    if not 1 <= width <= features:
        raise must("rank", f"from 1 to the number of features, {features}", rank)
    words = place_words(rows, trees, target, compute_device)
    held_words = place_words(held_rows, held[1], target, compute_device)
    passes = max(1, -(-enough // len(trees)))
    learned = [learn(words, held_words, target, width, seed, epochs, passes) for seed in started]
    return Structural(
        target=target,
        weights=np.stack([probe.weights for probe in learned]),
        seeds=started,
        losses=np.stack([probe.losses for probe in learned]),
        best=np.stack([probe.best for probe in learned]),
        usual_root=usual_root(trees),
    )


def predict_trees(
    probe: Structural, X: Any, trees: Trees, device: Any = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """
    Predict distances or depths, for sentences of one length at a time.

    Parameters
    ----------
    probe : Structural
    X : ndarray or Tensor of shape (layers, rows, features)
    trees : Trees
        Only the lengths of the sentences are used.
    device : str or torch.device, optional
        Device to compute on; that of X when absent.

    Yields
    ------
    sentences : ndarray of int of shape (n,)
        Indices of the sentences.
    predictions : ndarray of shape (seeds, layers, n, words, words) or (seeds, layers, n, words)
    """
    compute_device = torch.device(device if device is not None else getattr(X, "device", "cpu"))
    rows = word_rows(X, trees)
    seeds, layers, rank, features = probe.weights.shape
    if rows.shape[::2] != (layers, features):
        raise must("X", f"of {layers} layers of {features} features", rows.shape)
    B = torch.from_numpy(probe.weights).to(compute_device).mT
    for length in np.unique(trees.lengths):
        same = np.flatnonzero(trees.lengths == length)
        step = max(1, NUMBERS // int(seeds * layers * length * max(rank, length)))
        for begin in range(0, len(same), step):
            sentences = same[begin : begin + step]
            row_indices = (trees.starts[sentences][:, None] + np.arange(length)).ravel()
            words = torch.from_numpy(rows[:, row_indices]).to(compute_device, B.dtype)
            if probe.target == "distance":
                words -= words.mean(1, keepdim=True)
            Z = (words @ B).view(seeds * layers * len(sentences), int(length), rank)
            if probe.target == "distance":
                # From differences, not from products, so that identical words have identical distances.
                predictions = torch.cdist(Z, Z, compute_mode="donot_use_mm_for_euclid_dist").square_()
            else:
                predictions = Z.square().sum(-1)
            yield (
                sentences,
                predictions.view(seeds, layers, len(sentences), *predictions.shape[1:]).cpu().numpy(),
            )


def usual_root(trees: Trees) -> int:
    """
    Most frequent position of the root, counted from 0 among the words that are not punctuation.

    Examples
    --------
    >>> from microtome.probes.structural.trees import read_trees
    >>> usual_root(read_trees([[2, 0], [2, 0, 2], [0, 1]]))
    1
    """
    words = ~trees.punctuation
    before = np.cumsum(words) - words
    begin = np.repeat(before[trees.starts], trees.lengths)
    positions = (before - begin)[(trees.heads == 0) & words]
    return int(np.bincount(positions).argmax()) if len(positions) else 0
