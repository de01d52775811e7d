"""Options that define a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..checks import check_choice, whole_number
from ..corpora.examples import Example
from ..corpora.examples import words_of as by_rule
from ..encoders.encoder import Encoder
from ..encoders.tokens import Tokens
from ..errors import InputError, must

KINDS = {
    "cls": "the token that stands for the whole input, one row per example",
    "mean": "the mean over the tokens of an example",
    "token": "every token; between models with one tokenizer only",
    "word": "every word, by its last, first or all sub-words",
}
SUBWORDS = ("last", "first", "mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    """
    Options that define which hidden states of a model become rows.

    Parameters
    ----------
    kind : {"cls", "mean", "token", "word"}
    subword : {"last", "first", "mean", "each"}
        Which sub-words represent a word. With "each" every sub-word is a row of that word, as span probes
        require; only between models with the same tokenizer.
    special : {"out", "in"}
        Whether special tokens count in a mean.
    framed : bool
        Whether the model's input has special tokens.
    distinct : bool
        Whether repeated sentences are left out.
    longest : int, optional
        The maximum number of tokens of an example; the maximum input length of the model when absent.
    sample : int, optional
        The number of rows to sample with the seed.
    seed : int
    published : str, optional
        The paper whose rows are reproduced.
    """

    kind: str
    subword: str = "last"
    special: str = "out"
    framed: bool = True
    distinct: bool = False
    longest: int | None = None
    sample: int | None = None
    seed: int = 0
    published: str | None = None

    def specification(self) -> dict[str, Any]:
        """Return everything that determines the rows, as plain data."""
        options = asdict(self)
        # The key of recordings in stores.
        options["exact"] = options.pop("published")
        return options

    def sentence(self) -> str:
        """Describe a row in words."""
        kind = {
            "cls": "one row per example: the token that stands for it",
            "mean": f"one row per example: the mean of its tokens, special ones {self.special}",
            "token": "one row per token, special ones out",
            "word": _SUBWORDS[self.subword],
        }[self.kind]
        framed = "" if self.framed else "; no special tokens in the input"
        cut = "" if self.longest is None else f"; inputs of at most {self.longest} tokens"
        sample = "" if self.sample is None else f"; {self.sample} rows drawn with seed {self.seed}"
        return f"{kind}{framed}{cut}{sample}"


_SUBWORDS = {
    "last": "one row per word: its last sub-word",
    "first": "one row per word: its first sub-word",
    "mean": "one row per word: the mean of its sub-words",
    "each": "one row per sub-word of a word",
}


def row_options(rows: str, *, published: str | None = None, **values: Any) -> RowOptions:
    """
    Validate the row options of a user.

    Parameters
    ----------
    rows : {"cls", "mean", "token", "word"}
    published : {"wu"}, optional
        Rows as in Wu et al. (2020): last sub-words, no special tokens in the input, and no repeated
        sentences.
    **values
        subword, special, longest, sample and seed, as in `RowOptions`.

    Returns
    -------
    RowOptions
    """
    check_choice("rows", rows, KINDS)
    options = RowOptions(kind=rows, **values)
    check_choice("subword", options.subword, SUBWORDS)
    if options.special not in ("in", "out"):
        raise must("special", "'in' or 'out'", options.special)
    for name, least in (("longest", 1), ("sample", 4)):
        if getattr(options, name) is not None:
            whole_number(name, getattr(options, name), least)
    whole_number("seed", options.seed, 0)
    if published is None:
        return options
    if published != "wu":
        raise must("published", "'wu'", published)
    if rows != "word" or options.subword != "last":
        raise InputError("published='wu' must be asked of the last sub-words of words, but got other rows.")
    return replace(options, framed=False, distinct=True, published="wu")


# Keys number units within this many to an example.
_UNITS = 2**32


def row_keys(examples: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Numbers of rows that ascend by example and unit; equal for rows of the same unit."""
    return examples * _UNITS + units


def split_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the examples and the units of keys of rows."""
    return keys // _UNITS, keys % _UNITS


def spans(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """
    Concatenate ranges of whole numbers.

    Examples
    --------
    >>> spans(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    return np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """
    The rows of several examples in one model.

    Parameters
    ----------
    examples : ndarray of int of shape (rows,)
        The index of the example of each row, in ascending order.
    units : ndarray of int of shape (rows,)
        The word or token of each row, in ascending order within an example; 0 for a row of the whole example.
        A word has several rows where every sub-word is a row.
    positions : ndarray of int of shape (selected tokens,)
        Positions of the tokens in their examples, row by row.
    sizes : ndarray of int of shape (rows,)
        The number of tokens that each row is the mean of.
    """

    examples: np.ndarray
    units: np.ndarray
    positions: np.ndarray
    sizes: np.ndarray

    @property
    def keys(self) -> np.ndarray:
        """The keys of the rows."""
        return row_keys(self.examples, self.units)

    def keep(self, keys: np.ndarray) -> Selection:
        """Return the selection restricted to rows with the given keys."""
        mask = np.isin(self.keys, keys)
        return Selection(
            examples=self.examples[mask],
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


def select(tokenized: Sequence[Tokens], options: RowOptions, reads: str) -> Selection:
    """
    Select the rows of examples.

    Parameters
    ----------
    tokenized : sequence of Tokens
        One for each example.
    options : RowOptions
    reads : {"first", "last", "none"}
        Which token represents the whole input in this model.

    Returns
    -------
    Selection
    """
    if options.kind == "cls" and reads == "none":
        raise InputError(
            "rows of cls must be asked of models with a token for the whole input, but one has none; use "
            "rows='mean'."
        )
    lengths = np.array([len(tokens) for tokens in tokenized], dtype=np.int64)
    examples = np.repeat(np.arange(len(lengths)), lengths)
    positions = spans(np.zeros_like(lengths), lengths)
    units = np.zeros_like(positions)
    if options.kind == "word":
        units = _joined([tokens.words for tokens in tokenized])
        inside = units >= 0
    elif options.kind == "cls":
        inside = positions == (0 if reads == "first" else np.repeat(lengths, lengths) - 1)
    elif options.kind == "mean" and options.special == "in":
        inside = np.ones(len(positions), dtype=bool)
    else:
        inside = ~_joined([tokens.special for tokens in tokenized]).astype(bool)
        if options.kind == "token":
            # A token's number must not depend on the special tokens before it.
            counts = np.bincount(examples[inside], minlength=len(lengths))
            units[inside] = spans(np.zeros_like(counts), counts)
    examples, units, positions = examples[inside], units[inside], positions[inside]
    order = np.argsort(row_keys(examples, units), kind="stable")
    examples, units, positions = examples[order], units[order], positions[order]
    if options.kind == "token" or (options.kind == "word" and options.subword == "each"):
        return Selection(
            examples=examples, units=units, positions=positions, sizes=np.ones(len(units), np.int64)
        )
    _, starts, sizes = np.unique(row_keys(examples, units), return_index=True, return_counts=True)
    examples, units = examples[starts], units[starts]
    if options.kind == "word" and options.subword != "mean":
        positions = positions[starts if options.subword == "first" else starts + sizes - 1]
        sizes = np.ones(len(units), np.int64)
    return Selection(examples=examples, units=units, positions=positions, sizes=sizes)


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)
