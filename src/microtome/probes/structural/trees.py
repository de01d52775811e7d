"""Dependency trees: distances between words, depths of words, and minimum spanning trees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError, must
from ..logistic.fitting import as_layers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trees:
    """
    Dependency trees of several sentences, with their words concatenated.

    Parameters
    ----------
    ids : tuple of str
        Ids of the sentences.
    starts, lengths : ndarray of int of shape (sentences,)
        First row and number of words of each sentence.
    heads : ndarray of int of shape (rows,)
        The head of each word, counted from 1 within its sentence; 0 for the root.
    depths : ndarray of int of shape (rows,)
        Number of edges between each word and its root.
    punctuation : ndarray of bool of shape (rows,)
        Words that are excluded from the scored trees.
    groups : tuple
        Cluster of each sentence, such as its document; empty where sentences are independent.
    """

    ids: tuple[str, ...]
    starts: np.ndarray
    lengths: np.ndarray
    heads: np.ndarray
    depths: np.ndarray
    punctuation: np.ndarray
    groups: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, sentence: int) -> slice:
        """Rows of the words of a sentence."""
        return slice(int(self.starts[sentence]), int(self.starts[sentence] + self.lengths[sentence]))


def read_trees(
    heads: Sequence[Any],
    *,
    punctuation: Sequence[Any] | None = None,
    ids: Iterable[Any] | None = None,
    groups: Iterable[Any] | None = None,
) -> Trees:
    """
    Read dependency trees and check that they are trees.

    Parameters
    ----------
    heads : sequence of sequences of int
        The head of each word, counted from 1 within its sentence; 0 for the root. Numbers may be written
        as text.
    punctuation : sequence of sequences of bool, optional
        Words to exclude from the scores of trees. None when absent.
    ids : iterable, optional
        Names of the sentences; their numbers when absent.
    groups : iterable, optional
        Cluster of each sentence, such as its document.

    Returns
    -------
    Trees

    Examples
    --------
    >>> trees = read_trees([[2, 0, 2, 3], [0, 1]])
    >>> trees.depths.tolist(), tree_distances(trees, 0)[0].tolist()
    ([1, 0, 1, 2, 0, 1], [0, 1, 2, 3])
    """
    if not len(heads):
        raise must("the number of sentences", "at least 1", 0)
    names = tuple(str(name) for name in (range(len(heads)) if ids is None else ids))
    if len(names) != len(heads) or len(set(names)) != len(names):
        raise must("ids", f"different names for {len(heads)} sentences", f"{len(set(names))} names")
    belongs = () if groups is None else tuple(groups)
    if belongs and len(belongs) != len(heads):
        raise must("groups", f"one for each of {len(heads)} sentences", len(belongs))
    parts = [_numbers(part, name) for part, name in zip(heads, names, strict=True)]
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    marks = [np.zeros(length) for length in lengths] if punctuation is None else punctuation
    if [len(sentence_marks) for sentence_marks in marks] != lengths.tolist():
        raise must("punctuation", f"one mark for each of {lengths.sum()} words", sum(map(len, marks)))
    return Trees(
        ids=names,
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        heads=np.concatenate(parts),
        depths=np.concatenate([word_depths(part, name) for part, name in zip(parts, names, strict=True)]),
        punctuation=np.concatenate(marks).astype(bool),
        groups=belongs,
    )


def word_depths(heads: np.ndarray, name: str) -> np.ndarray:
    """
    Count the edges between each word and its root.

    Parameters
    ----------
    heads : ndarray of int of shape (words,)
    name : str
        Of the sentence, for messages.

    Returns
    -------
    ndarray of int of shape (words,)

    Examples
    --------
    >>> word_depths(np.array([2, 0, 2, 3]), "s1").tolist()
    [1, 0, 1, 2]
    """
    if not len(heads):
        raise InputError(f"every sentence must have a word, but {name!r} has none.")
    if (outside := (heads < 0) | (heads > len(heads))).any():
        allowed = f"between 0 and {len(heads)}, its number of words"
        raise must(f"heads of sentence {name!r}", allowed, int(heads[outside][0]))
    if (roots := int((heads == 0).sum())) != 1:
        raise must(f"roots of sentence {name!r}", "one word with the head 0", roots)
    depths, above = np.zeros(len(heads), dtype=np.int64), heads
    while above.any() and depths.max() < len(heads):
        depths += above > 0
        above = np.where(above > 0, heads[above - 1], 0)
    if above.any():
        words = ", ".join(str(word + 1) for word in np.flatnonzero(above))
        raise InputError(
            f"heads of sentence {name!r} must lead to its root, but words {words} never reach it."
        )
    return depths


def tree_distances(trees: Trees, sentence: int) -> np.ndarray:
    """
    Count the edges between all pairs of words of a sentence.

    Returns
    -------
    ndarray of int of shape (words, words)
    """
    rows = trees.rows(sentence)
    heads, depths = trees.heads[rows], trees.depths[rows]
    above = np.eye(len(heads), dtype=np.float32)
    word, at = np.arange(len(heads)), heads
    while len(word):
        word, at = word[at > 0], at[at > 0]
        above[word, at - 1] = 1
        at = heads[at - 1]
    # The path between two words passes through their lowest common ancestor.
    shared = (above @ above.T).astype(np.int64) - 1
    return depths[:, None] + depths[None, :] - 2 * shared


def word_rows(X: Any, trees: Trees) -> np.ndarray:
    """
    Check that representations, shape (layers, rows, features), have one row for each word of some trees.

    Returns
    -------
    ndarray of shape (layers, rows, features)
        Not copied where X is on the CPU.
    """
    rows = as_layers(X)
    if rows.shape[1] != len(trees.heads):
        raise must("X", f"one row for each of {len(trees.heads)} words", rows.shape[1])
    return rows


def _numbers(values: Any, name: str) -> np.ndarray:
    raw = np.asarray(values)
    try:
        numbers = raw.astype(np.int64)
    except ValueError:
        raise must(f"heads of sentence {name!r}", "whole numbers", values) from None
    if numbers.ndim != 1 or (raw.dtype.kind == "f" and (raw != numbers).any()):
        raise must(f"heads of sentence {name!r}", "one whole number a word", values)
    return numbers


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
