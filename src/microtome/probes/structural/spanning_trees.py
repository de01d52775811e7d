"""Minimum spanning trees of many sentences at once."""

from __future__ import annotations

import numpy as np


def spanning_trees(distances: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """
    Find the minimum spanning tree of each sentence.

    Ties are broken by the order of words, as by Kruskal's algorithm on the pairs (0, 1), (0, 2), ...,
    (1, 2), ...; so the tree is unique.

    Parameters
    ----------
    distances : ndarray of shape (sentences, words, words)
        Symmetric and finite; a distance of 0 is the shortest edge.
    kept : ndarray of bool of shape (sentences, words)
        Words that belong to the tree.

    Returns
    -------
    ndarray of int of shape (sentences, words)
        The parent of each word, counted from 0; -1 for the first word and for words outside the tree.

    Examples
    --------
    >>> line = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> spanning_trees(line[None], np.array([[True, False, True, True]])).tolist()
    [[-1, -1, 0, 2]]
    """
    # Prim's algorithm: the tree grows from its first word by the lightest outgoing edge.
    sentences, words = kept.shape
    sentence, position = np.arange(sentences), np.arange(words)
    order = np.minimum.outer(position, position) * words + np.maximum.outer(position, position)
    latest = kept.argmax(1)
    parents = np.full((sentences, words), -1)
    outside = kept.copy()
    outside[sentence, latest] = False
    lightest = distances[sentence, latest].astype(np.float64)
    rank, source = order[latest], np.repeat(latest[:, None], words, axis=1)
    for _ in range(int(kept.sum(1).max(initial=0)) - 1):
        reach = np.where(outside, lightest, np.inf)
        first = reach == reach.min(1, keepdims=True)
        latest = np.where(first, rank, words**2).argmin(1)
        grows = outside[sentence, latest]  # False where every word is already in the tree
        parents[sentence[grows], latest[grows]] = source[sentence[grows], latest[grows]]
        outside[sentence, latest] = False
        new, new_rank = distances[sentence, latest], order[latest]
        closer = (new < lightest) | ((new == lightest) & (new_rank < rank))
        closer &= grows[:, None]
        lightest = np.where(closer, new, lightest)
        rank = np.where(closer, new_rank, rank)
        source = np.where(closer, latest[:, None], source)
    return parents


def shared_edges(parents: np.ndarray, true: np.ndarray) -> np.ndarray:
    """
    Count the undirected edges that trees share.

    Parameters
    ----------
    parents : ndarray of int of shape (..., sentences, words)
        As returned by `spanning_trees`.
    true : ndarray of int of shape (sentences, words)

    Returns
    -------
    ndarray of int of shape (..., sentences)
    """
    sentences, words = true.shape
    # An extra column absorbs the index -1 of words without a parent.
    joined = np.zeros((sentences, words, words + 1), dtype=bool)
    sentence, position = np.arange(sentences)[:, None], np.arange(words)[None]
    joined[sentence, position, true] = True
    at, word = np.nonzero(true >= 0)
    joined[at, true[at, word], word] = True
    joined[..., -1] = False
    return joined[sentence, position, parents].sum(-1)
