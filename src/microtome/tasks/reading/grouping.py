"""Which examples belong together? Those that share a text, and sentences of one document."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import blake2b

from ..items import Item

_NUMBERED = re.compile("(.+)-[0-9]+")


def joined(texts: list[tuple[str, ...]]) -> list[str]:
    """
    Name the groups of examples that share any text, directly or through others.

    Parameters
    ----------
    texts : list of (tuple of str)
        The texts of each example by which it may be tied to others.

    Returns
    -------
    list of str
        A digest of the first text of each example's group.
    """
    root: dict[str, str] = {}

    def top(text: str) -> str:
        path = []
        while root[text] != text:
            path.append(text)
            text = root[text]
        for each in path:
            root[each] = text
        return text

    order: dict[str, int] = {}
    for row in texts:
        for text in row:
            root.setdefault(text, text)
            order.setdefault(text, len(order))
        tops = sorted({top(text) for text in row}, key=order.__getitem__)
        for other in tops[1:]:
            root[other] = tops[0]
    return [blake2b(top(row[0]).encode(), digest_size=8).hexdigest() for row in texts]


def documents(items: list[Item]) -> list[Item]:
    """Put sentences together whose ids say that they are of one document."""
    names = [found[1] if (found := _NUMBERED.fullmatch(item.id)) else item.id for item in items]
    # Ids that are numbers behind the name of the split say nothing of documents.
    if len(set(names)) < 2:
        return items
    return [replace(item, group=name) for item, name in zip(items, names, strict=True)]
