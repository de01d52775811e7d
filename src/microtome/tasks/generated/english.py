"""English inflection for the lexicons of the generated tasks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

IRREGULAR: Mapping[str, str] = MappingProxyType(
    {"child": "children", "freshman": "freshmen", "craftsman": "craftsmen"}
)


def words_in(text: str) -> tuple[str, ...]:
    """Split a text into its words."""
    return tuple(text.split())


def with_s(word: str) -> str:
    """
    Return the plural of a noun, or the third person of a verb.

    Examples
    --------
    >>> [with_s(word) for word in ("nurse", "baby", "boy", "coach", "child")]
    ['nurses', 'babies', 'boys', 'coaches', 'children']
    """
    if word in IRREGULAR:
        return IRREGULAR[word]
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


def with_article(phrase: str) -> str:
    """
    Put the indefinite article before a phrase.

    Examples
    --------
    >>> with_article("owl"), with_article("wet owl")
    ('an owl', 'a wet owl')
    """
    return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"


def sentence(text: str) -> str:
    """Add a capital at the beginning and a period at the end."""
    return f"{text[0].upper()}{text[1:]}."
