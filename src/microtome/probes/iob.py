"""Which spans are names? Columns with a word first and a tag such as B-PER last, as files of entities have.

Tags may be of any of the usual schemes: IOB1, where B only parts two neighbors of one kind; IOB2, where every
name begins with B; and those that also mark the last word (E or L) and lone ones (S or U).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from ..corpora.lines import Lines

# A line that begins a document, as in the files of CoNLL-2003.
DOCUMENT = "-DOCSTART-"
_TAG = re.compile(r"[BIELSU]-\S+")


def tagged_sentences(lines: Lines) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], str]]:
    """
    Read sentences, each with an empty line after it.

    Parameters
    ----------
    lines : Lines
        What begins with # and ends in no tag is a comment.

    Yields
    ------
    words, tags : tuple of str
    document : str
        Empty where the file tells of none.
    """
    words: list[str] = []
    tags: list[str] = []
    documents = 0
    for line in chain(lines, [""]):
        cells = re.split(r"[ \t]+", line.strip(" \t"))
        if cells == [""] or cells[0] == DOCUMENT:
            if words:
                yield tuple(words), tuple(tags), f"document-{documents}" if documents else ""
            words, tags = [], []
            documents += cells[0] == DOCUMENT
        elif len(cells) > 1 and (cells[-1] == "O" or _TAG.fullmatch(cells[-1])):
            words.append(cells[0])
            tags.append(cells[-1])
        elif not line.startswith("#"):
            allowed = "begin with a word and end in a tag such as B-PER, I-PER or O"
            raise lines.refuse(allowed, f"got {line!r}")


def spans_of(tags: Sequence[str]) -> list[tuple[str, tuple[int, int]]]:
    """
    Find the names that tags tell of.

    Parameters
    ----------
    tags : sequence of str
        One a word.

    Returns
    -------
    list of (str, (int, int))
        Kind, first word, and the one after the last.

    Examples
    --------
    >>> spans_of(["I-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    [('PER', (0, 2)), ('LOC', (3, 4)), ('LOC', (4, 5))]
    """
    found: list[tuple[str, tuple[int, int]]] = []
    kind, begin = "", 0
    for place, tag in enumerate((*tags, "O")):
        mark, _, now = tag.partition("-")
        # A name goes on with I, E or L of its own kind; anything else ends it.
        if kind and not (mark in "IEL" and now == kind):
            found.append((kind, (begin, place)))
            kind = ""
        if now and not kind:
            kind, begin = now, place
        if kind and mark in "ELSU":
            found.append((kind, (begin, place + 1)))
            kind = ""
    return found
