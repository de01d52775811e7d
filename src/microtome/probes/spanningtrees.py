"""Which tree do distances draw? The lightest that joins all words, for many sentences at once."""

from __future__ import annotations

import numpy as np


def spanning_trees(distances: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """
    Find the minimum spanning tree of each sentence.

    Edges of one length are taken in the order of their words, as by Kruskal's algorithm on the pairs
    (0, 1), (0, 2), ..., (1, 2), ...; so the tree is unique.

    Parameters
    ----------
    distances : ndarray of shape (sentences, words, words)
        Symmetric and finite; a distance of 0 is the shortest edge.
    kept : ndarray of bool of shape (sentences, words)
        Words that the tree joins; the others stay outside.

    Returns
    -------
    ndarray of int of shape (sentences, words)
        Of each word the one it was joined to, counted from 0; -1 for the first word and those outside.

    Examples
    --------
    >>> line = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> spanning_trees(line[None], np.array([[True, False, True, True]])).tolist()
    [[-1, -1, 0, 2]]
    """
    # Prim's algorithm: the tree grows from its first word by the lightest edge that leads out of it.
    sentences, words = kept.shape
    each, place = np.arange(sentences), np.arange(words)
    order = np.minimum.outer(place, place) * words + np.maximum.outer(place, place)
    latest = kept.argmax(1)
    parents = np.full((sentences, words), -1)
    outside = kept.copy()
    outside[each, latest] = False
    lightest = distances[each, latest].astype(np.float64)
    rank, source = order[latest], np.repeat(latest[:, None], words, axis=1)
    for _ in range(int(kept.sum(1).max(initial=0)) - 1):
        reach = np.where(outside, lightest, np.inf)
        first = reach == reach.min(1, keepdims=True)
        latest = np.where(first, rank, words**2).argmin(1)
        grows = outside[each, latest]  # false where every word is inside already
        parents[each[grows], latest[grows]] = source[each[grows], latest[grows]]
        outside[each, latest] = False
        new, new_rank = distances[each, latest], order[latest]
        closer = (new < lightest) | ((new == lightest) & (new_rank < rank))
        closer &= grows[:, None]
        lightest = np.where(closer, new, lightest)
        rank = np.where(closer, new_rank, rank)
        source = np.where(closer, latest[:, None], source)
    return parents


def shared_edges(parents: np.ndarray, true: np.ndarray) -> np.ndarray:
    """
    Count the edges that trees share, whatever their direction.

    Parameters
    ----------
    parents : ndarray of int of shape (..., sentences, words)
        As from `spanning_trees`.
    true : ndarray of int of shape (sentences, words)

    Returns
    -------
    ndarray of int of shape (..., sentences)
    """
    sentences, words = true.shape
    # One more word takes the edges of words that have none.
    joined = np.zeros((sentences, words, words + 1), dtype=bool)
    each, place = np.arange(sentences)[:, None], np.arange(words)[None]
    joined[each, place, true] = True
    at, word = np.nonzero(true >= 0)
    joined[at, true[at, word], word] = True
    joined[..., -1] = False
    return joined[each, place, parents].sum(-1)
