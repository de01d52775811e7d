"""Answer spans of a passage: from characters to tokens and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LONGEST_ANSWER = 30


def span_targets(answers: Sequence[tuple[int, str]], offsets: np.ndarray, null: int) -> dict[str, np.ndarray]:
    """
    Find the tokens of an answer in a window.

    Parameters
    ----------
    answers : sequence of (int, str)
        Start of each answer in the passage, in characters, and its text. The first one is the target.
    offsets : ndarray of int of shape (tokens, 2)
        Ranges of characters of the tokens of the passage; -1 for others.
    null : int
        The target where the window does not contain the complete answer, or there is no answer.

    Returns
    -------
    dict of str to ndarray
        `starts` and `ends`: first and last token.
    """
    first = last = null
    if len(answers):
        start, text = answers[0]
        # Tokens may hold the space before a word, so an answer may begin inside of one.
        begin, end = start + len(text) - len(text.lstrip()), start + len(text.rstrip())
        inside = offsets[:, 0] >= 0
        over = np.flatnonzero(inside & (offsets[:, 1] > begin) & (offsets[:, 0] < end))
        window = offsets[inside]
        complete = len(over) and window[:, 0].min() <= begin and window[:, 1].max() >= end
        if complete:
            first, last = int(over[0]), int(over[-1])
    return {"starts": np.asarray(first, dtype=np.int64), "ends": np.asarray(last, dtype=np.int64)}


def best_span(
    logits: np.ndarray, offsets: np.ndarray, *, longest: int = LONGEST_ANSWER
) -> tuple[float, int, int]:
    """
    Find the best answer in a window.

    Parameters
    ----------
    logits : ndarray of float of shape (tokens, 2)
        For each token, the logits of being the first and the last one of the answer.
    offsets : ndarray of int of shape (tokens, 2)
    longest : int
        Maximum number of tokens of an answer.

    Returns
    -------
    score : float
        Sum of the two logits; minus infinity where the window contains nothing of the passage.
    begin, end : int
        In characters of the passage.
    """
    positions = np.flatnonzero(offsets[:, 0] >= 0)
    best, begin, end = -np.inf, 0, 0
    starts, ends = logits[positions, 0].astype(np.float64), logits[positions, 1].astype(np.float64)
    for width in range(min(longest, len(positions))):
        sums = starts[: len(positions) - width] + ends[width:]
        at = int(sums.argmax())
        if sums[at] > best:
            best, begin, end = float(sums[at]), offsets[positions[at], 0], offsets[positions[at + width], 1]
    return best, int(begin), int(end)


def cut(passage: str, begin: int, end: int) -> str:
    """Extract characters from a passage, without surrounding white space that a token may contain."""
    return passage[begin:end].strip()
