"""What is one row? The choice of a user, checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

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
    Which states of a model become rows.

    Parameters
    ----------
    kind : {"cls", "mean", "token", "word"}
    subword : {"last", "first", "mean", "each"}
        Which sub-words stand for a word. With "each" every one is a row of that word, as probes of spans ask
        for; between models with one tokenizer only.
    special : {"out", "in"}
        Whether the tokens that a model adds count in a mean.
    framed : bool
        Whether the model sees those tokens at all.
    distinct : bool
        Whether a sentence that comes again is left out.
    longest : int, optional
        Tokens of an example at most; as many as the model reads when absent.
    sample : int, optional
        So many rows, drawn with the seed.
    seed : int
    exact : str, optional
        The paper whose variant was asked for.
    """

    kind: str
    subword: str = "last"
    special: str = "out"
    framed: bool = True
    distinct: bool = False
    longest: int | None = None
    sample: int | None = None
    seed: int = 0
    exact: str | None = None

    def specification(self) -> dict[str, Any]:
        """Everything that decides which rows there are, as plain data."""
        return asdict(self)

    def sentence(self) -> str:
        """Say what a row is."""
        kind = {
            "cls": "one row an example: the token that stands for it",
            "mean": f"one row an example: the mean of its tokens, special ones {self.special}",
            "token": "one row a token, special ones out",
            "word": _SUBWORDS[self.subword],
        }[self.kind]
        framed = "" if self.framed else "; no special tokens in the input"
        drawn = "" if self.sample is None else f"; {self.sample} rows drawn with seed {self.seed}"
        return f"{kind}{framed}{drawn}"


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
    exact: str | None = None,
) -> RowOptions:
    """
    Check what a user asked for.

    Parameters
    ----------
    rows : {"cls", "mean", "token", "word"}
    subword, special, longest, sample, seed
        As in `RowOptions`.
    exact : {"wu"}, optional
        Rows as Wu et al. 2020 took them: last sub-words, no special tokens in the input, and sentences that
        come again left out.

    Returns
    -------
    RowOptions
    """
    if rows not in KINDS:
        raise must("rows", f"one of {', '.join(KINDS)}", rows)
    if subword not in SUBWORDS:
        raise must("subword", f"one of {', '.join(SUBWORDS)}", subword)
    if special not in ("in", "out"):
        raise must("special", "'in' or 'out'", special)
    for name, value, least in (("longest", longest, 1), ("sample", sample, 4)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise must(name, f"a whole number of at least {least}", value)
    if not isinstance(seed, int) or seed < 0:
        raise must("seed", "a whole number of at least 0", seed)
    found = RowOptions(kind=rows, subword=subword, special=special, longest=longest, sample=sample, seed=seed)
    if exact is None:
        return found
    if exact != "wu":
        raise must("exact", "'wu'", exact)
    if rows != "word" or subword != "last":
        raise InputError("exact='wu' must be asked of the last sub-words of words, but got other rows.")
    return replace(found, framed=False, distinct=True, exact="wu")
