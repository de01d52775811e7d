"""Groups of examples that share a text or a document."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import blake2b

from ..items import Item

_NUMBERED = re.compile("(.+)-[0-9]+")


def joined(texts: list[tuple[str, ...]]) -> list[str]:
    """
    Group examples that share any text, directly or transitively.

    Parameters
    ----------
    texts : list of (tuple of str)
        The texts of each example that link it to others.

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
        for member in path:
            root[member] = text
        return text

    order: dict[str, int] = {}
    for row in texts:
        for text in row:
            root.setdefault(text, text)
            order.setdefault(text, len(order))
        tops = sorted({top(text) for text in row}, key=order.__getitem__)
        for merged in tops[1:]:
            root[merged] = tops[0]
    return [blake2b(top(row[0]).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest() for row in texts]


def documents(items: list[Item]) -> list[Item]:
    """Group sentences by the document in their ids."""
    names = [match[1] if (match := _NUMBERED.fullmatch(item.id)) else item.id for item in items]
    # Ids made of the name of the split and a number do not identify documents.
    if len(set(names)) < 2:
        return items
    return [replace(item, group=name) for item, name in zip(items, names, strict=True)]
