"""Does a layer hold syntax trees? A linear map under which squared distances are distances in the tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import must
from .structuralfit import Target, learn, place_words
from .treedistances import Trees, word_rows

EPOCHS = 40
# Sentences learned from in vain, at least, before the rate is lowered. Corpora of the published size have
# more in a pass; where a pass has few batches, chance would lower it before anything is learned.
ENOUGH = 1_000
NUMBERS = 1 << 23  # that are foretold at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Structural:
    """
    One structural probe a layer and seed.

    Parameters
    ----------
    target : {"distance", "depth"}
    weights : ndarray of shape (seeds, layers, rank, features)
        B. Words i and j are |B (h_i - h_j)|^2 apart; word i is |B h_i|^2 deep.
    seeds : tuple of int
        Of the starts and of the order of sentences.
    losses : ndarray of shape (seeds, layers, passes)
        Mean loss of the sentences that were held out, after each pass; NaN after a layer's end.
    best : ndarray of int of shape (seeds, layers)
        Pass, counted from 0, whose weights were kept.
    usual_root : int
        Where the root stands in most sentences that were learned from, counted from 0 among the words that
        are no punctuation.
    """

    target: Target
    weights: np.ndarray
    seeds: tuple[int, ...]
    losses: np.ndarray
    best: np.ndarray
    usual_root: int

    @property
    def rank(self) -> int:
        """Dimensions of the space in which the tree is sought."""
        return self.weights.shape[2]


def fit_structural(
    X: Any,
    trees: Trees,
    held_X: Any,
    held_trees: Trees,
    target: Target = "distance",
    *,
    ranks: Sequence[int] = (),
    seeds: Sequence[int] = (0,),
    epochs: int = EPOCHS,
    enough: int = ENOUGH,
    device: Any = None,
) -> tuple[Structural, ...]:
    """
    Train the structural probe of every layer, all of them together.

    Absolute errors are summed over the pairs of words of a sentence and divided by the square of its length
    (depth: over its words, by its length). Adam, with 20 sentences a batch, begins with a rate of 0.001, a
    tenth of it after each epoch that does not lower the loss of the held-out sentences. A layer ends after
    5 epochs without a gain of 0.0001, and keeps the weights of its last gain. Layers share the start and
    the order of sentences, so that each learns what it would learn alone. Where there are few sentences,
    an epoch is as many passes over them as it takes to learn from `enough`.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features), or sequence of them
        Representations of words, one array for all or one for each sentence. Of float32 or float64; all is
        computed in that precision.
    trees : Trees
        Of the same words.
    held_X, held_trees
        Sentences that were held out.
    target : {"distance", "depth"}
    ranks : sequence of int
        Each is a probe of its own; as many as features when empty.
    seeds : sequence of int
        Each is a probe of its own.
    epochs : int
        At most, of at least `enough` sentences.
    enough : int
        Sentences without a gain that lower the rate, at least; 0 for one pass, as published.
    device : str or torch.device, optional
        Where to compute; that of X when absent.

    Returns
    -------
    tuple of Structural
        One a rank.

    References
    ----------
    Hewitt and Manning (2019), A structural probe for finding syntax in word representations, NAACL. Rates,
    ends and losses are those of the published code.
    """
    import torch

    if target not in ("distance", "depth"):
        raise must("target", '"distance" or "depth"', target)
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise must("epochs", "a whole number of at least 1", epochs)
    if isinstance(enough, bool) or not isinstance(enough, int) or enough < 0:
        raise must("enough", "a whole number of at least 0", enough)
    place = torch.device(device if device is not None else getattr(X, "device", "cpu"))
    rows, held_rows = word_rows(X, trees), word_rows(held_X, held_trees)
    if (*rows.shape[::2], rows.dtype) != (*held_rows.shape[::2], held_rows.dtype):
        allowed = f"of {rows.shape[0]} layers of {rows.shape[2]} features of {rows.dtype}"
        raise must("held_X", allowed, f"{held_rows.dtype} {held_rows.shape}")
    features = rows.shape[2]
    tried, started = _different("ranks", ranks or (features,), 1), _different("seeds", seeds, 0)
    if max(tried) > features:
        raise must("ranks", f"at most the number of features, {features}", max(tried))
    words, held = (place_words(*pair, target, place) for pair in ((rows, trees), (held_rows, held_trees)))
    found, passes = [], max(1, -(-enough // len(trees)))
    for rank in tried:
        each = [learn(words, held, target, rank, seed, epochs, passes) for seed in started]
        found.append(
            Structural(
                target=target,
                weights=np.stack([one.weights for one in each]),
                seeds=started,
                losses=np.stack([one.losses for one in each]),
                best=np.stack([one.best for one in each]),
                usual_root=usual_root(trees),
            )
        )
    return tuple(found)


def foretell(
    probe: Structural, X: Any, trees: Trees, device: Any = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """
    Foretell distances or depths, for sentences of one length at a time.

    Parameters
    ----------
    probe : Structural
    X : ndarray or Tensor of shape (layers, rows, features), or sequence of them
    trees : Trees
        Only the lengths of the sentences are used.
    device : str or torch.device, optional
        Where to compute; that of X when absent.

    Yields
    ------
    sentences : ndarray of int of shape (some,)
        Their numbers.
    found : ndarray of shape (seeds, layers, some, words, words) or (seeds, layers, some, words)
    """
    import torch

    place = torch.device(device if device is not None else getattr(X, "device", "cpu"))
    rows = word_rows(X, trees)
    seeds, layers, rank, features = probe.weights.shape
    if rows.shape[::2] != (layers, features):
        raise must("X", f"of {layers} layers of {features} features", rows.shape)
    B = torch.from_numpy(probe.weights).to(place).mT
    for length in np.unique(trees.lengths):
        same = np.flatnonzero(trees.lengths == length)
        step = max(1, NUMBERS // int(seeds * layers * length * max(rank, length)))
        for at in range(0, len(same), step):
            some = same[at : at + step]
            chosen = (trees.starts[some][:, None] + np.arange(length)).ravel()
            words = torch.from_numpy(rows[:, chosen]).to(place, B.dtype)
            if probe.target == "distance":
                words -= words.mean(1, keepdim=True)
            Z = (words @ B).view(seeds * layers * len(some), int(length), rank)
            if probe.target == "distance":
                # From differences, not from products: words that are alike are exactly as far from others.
                found = torch.cdist(Z, Z, compute_mode="donot_use_mm_for_euclid_dist").square_()
            else:
                found = Z.square().sum(-1)
            yield some, found.view(seeds, layers, len(some), *found.shape[1:]).cpu().numpy()


def usual_root(trees: Trees) -> int:
    """
    Find where the root stands most often, counted from 0 among the words that are no punctuation.

    Examples
    --------
    >>> from microtome.probes.treedistances import read_trees
    >>> usual_root(read_trees([[2, 0], [2, 0, 2], [0, 1]]))
    1
    """
    words = ~trees.punctuation
    before = np.cumsum(words) - words
    begin = np.repeat(before[trees.starts], trees.lengths)
    places = (before - begin)[(trees.heads == 0) & words]
    return int(np.bincount(places).argmax()) if len(places) else 0


def _different(what: str, given: Sequence[int], least: int) -> tuple[int, ...]:
    found = tuple(given)
    whole = all(isinstance(each, int | np.integer) and not isinstance(each, bool) for each in found)
    if not found or not whole or min(found) < least or len(set(found)) < len(found):
        raise must(what, f"different whole numbers of at least {least}", list(found))
    return tuple(int(each) for each in found)
