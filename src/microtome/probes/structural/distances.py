"""Dependency trees: distances between words, and depths of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError, must
from ..logistic.scaling import as_layers


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
    heads: Any,
    sentences: Any = None,
    *,
    punctuation: Any = None,
    ids: Iterable[Any] | None = None,
    groups: Iterable[Any] | None = None,
) -> Trees:
    """
    Read dependency trees and check that they are trees.

    Parameters
    ----------
    heads : sequence of sequences of int, or array of shape (rows,)
        The head of each word, counted from 1 within its sentence; 0 for the root. Numbers may be written
        as text. A flat array needs `sentences`.
    sentences : array of shape (rows,), optional
        The sentence of each word. Words of one sentence are contiguous.
    punctuation : of the form of `heads`, of bool, optional
        Words to exclude from the scores of trees. None when absent.
    ids : iterable, optional
        Names of the sentences; those in `sentences`, or their numbers, when absent.
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
    if sentences is None:
        parts = [
            _numbers(sentence_heads, f"heads of sentence {sentence}")
            for sentence, sentence_heads in enumerate(heads)
        ]
        names: list[Any] = list(range(len(parts)))
    else:
        flat, sentence_names = _numbers(heads, "heads"), np.asarray(sentences)
        if sentence_names.shape != flat.shape:
            raise must("sentences", f"one for each of {len(flat)} words", sentence_names.shape)
        begins = (
            np.flatnonzero(np.concatenate([[True], sentence_names[1:] != sentence_names[:-1]]))
            if len(flat)
            else []
        )
        names = [sentence_names[begin].item() for begin in begins]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise InputError(f"words of one sentence must stand together, but those of {twice[0]!r} do not.")
        parts = np.split(flat, begins[1:]) if len(flat) else []
    if not parts:
        raise must("the number of sentences", "at least 1", 0)
    named = tuple(str(name) for name in (names if ids is None else ids))
    if len(named) != len(parts) or len(set(named)) != len(named):
        raise must("ids", f"different names for {len(parts)} sentences", f"{len(set(named))} names")
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    belongs = () if groups is None else tuple(groups)
    if belongs and len(belongs) != len(parts):
        raise must("groups", f"one for each of {len(parts)} sentences", len(belongs))
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    flat_heads = np.concatenate(parts)
    return Trees(
        ids=named,
        starts=starts,
        lengths=lengths,
        heads=flat_heads,
        depths=_depths(flat_heads, starts, lengths, named),
        punctuation=_marks(punctuation, lengths),
        groups=belongs,
    )


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
    Check the representations of words against their trees.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features), or sequence of them
        One for all words, or one for each sentence.
    trees : Trees

    Returns
    -------
    ndarray of shape (layers, rows, features)
        Not copied where X is one array on the CPU.
    """
    if isinstance(X, Sequence):
        if len(X) != len(trees):
            raise must("X", f"one array for each of {len(trees)} sentences", len(X))
        parts = [as_layers(part) for part in X]
        if len({(part.shape[0], part.shape[2]) for part in parts}) > 1:
            raise InputError("X must have the same layers and features in all sentences, but they differ.")
        wrong = [index for index, part in enumerate(parts) if part.shape[1] != trees.lengths[index]]
        if wrong:
            index = wrong[0]
            allowed = f"of {trees.lengths[index]} words in sentence {trees.ids[index]!r}"
            raise must("X", allowed, parts[index].shape[1])
        return np.concatenate(parts, axis=1)
    rows = as_layers(X)
    if rows.shape[1] != len(trees.heads):
        raise must("X", f"one row for each of {len(trees.heads)} words", rows.shape[1])
    return rows


def _numbers(values: Any, what: str) -> np.ndarray:
    try:
        raw = np.asarray(values)
        numbers = raw.astype(np.int64)
    except (TypeError, ValueError):
        raise must(what, "whole numbers", values) from None
    if numbers.ndim != 1 or (raw.dtype.kind == "f" and (raw != numbers).any()):
        raise must(what, "one whole number a word", values)
    return numbers


def _marks(punctuation: Any, lengths: np.ndarray) -> np.ndarray:
    total = int(lengths.sum())
    if punctuation is None:
        return np.zeros(total, dtype=bool)
    parts = [np.atleast_1d(np.asarray(sentence_marks, dtype=bool)) for sentence_marks in punctuation]
    marks = np.concatenate(parts) if parts else np.zeros(0, dtype=bool)
    nested = len(parts) == len(lengths) and [len(part) for part in parts] == lengths.tolist()
    if len(marks) != total or not (nested or len(parts) == total):
        raise must("punctuation", f"one mark for each of {total} words", len(marks))
    return marks


def _depths(heads: np.ndarray, starts: np.ndarray, lengths: np.ndarray, ids: tuple[str, ...]) -> np.ndarray:
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    if (empty := np.flatnonzero(lengths == 0)).size:
        raise InputError(f"every sentence must have a word, but {ids[empty[0]]!r} has none.")
    if (outside := np.flatnonzero((heads < 0) | (heads > lengths[sentence]))).size:
        at = outside[0]
        allowed = f"between 0 and {lengths[sentence[at]]}, its number of words"
        raise must(f"heads of sentence {ids[sentence[at]]!r}", allowed, int(heads[at]))
    roots = np.bincount(sentence[heads == 0], minlength=len(lengths))
    if (wrong := np.flatnonzero(roots != 1)).size:
        raise must(f"roots of sentence {ids[wrong[0]]!r}", "one word with the head 0", int(roots[wrong[0]]))
    depths, row = np.zeros(len(heads), dtype=np.int64), np.arange(len(heads))
    at = np.where(heads > 0, starts[sentence] + heads - 1, -1)
    above = at.copy()
    for _ in range(int(lengths.max())):
        row, at = row[at >= 0], at[at >= 0]
        depths[row] += 1
        at = above[at]
    if len(row):
        circle = int(sentence[row[0]])
        words = ", ".join(str(word_row - starts[circle] + 1) for word_row in row[sentence[row] == circle])
        raise InputError(
            f"heads of sentence {ids[circle]!r} must lead to its root, but words {words} never reach it."
        )
    return depths
