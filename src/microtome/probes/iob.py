"""Reading of named entities from columns of words and IOB tags, such as B-PER.

Tags may be of any of the usual schemes: IOB1, where B only separates two adjacent names of one type; IOB2,
where every name begins with B; and those that also mark the last word (E or L) and single words (S or U).
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
    Read sentences, each followed by an empty line.

    Parameters
    ----------
    lines : Lines
        A line that begins with # and does not end in a tag is a comment.

    Yields
    ------
    words, tags : tuple of str
    document : str
        Empty where the file names none.
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
    Find the spans of names.

    Parameters
    ----------
    tags : sequence of str
        One per word.

    Returns
    -------
    list of (str, (int, int))
        Type, first word, and the word after the last.

    Examples
    --------
    >>> spans_of(["I-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    [('PER', (0, 2)), ('LOC', (3, 4)), ('LOC', (4, 5))]
    """
    spans: list[tuple[str, tuple[int, int]]] = []
    kind, begin = "", 0
    for index, tag in enumerate((*tags, "O")):
        mark, _, tag_kind = tag.partition("-")
        # A name continues with I, E or L of its own type; any other tag ends it.
        if kind and not (mark in "IEL" and tag_kind == kind):
            spans.append((kind, (begin, index)))
            kind = ""
        if tag_kind and not kind:
            kind, begin = tag_kind, index
        if kind and mark in "ELSU":
            spans.append((kind, (begin, index + 1)))
            kind = ""
    return spans
