"""Which tokens are the answer, and which characters are the tokens? Spans of a passage, both ways."""

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
        Where answers begin in the passage, in characters, and how they read. The first one is learned.
    offsets : ndarray of int of shape (tokens, 2)
        Of the tokens of the passage; -1 for others.
    null : int
        The token that is right where the window does not hold the whole of the answer, or there is none.

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
        whole = len(over) and window[:, 0].min() <= begin and window[:, 1].max() >= end
        if whole:
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
        For each token to be the first and to be the last one.
    offsets : ndarray of int of shape (tokens, 2)
    longest : int
        Tokens of an answer at most.

    Returns
    -------
    score : float
        Sum of the two; minus infinity where the window holds nothing of the passage.
    begin, end : int
        In characters of the passage.
    """
    places = np.flatnonzero(offsets[:, 0] >= 0)
    best, begin, end = -np.inf, 0, 0
    starts, ends = logits[places, 0].astype(np.float64), logits[places, 1].astype(np.float64)
    for width in range(min(longest, len(places))):
        sums = starts[: len(places) - width] + ends[width:]
        at = int(sums.argmax())
        if sums[at] > best:
            best, begin, end = float(sums[at]), offsets[places[at], 0], offsets[places[at + width], 1]
    return best, int(begin), int(end)


def cut(passage: str, begin: int, end: int) -> str:
    """Take characters out of a passage, without the white space around them that a token may hold."""
    return passage[begin:end].strip()
