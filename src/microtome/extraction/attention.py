"""How does each word of a sentence attend to the others? Attention of sub-words, gathered into words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..rows.planning import WINDOW, Rows, windows
from ..rows.selecting import tokenize
from .batches import Budget, buckets
from .streaming import Progress, check_ids

if TYPE_CHECKING:
    from ..corpora.examples import Example
    from ..encoders.encoder import Encoder
    from ..encoders.tokens import Tokens

# Numbers of all attention maps of a batch at most: a quarter of a gigabyte.
NUMBERS = 2**26


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SentenceMaps:
    """
    Attention of one sentence in several models.

    Parameters
    ----------
    place : int
        Of the example in the corpus.
    maps : tuple of ndarray of shape (blocks, heads, words, words)
        By model. Row i says how word i spreads its attention over the words that have rows; it sums to 1.
    evened : int
        Rows that were spread evenly because all their attention went to tokens that are no words.
    """

    place: int
    maps: tuple[np.ndarray, ...]
    evened: int


def stream_attention(
    encoders: Sequence[Encoder],
    corpus: Iterable[Example],
    rows: Rows,
    *,
    window: int = WINDOW,
    progress: Progress | None = None,
) -> Iterator[SentenceMaps]:
    """
    Run encoders over a corpus and hand out word-level attention, sentence by sentence.

    Parameters
    ----------
    encoders : sequence of Encoder
    corpus : iterable of Example
    rows : Rows
        Of words.
    window : int
        Sentences that are sorted by length before they run.
    progress : callable, optional

    Yields
    ------
    SentenceMaps
        In the order of the corpus; sentences without rows are passed over.
    """
    if rows.options.kind != "word":
        raise InputError(f"attention must be asked of rows of words, but got rows of {rows.options.kind}.")
    for start, examples in windows(corpus, window):
        check_ids(rows, start, examples)
        places = [start + k for k in range(len(examples)) if len(rows.of_example(start + k))]
        chosen = [examples[place - start] for place in places]
        units = [rows.of_example(place) for place in places]
        found: list[list[tuple[np.ndarray, int]]] = [[] for _ in places]
        for encoder in encoders:
            cut = tokenize(encoder, chosen, rows.options) if chosen else []
            for k, one in enumerate(_of_model(encoder, cut, units)):
                found[k].append(one)
        for place, own in zip(places, found, strict=True):
            yield SentenceMaps(
                place=place,
                maps=tuple(maps for maps, _ in own),
                evened=sum(evened for _, evened in own),
            )
        if progress is not None:
            progress("sentences", start + len(examples), len(rows.ids))


def _of_model(
    encoder: Encoder, cut: list[Tokens], units: list[np.ndarray]
) -> Iterator[tuple[np.ndarray, int]]:
    found: dict[int, tuple[np.ndarray, int]] = {}
    lengths = [len(tokens) for tokens in cut]
    longest = max(lengths, default=1)
    budget = Budget(max(NUMBERS // (longest * encoder.maps_per_pair), longest))

    def work(part: Sequence[int]) -> None:
        maps = [block.double().cpu().numpy() for block in encoder.attend([cut[k] for k in part])]
        for row, k in enumerate(part):
            size = lengths[k]
            whole = np.stack([block[row, :, :size, :size] for block in maps])
            found[k] = to_words(whole, cut[k].words, units[k])

    for batch in buckets(lengths, budget.tokens):
        budget.run(batch, lengths, work)
    return iter([found[k] for k in range(len(cut))])


def to_words(maps: np.ndarray, words: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, int]:
    """
    Sum attention into words, and average it out of them.

    Parameters
    ----------
    maps : ndarray of shape (..., tokens, tokens)
        Rows sum to 1.
    words : ndarray of int of shape (tokens,)
        The word of each token; -1: of none.
    units : ndarray of int of shape (w,)
        The words that take part.

    Returns
    -------
    ndarray of shape (..., w, w)
        Rows sum to 1 again: what went to other tokens is left out.
    int
        Rows of which nothing was left, and which were spread evenly.

    Examples
    --------
    >>> to_words(np.array([[0.2, 0.3, 0.5], [0.1, 0.5, 0.4], [0.3, 0.3, 0.4]]), np.array([0, 0, -1]), [0])
    (array([[1.]]), 0)
    """
    member = (words[:, None] == np.asarray(units)[None, :]).astype(np.float64)
    into = maps @ member
    out = np.swapaxes(into, -1, -2) @ (member / member.sum(0))
    found = np.swapaxes(out, -1, -2)
    total = found.sum(-1, keepdims=True)
    empty = total <= 0
    found = np.where(empty, 1 / len(units), found / np.where(empty, 1.0, total))
    return found, int(empty.sum())
