"""Examples of a corpus, and the rules by which they are split into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from ..errors import InputError, unknown

RULES: Mapping[str, str] = MappingProxyType(
    {
        "given": "the words that the corpus itself has",
        "whitespace": "the text, split at white space as str.split does",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """
    One sentence, line or record with its id.

    Parameters
    ----------
    id : str
        Unique in its corpus.
    text : str or None
        None only where the corpus has words and no text.
    pair : str or None
        The second text of a text pair.
    words : tuple of str, or None
        None where the corpus has text and no words; see `words_of`.
    marks : mapping of str to (tuple of str, or str)
        Further annotations: a tuple with one value per word (such as upos), or one value for the whole
        example (such as a label).
    group : str, optional
        The cluster of the example, such as its document; the example's id when absent.
    """

    id: str
    text: str | None = None
    pair: str | None = None
    words: tuple[str, ...] | None = None
    marks: Mapping[str, tuple[str, ...] | str] = field(default_factory=dict, hash=False)
    group: str = ""

    def __post_init__(self) -> None:
        if self.text is None and self.words is None:
            raise InputError(f"an example must have a text or words, but {self.id!r} has neither.")
        object.__setattr__(self, "marks", MappingProxyType(dict(self.marks)))
        object.__setattr__(self, "group", self.group or self.id)

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled; a dict can.
        values = {name: getattr(self, name) for name in self.__slots__}
        return partial(Example, **{**values, "marks": dict(self.marks)}), ()


def words_of(
    example: Example, rule: str = "whitespace", *, side: Literal["text", "pair"] = "text"
) -> tuple[str, ...]:
    """
    Return the words of an example by the given rule.

    Parameters
    ----------
    example : Example
    rule : str
        One of `RULES`.
    side : {"text", "pair"}
        Which of the two texts to split. Given words always belong to the first text.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> words_of(Example(id="1", text="Cut it,  thin!"))
    ('Cut', 'it,', 'thin!')
    >>> words_of(Example(id="1", words=("Cut", "it", ",", "thin", "!")), "given")
    ('Cut', 'it', ',', 'thin', '!')
    """
    if rule not in RULES:
        raise unknown("rule", rule, RULES)
    if side not in ("text", "pair"):
        raise unknown("side", side, ("text", "pair"))
    if rule == "given":
        if example.words is None or side == "pair":
            whose = "its pair" if side == "pair" else "it"
            raise InputError(
                f"rule must be whitespace for example {example.id!r}, but got 'given', and {whose} has no "
                "given words."
            )
        return example.words
    text = example.text if side == "text" else example.pair
    if text is None:
        raise InputError(f"example {example.id!r} must have a {side} to be split, but it has none.")
    return tuple(text.split())
