"""Selection of the tokens that make up each row of an example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..corpora.examples import Example
from ..corpora.examples import words_of as by_rule
from ..encoders.encoder import Encoder
from ..encoders.tokens import Tokens
from ..errors import InputError
from .options import RowOptions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """
    The rows of one example in one model.

    Parameters
    ----------
    units : ndarray of int of shape (rows,)
        The word or token of each row, in ascending order; 0 for a row of the whole example. A word has
        several rows where every sub-word is a row.
    positions : ndarray of int of shape (selected tokens,)
        Positions of the tokens, row by row.
    sizes : ndarray of int of shape (rows,)
        The number of tokens that each row is the mean of.
    """

    units: np.ndarray
    positions: np.ndarray
    sizes: np.ndarray

    def keep(self, units: np.ndarray) -> Selection:
        """Return the selection restricted to the given units."""
        mask = np.isin(self.units, units)
        return Selection(
            units=self.units[mask],
            positions=self.positions[np.repeat(mask, self.sizes)],
            sizes=self.sizes[mask],
        )


def tokenize(encoder: Encoder, examples: Sequence[Example], options: RowOptions) -> list[Tokens]:
    """Tokenize examples for one model: from their words where rows are words, else from their texts."""
    tokenizer_options = {"special": options.framed, "longest": options.longest}
    if options.kind == "word":
        second = [_second(example) for example in examples]
        return encoder.words([words_of(example) for example in examples], second=second, **tokenizer_options)
    texts = [(e.text, e.pair) if e.text is not None else (" ".join(words_of(e)), None) for e in examples]
    return encoder.texts(texts, **tokenizer_options)


def words_of(example: Example) -> Sequence[str]:
    """Return the words of an example: the given ones, or its text and its pair split at white space."""
    if example.words is not None:
        return example.words
    first = by_rule(example, "whitespace")
    return first if example.pair is None else (*first, *by_rule(example, "whitespace", side="pair"))


def is_pair(example: Example) -> bool:
    """Whether the words of an example come from two texts."""
    return example.words is None and example.pair is not None


def _second(example: Example) -> int | None:
    """Return the index of the first word of the second text; None where there is only one text."""
    return len(by_rule(example, "whitespace")) if is_pair(example) else None


def select(tokens: Tokens, options: RowOptions, reads: str) -> Selection:
    """
    Select the rows of one example.

    Parameters
    ----------
    tokens : Tokens
    options : RowOptions
    reads : {"first", "last", "none"}
        Which token represents the whole input in this model.

    Returns
    -------
    Selection
    """
    if options.kind == "word":
        return _words(tokens, options.subword)
    count = len(tokens)
    if options.kind == "token":
        positions = np.flatnonzero(~tokens.special)
        # A token's number must not depend on the special tokens before it.
        return Selection(
            units=np.arange(len(positions)), positions=positions, sizes=np.ones(len(positions), np.int64)
        )
    if options.kind == "cls":
        if reads == "none":
            raise InputError(
                "rows of cls must be asked of models with a token for the whole input, but one has none; use "
                "rows='mean'."
            )
        positions = np.array([0 if reads == "first" else count - 1], dtype=np.int64)[: min(count, 1)]
    else:
        positions = np.arange(count) if options.special == "in" else np.flatnonzero(~tokens.special)
    rows = min(len(positions), 1)
    return Selection(
        units=np.zeros(rows, np.int64), positions=positions, sizes=np.full(rows, len(positions), np.int64)
    )


def _words(tokens: Tokens, subword: str) -> Selection:
    positions = np.flatnonzero(tokens.words >= 0)
    words = tokens.words[positions]
    order = np.argsort(words, kind="stable")
    positions, words = positions[order], words[order]
    if subword == "each":
        return Selection(units=words, positions=positions, sizes=np.ones(len(words), np.int64))
    units, starts, sizes = np.unique(words, return_index=True, return_counts=True)
    if subword == "mean":
        return Selection(units=units, positions=positions, sizes=sizes)
    at = starts if subword == "first" else starts + sizes - 1
    return Selection(units=units, positions=positions[at], sizes=np.ones(len(units), np.int64))
