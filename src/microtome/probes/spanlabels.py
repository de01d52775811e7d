"""Readers of labeled spans from treebanks, SemEval, IOB and edge-probing files.

A reader gives each sentence the mark `targets`: one JSON object per target, with `span1`, `span2` where there
are two spans (first word, and the word after the last), and `label`, one or several. Files of the published
edge-probing layout contain it; other readers create it.

Tags of names may be of any of the usual schemes: IOB1, where B only separates two adjacent names of one type;
IOB2, where every name begins with B; and those that also mark the last word (E or L) and single words (S or
U).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..corpora.brackets import PTB, TRACE, read_ptb
from ..corpora.conllu import CONLLU
from ..corpora.examples import Example, Reader, words_of
from ..corpora.jsonl import JSONL
from ..corpora.lines import Lines, by_file
from ..errors import InputError
from ..tasks.formats import READ, Records

MARK = "targets"
# A line that begins a document, as in the files of CoNLL-2003.
DOCUMENT = "-DOCSTART-"
_TAG = re.compile(r"[BIELSU]-\S+")

Spans = tuple[tuple[int, int], ...]
Labeled = tuple[Spans, tuple[str, ...]]

_PIECE = re.compile(r"[()]|[^ \t\r\n\f\v()]+")
_MARKED = re.compile(r"<(/?)e([12])>")


def words_in(example: Example) -> tuple[str, ...]:
    """The words of an example, split at whitespace where they are not given."""
    return words_of(example, "whitespace" if example.words is None else "given")


def read_constituents(lines: Lines, options: Mapping[str, Any]) -> Iterator[Example]:
    """Read bracketed trees with the spans of their phrases."""
    tree_lines = list(lines)
    word_lines = Lines([f"{line}\n".encode() for line in tree_lines], lines.name, lines.prefix)
    # The reader of words rejects malformed trees before the phrases are parsed.
    for example, phrases in zip(read_ptb(word_lines, options), _phrases(tree_lines), strict=True):
        yield replace(example, marks={**example.marks, MARK: phrases})


def _phrases(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the phrases of each tree, without those that contain only traces."""
    stack: list[tuple[int, list[str]]] = []
    phrases: list[str] = []
    words = 0
    for line in lines:
        for piece in _PIECE.findall(line):
            if piece == "(":
                stack.append((words, []))
            elif piece != ")":
                stack[-1][1].append(piece)
            else:
                begin, pieces = stack.pop()
                if len(pieces) == 2:
                    words += pieces[0] != TRACE
                elif pieces and words > begin:
                    # The suffix of a category is a function (NP-SBJ) or the index of a trace (NP-1).
                    label = re.split("[-=|]", pieces[0])[0] or pieces[0]
                    phrases.append(told_span(label, (begin, words)))
                if not stack:
                    yield tuple(phrases)
                    phrases, words = [], 0


def read_relations(lines: Lines, options: Mapping[str, Any]) -> Iterator[Example]:
    """Read the sentences of SemEval-2010 task 8 with their two marked spans, split at whitespace."""
    source = Records(path=Path(lines.name), format="semeval")
    for number, record in enumerate(READ["semeval"](lines, source), start=1):
        words: list[str] = []
        ends: dict[tuple[str, str], int] = {}
        for token in record["sentence"].split():
            for mark in _MARKED.finditer(token):
                before, after = (_MARKED.sub("", s) for s in (token[: mark.start()], token[mark.end() :]))
                # A mark in the middle of a token includes the complete token in the span.
                past = bool(before) and (bool(mark[1]) or not after)
                ends[mark[2], mark[1]] = len(words) + past
            if word := _MARKED.sub("", token):
                words.append(word)
        spans = [(ends.get((name, ""), -1), ends.get((name, "/"), -1)) for name in "12"]
        if any(begin < 0 or end <= begin for begin, end in spans):
            raise lines.refuse("mark two spans as <e1> and <e2>", f"got {record['sentence']!r}")
        if record["relation"] is None:
            raise lines.refuse("be followed by its relation", "there is none")
        marks = {MARK: (told_span(record["relation"], *spans),)}
        yield Example(id=str(number), text=" ".join(words), words=tuple(words), marks=marks)


def read_entities(lines: Lines, options: Mapping[str, Any]) -> Iterator[Example]:
    """Read columns of words and tags, with the spans of names."""
    for number, (words, tags, document) in enumerate(tagged_sentences(lines), start=1):
        marks = {MARK: tuple(told_span(kind, span) for kind, span in spans_of(tags))}
        yield Example(id=str(number), text=" ".join(words), words=words, marks=marks, group=document)


def told_span(label: str, *spans: tuple[int, int]) -> str:
    """Write a target in the layout of edge probing."""
    fields: dict[str, Any] = {f"span{slot}": list(span) for slot, span in enumerate(spans, start=1)}
    return json.dumps({**fields, "label": label}, ensure_ascii=False)


