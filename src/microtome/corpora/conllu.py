"""Reader of CoNLL-U files, by syntactic words or by surface tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from .examples import Example, Reader, ReaderOption
from .lines import Lines, by_file
from .records import SeenIds

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

_FORM, _HEAD, _MISC = COLUMNS.index("form"), COLUMNS.index("head"), COLUMNS.index("misc")
# Columns that are joined for a surface token of several words; heads and relations hold between words.
_JOINED = ("lemma", "upos", "xpos", "feats")
_NUMBER = re.compile("0|[1-9][0-9]{0,8}")
_SEVERAL = re.compile("([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_EMPTY = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")

Numbered = list[tuple[int, str]]
# The columns of a surface token's line, and those of its words.
Token = tuple[list[str], Sequence[list[str]]]


def read_conllu(lines: Lines, options: Mapping[str, Any]) -> Iterator[Example]:
    """Read the sentences of one file."""
    seen = SeenIds()
    document, documents = "", 0
    for number, block in enumerate(_blocks(lines), start=1):
        comments = _comments(block)
        if "newdoc" in comments or "newdoc id" in comments:
            documents += 1
            document = comments.get("newdoc id") or f"newdoc {documents}"
        words, tokens = _parse(block, lines)
        sentence_id = comments.get("sent_id", "")
        if not sentence_id or seen.add(sentence_id):
            sentence_id = str(number)
            while seen.add(sentence_id):
                sentence_id = f"#{sentence_id}"
        if options["units"] == "words":
            forms = tuple(word[_FORM] for word in words)
            columns = zip(COLUMNS, zip(*words, strict=True), strict=True)
            marks = {name: values for name, values in columns if name not in ("id", "form")}
        else:
            forms = tuple(cells[_FORM] for cells, _ in tokens)
            marks = {name: _joined(tokens, COLUMNS.index(name)) for name in _JOINED}
            marks["misc"] = tuple(cells[_MISC] for cells, _ in tokens)
        text = comments.get("text") or _detokenized(tokens)
        yield Example(id=sentence_id, text=text, words=forms, marks=marks, group=document)


def _blocks(lines: Lines) -> Iterator[Numbered]:
    """Yield the blocks of numbered lines between blank lines."""
    block: Numbered = []
    for line in lines:
        if line.strip(" \t"):
            block.append((lines.number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _comments(block: Numbered) -> dict[str, str]:
    comments: dict[str, str] = {}
    for _, line in block:
        if not line.startswith("#"):
            break
        key, _, value = line[1:].partition("=")
        comments.setdefault(key.strip(" \t"), value.strip(" \t"))
    return comments


def _parse(block: Numbered, lines: Lines) -> tuple[list[list[str]], list[Token]]:
    """Split a sentence into its words and its surface tokens, and validate the format."""
    words: list[list[str]] = []
    numbers: list[int] = []
    tokens: list[Token] = []
    # Last word and line of the latest multi-word token, and the number of empty nodes after the latest word.
    last, covering, nodes = 0, 0, 0
    for number, line in block:
        if line.startswith("#"):
            if words or tokens:
                raise lines.refuse("stand before the words, as a comment", "it does not", number)
            continue
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise lines.refuse("have 10 columns, separated by tabs", f"it has {len(cells)}", number)
        if "" in cells:
            raise lines.refuse("have no empty column", f"{COLUMNS[cells.index('')]} is empty", number)
        key, due = cells[0], len(words) + 1
        if key == str(due):
            words.append(cells)
            numbers.append(number)
            nodes = 0
            if due > last:
                tokens.append((cells, (cells,)))
        elif (match := _SEVERAL.fullmatch(key)) and due == int(match[1]) > last and int(match[2]) >= due:
            last, covering = int(match[2]), number
            tokens.append((cells, ()))
        elif (match := _EMPTY.fullmatch(key)) and (int(match[1]), int(match[2])) == (due - 1, nodes + 1):
            nodes += 1
        else:
            raise lines.refuse(
                f"have the number {due} or one that may stand before it", f"got {key!r}", number
            )
    if last > len(words):
        raise lines.refuse(f"be followed by the words up to {last}", f"the last is {len(words)}", covering)
    if not words:
        raise lines.refuse("be followed by the words of a sentence", "there are none", block[-1][0])
    for number, cells in zip(numbers, words, strict=True):
        head = cells[_HEAD]
        if head != "_" and (not _NUMBER.fullmatch(head) or int(head) > len(words)):
            raise lines.refuse(f"have a head between 0 and {len(words)}, or _", f"got {head!r}", number)
    return words, [_with_words(token, words) for token in tokens]


def _with_words(token: Token, words: list[list[str]]) -> Token:
    cells, parts = token
    first, _, last = cells[0].partition("-")
    return cells, parts or words[int(first) - 1 : int(last)]


def _joined(tokens: list[Token], column: int) -> tuple[str, ...]:
    return tuple("+".join(word[column] for word in words) for _, words in tokens)


def _detokenized(tokens: list[Token]) -> str:
    spaces = ["" if "SpaceAfter=No" in cells[_MISC].split("|") else " " for cells, _ in tokens]
    return "".join(cells[_FORM] + space for (cells, _), space in zip(tokens, spaces, strict=True)).rstrip(" ")


CONLLU = Reader(
    name="conllu",
    suffixes=(".conllu",),
    summary="Universal Dependencies, one example per sentence without its empty nodes; the id is sent_id "
    "where it is new, else the number of the sentence, the group that of newdoc, the columns are marks.",
    read=partial(by_file, read_conllu),
    options={
        "units": ReaderOption(
            default="words",
            choices=("words", "tokens"),
            meaning="syntactic words (do, n't), or surface tokens (don't) with the marks of their words "
            "joined by +, but without heads and relations",
        )
    },
)
