"""Options that define a row."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ..checks import check_choice, whole_number
from ..errors import InputError, must

KINDS = {
    "cls": "the token that stands for the whole input, one row an example",
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
            "cls": "one row an example: the token that stands for it",
            "mean": f"one row an example: the mean of its tokens, special ones {self.special}",
            "token": "one row a token, special ones out",
            "word": _SUBWORDS[self.subword],
        }[self.kind]
        framed = "" if self.framed else "; no special tokens in the input"
        cut = "" if self.longest is None else f"; inputs of at most {self.longest} tokens"
        sample = "" if self.sample is None else f"; {self.sample} rows drawn with seed {self.seed}"
        return f"{kind}{framed}{cut}{sample}"


_SUBWORDS = {
    "last": "one row a word: its last sub-word",
    "first": "one row a word: its first sub-word",
    "mean": "one row a word: the mean of its sub-words",
    "each": "one row a sub-word of a word",
}


def row_options(
    rows: str,
    *,
    subword: str = "last",
    special: str = "out",
    longest: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    published: str | None = None,
) -> RowOptions:
    """
    Validate the row options of a user.

    Parameters
    ----------
    rows : {"cls", "mean", "token", "word"}
    subword, special, longest, sample, seed
        As in `RowOptions`.
    published : {"wu"}, optional
        Rows as in Wu et al. (2020): last sub-words, no special tokens in the input, and no repeated
        sentences.

    Returns
    -------
    RowOptions
    """
    check_choice("rows", rows, KINDS)
    check_choice("subword", subword, SUBWORDS)
    if special not in ("in", "out"):
        raise must("special", "'in' or 'out'", special)
    for name, value, least in (("longest", longest, 1), ("sample", sample, 4)):
        if value is not None:
            whole_number(name, value, least)
    whole_number("seed", seed, 0)
    options = RowOptions(
        kind=rows, subword=subword, special=special, longest=longest, sample=sample, seed=seed
    )
    if published is None:
        return options
    if published != "wu":
        raise must("published", "'wu'", published)
    if rows != "word" or subword != "last":
        raise InputError("published='wu' must be asked of the last sub-words of words, but got other rows.")
    return replace(options, framed=False, distinct=True, published="wu")