CONSTITUENTS = replace(
    PTB,
    name="constituents",
    summary="Bracketed trees with the spans of their phrases as the mark targets; all else is as in ptb.",
    read=partial(by_file, read_constituents, documents=True),
)
RELATIONS = Reader(
    name="relations",
    suffixes=(".txt",),
    summary="SemEval-2010 task 8, one example per sentence; its words stand between blanks, its two marked "
    "spans are the mark targets, and the id is its number.",
    read=partial(by_file, read_relations),
)

ENTITIES = Reader(
    name="entities",
    suffixes=(".conll", ".iob", ".iob1", ".iob2", ".bio", ".train", ".testa", ".testb", ".txt"),
    summary="Columns with a word first and a tag such as B-PER or O last, one example per sentence, an empty "
    "line after each; spans of names are the mark targets, documents begin with -DOCSTART-.",
    read=partial(by_file, read_entities),
)

# Reader and options for each file format.
FORMATS: Mapping[str, tuple[Reader, Mapping[str, Any]]] = MappingProxyType(
    {
        "conllu": (CONLLU, MappingProxyType({"units": "words"})),
        "brackets": (CONSTITUENTS, MappingProxyType({})),
        "semeval": (RELATIONS, MappingProxyType({})),
        "iob": (ENTITIES, MappingProxyType({})),
        "edges": (JSONL, MappingProxyType({"columns": {"words": "text"}})),
    }
)


def word_classes(mark: str, example: Example) -> list[Labeled]:
    """One target per word, labeled by its mark; words without a mark have no target."""
    return [
        (((index, index + 1),), (label,))
        for index, label in enumerate(marks_of(example, mark))
        if label != "_"
    ]


def head_edges(example: Example) -> list[Labeled]:
    """One target per word: the word and its head, with their relation. The root is its own head."""
    edges: list[Labeled] = []
    for index, (head, label) in enumerate(zip(heads_of(example), marks_of(example, "deprel"), strict=True)):
        head_index = head - 1 if head else index
        if label != "_":
            edges.append((((index, index + 1), (head_index, head_index + 1)), (label,)))
    return edges


def heads_of(example: Example) -> list[int]:
    """The head of each word, counted from 1; 0 for the root."""
    heads = marks_of(example, "head")
    if not all(head.isdecimal() and int(head) <= len(heads) for head in heads):
        raise InputError(f"sentence {example.id!r} must have a head for every word, but some have none.")
    return [int(head) for head in heads]


def marks_of(example: Example, mark: str) -> tuple[str, ...]:
    """The annotation of each word under the given mark."""
    marks = example.marks.get(mark)
    if not isinstance(marks, tuple) or len(marks) != len(words_in(example)):
        raise InputError(f"sentence {example.id!r} must have {mark} for every word, but it has none.")
    return marks


def labeled_spans(slots: int, several: bool, example: Example) -> list[Labeled]:
    """
    Parse targets in the layout of edge probing.

    Parameters
    ----------
    slots : int
        Number of spans per target.
    several : bool
        Whether a target may have several labels or none.
    example : Example

    Returns
    -------
    list of Labeled
    """
    targets = example.marks.get(MARK)
    if not isinstance(targets, tuple):
        raise InputError(f"sentence {example.id!r} must have a list of targets, but it has none.")
    length = len(words_in(example))
    return [
        _read(text, slots, several, length, f"target {n} of sentence {example.id!r}")
        for n, text in enumerate(targets)
    ]


def _read(text: str, slots: int, several: bool, length: int, what: str) -> Labeled:
    try:
        target = json.loads(text)
    except ValueError:
        target = text
    if not isinstance(target, dict) or "label" not in target:
        raise InputError(f"{what} must have span1 and label, but got {text}.")
    spans = []
    for slot in range(1, slots + 1):
        span = target.get(f"span{slot}")
        if (
            not isinstance(span, list)
            or [type(end) for end in span] != [int, int]
            or not 0 <= span[0] < span[1] <= length
        ):
            raise InputError(f"span{slot} of {what} must lie within its {length} words, but got {span!r}.")
        spans.append((span[0], span[1]))
    labels = [target["label"]] if isinstance(target["label"], str) else target["label"]
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InputError(f"label of {what} must be a text or a list of texts, but got {target['label']!r}.")
    # A file of another target has the same layout and would be misread.
    if target.get(f"span{slots + 1}") is not None:
        raise InputError(f"{what} must have {slots} span{'s' * (slots > 1)}, but it has span{slots + 1} too.")
    if not several and len(labels) != 1:
        raise InputError(f"{what} must have one label, but it has {len(labels)}: is it of another target?")
    return tuple(spans), tuple(labels)


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
