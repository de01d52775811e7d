"""Reader of bracketed trees in Penn Treebank format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from .examples import Example, Reader, ReaderOption
from .lines import Lines, by_file

TRACE = "-NONE-"

_PIECE = re.compile(r"[()]|[^ \t\r\n\f\v()]+")
_ESCAPED: Mapping[str, str] = MappingProxyType(
    {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
)


@dataclass(slots=True, kw_only=True)
class _Open:
    """A bracket that is not closed yet."""

    line: int
    label: str | None = None
    word: str | None = None
    full: bool = False


def read_ptb(lines: Lines, options: Mapping[str, Any]) -> Iterator[Example]:
    """Read the trees of one file."""
    for number, leaves in enumerate(_trees(lines), start=1):
        tagged_words = [(tag, word) for tag, word in leaves if tag != TRACE]
        words = tuple(_unescaped(word) if options["escapes"] == "undo" else word for _, word in tagged_words)
        yield Example(
            id=str(number),
            text=" ".join(words),
            words=words,
            marks={"xpos": tuple(tag for tag, _ in tagged_words)},
        )


def _trees(lines: Lines) -> Iterator[list[tuple[str, str]]]:
    """Yield the leaves of each tree as pairs of tag and word."""
    stack: list[_Open] = []
    leaves: list[tuple[str, str]] = []
    for line in lines:
        for piece in _PIECE.findall(line):
            if piece == "(":
                if stack and stack[-1].word is not None:
                    raise lines.refuse("have a word alone in its bracket", "another bracket follows it")
                if stack:
                    stack[-1].full = True
                stack.append(_Open(line=lines.number))
            elif not stack:
                raise lines.refuse("begin a tree with '('", f"got {piece!r} outside of all brackets")
            elif piece == ")":
                closed = stack.pop()
                if closed.word is not None and closed.label is not None:
                    leaves.append((closed.label, closed.word))
                elif not closed.full:
                    raise lines.refuse("have a word or a bracket in every bracket", "one has none")
                if not stack:
                    yield leaves
                    leaves = []
            elif stack[-1].full:
                raise lines.refuse("have words in brackets of their own", f"{piece!r} stands beside others")
            elif stack[-1].label is None:
                stack[-1].label = piece
            else:
                stack[-1].word, stack[-1].full = piece, True
    if stack:
        raise lines.refuse("have its bracket closed", "the file ends before", stack[0].line)


def _unescaped(word: str) -> str:
    return _ESCAPED.get(word) or word.replace("\\/", "/").replace("\\*", "*")


PTB = Reader(
    name="ptb",
    suffixes=(".mrg", ".ptb"),
    summary="Bracketed trees of the Penn Treebank, one example per tree; the words are the leaves without "
    "traces, the text is the words with blanks between them, tags are the mark xpos, the id is the tree's "
    "number, and a file of a folder or an archive is a group.",
    # Each of several files is a document of the treebank; a single file may be anything.
    read=partial(by_file, read_ptb, documents=True),
    options={
        "escapes": ReaderOption(
            default="undo",
            choices=("undo", "keep"),
            meaning="turn -LRB- and its like into brackets, \\/ into / and \\* into *, or keep them",
        )
    },
    nested=True,
)
