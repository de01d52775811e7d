"""Word-level attention maps, aggregated from attention between sub-words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..context import Progress
from ..corpora.examples import Example
from ..encoders.encoder import Encoder
from ..encoders.tokens import Tokens
from ..errors import InputError
from ..rows.planning import WINDOW, Rows, windows
from ..rows.tokenizing import TokenCache
from .streaming import Budget, buckets, check_ids

# The maximum number of entries in all attention maps of a batch: a quarter of a gigabyte.
NUMBERS = 2**26


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SentenceMaps:
    """
    Attention of one sentence in several models.

    Parameters
    ----------
    place : int
        The index of the example in the corpus.
    maps : tuple of ndarray of shape (blocks, heads, words, words)
        One array per model. Row i is the attention distribution of word i over the words that have rows; it
        sums to 1.
    evened : int
        The number of rows set to the uniform distribution because all their attention went to tokens
        outside words.
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
    Run encoders over a corpus and yield word-level attention, sentence by sentence.

    Parameters
    ----------
    encoders : sequence of Encoder
    corpus : iterable of Example
    rows : Rows
        Rows of words.
    window : int
        The number of sentences that are sorted by length and batched together.
    progress : callable, optional

    Yields
    ------
    SentenceMaps
        In corpus order; sentences without rows are skipped.
    """
    if rows.options.kind != "word":
        raise InputError(f"attention must be asked of rows of words, but got rows of {rows.options.kind}.")
    cache = rows.tokens or TokenCache(rows.options)
    for start, examples in windows(corpus, window):
        check_ids(rows, start, examples)
        indices = [start + k for k in range(len(examples)) if len(rows.of_example(start + k))]
        sentences = [examples[index - start] for index in indices]
        units = [rows.of_example(index) for index in indices]
        maps_by_sentence: list[list[tuple[np.ndarray, int]]] = [[] for _ in indices]
        for encoder, tokenized in zip(encoders, cache.tokenize(encoders, sentences, indices), strict=True):
            for k, sentence_maps in enumerate(_of_model(encoder, tokenized, units)):
                maps_by_sentence[k].append(sentence_maps)
        for index, model_maps in zip(indices, maps_by_sentence, strict=True):
            yield SentenceMaps(
                place=index,
                maps=tuple(maps for maps, _ in model_maps),
                evened=sum(evened for _, evened in model_maps),
            )
        if progress is not None:
            progress("sentences", start + len(examples), len(rows.ids))


def _of_model(
    encoder: Encoder, tokenized: list[Tokens], units: list[np.ndarray]
) -> Iterator[tuple[np.ndarray, int]]:
    maps_by_index: dict[int, tuple[np.ndarray, int]] = {}
    lengths = [len(tokens) for tokens in tokenized]
    longest = max(lengths, default=1)
    budget = Budget(max(NUMBERS // (longest * encoder.maps_per_pair), longest))

    def work(part: Sequence[int]) -> None:
        maps = [block.double().cpu().numpy() for block in encoder.attend([tokenized[k] for k in part])]
        for row, k in enumerate(part):
            size = lengths[k]
            attention = np.stack([block[row, :, :size, :size] for block in maps])
            maps_by_index[k] = to_words(attention, tokenized[k].words, units[k])

    for batch in buckets(lengths, budget.tokens):
        budget.run(batch, lengths, work)
    return iter([maps_by_index[k] for k in range(len(tokenized))])


def to_words(maps: np.ndarray, words: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, int]:
    """
    Sum attention to the sub-words of a word, and average attention from them.

    Parameters
    ----------
    maps : ndarray of shape (..., tokens, tokens)
        Rows sum to 1.
    words : ndarray of int of shape (tokens,)
        The word of each token; -1 for tokens outside words.
    units : ndarray of int of shape (w,)
        The words to include.

    Returns
    -------
    ndarray of shape (..., w, w)
        Rows are renormalized to sum to 1 without the attention to other tokens.
    int
        The number of rows without attention to any of the words, which are set to the uniform distribution.

    Examples
    --------
    >>> to_words(np.array([[0.2, 0.3, 0.5], [0.1, 0.5, 0.4], [0.3, 0.3, 0.4]]), np.array([0, 0, -1]), [0])
    (array([[1.]]), 0)
    """
    member = (words[:, None] == np.asarray(units)[None, :]).astype(np.float64)
    into = maps @ member
    out = np.swapaxes(into, -1, -2) @ (member / member.sum(0))
    attention = np.swapaxes(out, -1, -2)
    total = attention.sum(-1, keepdims=True)
    empty = total <= 0
    attention = np.where(empty, 1 / len(units), attention / np.where(empty, 1.0, total))
    return attention, int(empty.sum())
