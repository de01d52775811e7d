"""Probing targets: labels of words and spans, and dependency trees, with the files they are read from."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from ..corpora.brackets import PTB
from ..corpora.examples import Example
from ..corpora.files import is_archive, kinds_at, split_name
from ..corpora.opening import Corpus, corpus
from ..errors import InputError, listed, must, unknown
from .spanlabels import (
    FORMATS,
    Labeled,
    head_edges,
    heads_of,
    labeled_spans,
    marks_of,
    word_classes,
    words_in,
)
from .structural.trees import word_depths

# Words in file names that identify a split.
SPLITS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "train": frozenset({"train", "training"}),
        # Files of CoNLL-2003 end in .train, .testa and .testb.
        "validation": frozenset({"dev", "devel", "val", "valid", "validation", "testa"}),
        "test": frozenset({"test", "testing", "testb"}),
    }
)


def target_parts(source: Any, name: str, formats: tuple[str, ...]) -> Iterator[tuple[str, Corpus]]:
    """
    Open the files of a target.

    Parameters
    ----------
    source : path, Corpus, or mapping of str to them
        As in `microtome.probes.targets.read_target`.
    name : str
        Name of the target.
    formats : tuple of str
        File formats that contain it.

    Yields
    ------
    split : str
        "train", "validation", "test", or "" where the split is unknown.
    opened : Corpus
        Corpus whose sentences have the marks that the target needs.
    """
    if isinstance(source, Mapping):
        if not source:
            raise must("source", "at least one file, by the name of its split", source)
        for split, part_source in source.items():
            canonical_split = split_named(str(split))
            yield from ((canonical_split, opened) for _, opened in target_parts(part_source, name, formats))
    elif isinstance(source, Corpus):
        yield "", _with_phrases(source, formats)
    elif not isinstance(source, (str, os.PathLike)):
        raise must("source", "a path, a corpus, or one of them for each split", type(source).__name__)
    elif not Path(source).is_dir():
        yield split_of(Path(source)), _opened(Path(source), name, formats)
    else:
        kinds = {suffix for format_name in formats for suffix in FORMATS[format_name][0].suffixes}
        files = [(split_of(f), f) for f in sorted(Path(source).iterdir()) if split_name(f.name)[1] in kinds]
        split_files = [(split, file) for split, file in files if split]
        for split, file in sorted(split_files, key=lambda pair: list(SPLITS).index(pair[0])):
            yield split, _opened(file, name, formats)
        if not split_files:
            yield "", _opened(Path(source), name, formats)


def split_named(word: str) -> str:
    """
    Resolve a name of a split.

    Examples
    --------
    >>> split_named("Dev"), split_named("train")
    ('validation', 'train')
    """
    for split, names in SPLITS.items():
        if word.lower() in names:
            return split
    raise unknown("split", word, sorted(frozenset().union(*SPLITS.values())))


def split_of(path: Path) -> str:
    """
    Infer the split from the name of a file; empty where there is none.

    Examples
    --------
    >>> split_of(Path("en_ewt-ud-dev.conllu.xz")), split_of(Path("wsj_0001.mrg"))
    ('validation', '')
    """
    words = set(re.findall("[a-z]+", path.name.lower()))
    return next((split for split, names in SPLITS.items() if words & names), "")


def _opened(path: Path, name: str, formats: tuple[str, ...]) -> Corpus:
    if not path.exists():
        raise must(f"the corpus of {name}", "a file or a folder that exists", str(path))
    several = path.is_dir() or is_archive(path)
    kinds = kinds_at(path) if several else {split_name(path.name)[1]: True}
    for reader, options in (FORMATS[format_name] for format_name in formats):
        if kinds.keys() & set(reader.suffixes):
            return corpus(path, reader=reader, **options)
    allowed = listed(suffix for format_name in formats for suffix in FORMATS[format_name][0].suffixes)
    raise InputError(f"{name} must be read from {allowed} files, but got {path.name!r}.")


def _with_phrases(opened: Corpus, formats: tuple[str, ...]) -> Corpus:
    """Reopen a corpus of bracketed trees with a reader of phrases, where it was opened for words only."""
    if opened.reader != PTB.name or "brackets" not in formats:
        return opened
    return corpus(opened.source, reader=FORMATS["brackets"][0], name=opened.name, **opened.options)


Kind = Literal["words", "spans", "trees"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """
    A linguistic property that a layer is probed for.

    Parameters
    ----------
    name : str
    about : str
        Description, as a question.
    kind : {"words", "spans", "trees"}
        What is labeled: words, spans of words, or, for trees, nothing: words have heads instead.
    slots : int
        Number of spans per target, 1 or 2.
    multilabel : bool
        Whether a target may have several labels or none.
    formats : tuple of str
        File formats that contain it, names of `FORMATS`.
    find : callable, optional
        `find(example)` returns the labeled spans of a sentence; absent for trees.
    recipe : str
        The published size of its edge probes, a name of `EDGE_RECIPES`.
    """

    name: str
    about: str
    kind: Kind = "words"
    slots: int = 1
    multilabel: bool = False
    formats: tuple[str, ...] = ("conllu",)
    find: Callable[[Example], list[Labeled]] | None = None
    recipe: str = "large"


def _words(name: str, about: str, **fields: Any) -> Target:
    return Target(name=name, about=about, find=partial(word_classes, name), **fields)


def _spans(name: str, about: str, formats: tuple[str, ...], slots: int = 1, **fields: Any) -> Target:
    find_spans = partial(labeled_spans, slots, fields.get("multilabel", False))
    return Target(
        name=name, about=about, kind="spans", formats=formats, slots=slots, find=find_spans, **fields
    )


_DEPRELS = "How is a word related to its head?"
TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (
            _words("upos", "What is the universal part of speech of a word?"),
            _words(
                "xpos",
                "What is the treebank-specific part of speech of a word?",
                formats=("conllu", "brackets"),
            ),
            _words("deprel", _DEPRELS),
            Target(name="deprel-edge", about=_DEPRELS, kind="spans", slots=2, find=head_edges),
            Target(name="dep-distance", about="How far apart are words in the tree?", kind="trees"),
            Target(name="dep-depth", about="How deep in the tree is a word?", kind="trees"),
            _spans("constituents", "What sort of phrase is a span?", ("brackets", "edges")),
            _spans("entities", "What sort of name is a span?", ("iob", "edges")),
            _spans(
                "spr",
                "Which proto-role properties does an argument have?",
                ("edges",),
                2,
                multilabel=True,
                recipe="small",
            ),
            _spans("relations", "How are two nouns related?", ("semeval", "edges"), 2, recipe="small"),
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Annotated:
    """
    Sentences with their gold annotation.

    Parameters
    ----------
    target : Target
    source : str
        Files that the annotation is read from.
    ids, groups, splits : tuple of str, one per sentence
        Its id, its cluster, such as its document, and its split: "train", "validation", "test", or "" where
        the files name none.
    sentences : tuple of (tuple of str)
        Words of the sentences; `extract(encoder, found.sentences)` runs a model on them.
    labels : tuple of str
        Names of the labels, sorted; empty for trees.
    spans : ndarray of int of shape (targets, slots, 2)
        First word of each span, and the word after its last.
    right : ndarray of bool of shape (targets, labels)
        Gold labels.
    owner : ndarray of int of shape (targets,)
        The sentence of each target, ascending.
    heads : tuple of ndarray of int, one per sentence
        For trees: the head of each word, counted from 1; 0 for the root.
    punctuation : tuple of ndarray of bool, one per sentence
        For trees: whether each word has the part of speech PUNCT.
    texts : tuple of mapping
        Descriptions of the files, with their digests.
    """

    target: Target
    source: str
    ids: tuple[str, ...] = field(repr=False)
    groups: tuple[str, ...] = field(repr=False)
    splits: tuple[str, ...] = field(repr=False)
    sentences: tuple[tuple[str, ...], ...] = field(repr=False)
    labels: tuple[str, ...] = ()
    spans: np.ndarray = field(repr=False)
    right: np.ndarray = field(repr=False)
    owner: np.ndarray = field(repr=False)
    heads: tuple[np.ndarray, ...] = field(default=(), repr=False)
    punctuation: tuple[np.ndarray, ...] = field(default=(), repr=False)
    texts: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    def of(self, split: str) -> np.ndarray:
        """Indices of the sentences of a split."""
        sentences = np.flatnonzero(np.array(self.splits) == split)
        if not len(sentences):
            raise unknown(f"split of {self.source}", split, set(self.splits) - {""} or {"none"})
        return sentences


def read_target(source: Any, name: str | Target) -> Annotated:
    """
    Read annotated sentences.

    Parameters
    ----------
    source : path, Corpus, or mapping of str to them
        A file; a folder or archive of files, of which only those that name a split are read, where any do; a
        corpus that has the annotation as marks; or one of these for each split.
    name : str or Target
        A name of `TARGETS`, or a custom target.

    Returns
    -------
    Annotated
    """
    if not isinstance(name, Target) and name not in TARGETS:
        raise unknown("target", name, TARGETS)
    target = name if isinstance(name, Target) else TARGETS[name]
    parts = list(target_parts(source, target.name, target.formats))
    ids, groups, splits, sentences = [], [], [], []
    labeled: list[tuple[int, Labeled]] = []
    heads, punctuation = [], []
    names = [opened.name for _, opened in parts]
    # Files such as eng.train and eng.testa are distinguished by their splits; the same file twice is not.
    by_split = len(set(names)) < len(names) == len({opened.source for _, opened in parts})
    for split, opened in parts:
        label = f"{opened.name}-{split}" if by_split else opened.name
        prefix = f"{label}/" if len(parts) > 1 else ""
        for example in opened.examples():
            if target.find is not None:
                labeled += [(len(ids), labeled_span) for labeled_span in target.find(example)]
            else:
                heads.append(np.array(heads_of(example), dtype=np.int64))
                word_depths(heads[-1], example.id)  # refuses what is no tree
                punctuation.append(np.array([tag == "PUNCT" for tag in marks_of(example, "upos")]))
            ids.append(prefix + example.id)
            groups.append(prefix + example.group)
            splits.append(split)
            sentences.append(words_in(example))
    sources = ", ".join(opened.source for _, opened in parts)
    if target.find is not None and not labeled:
        raise InputError(f"{sources} must hold {target.name} of some words, but it holds none.")
    if len(set(ids)) < len(ids):
        raise InputError(f"names of the parts of a target must differ, but those of {sources} do not.")
    return Annotated(
        target=target,
        source=sources,
        ids=tuple(ids),
        groups=tuple(groups),
        splits=tuple(splits),
        sentences=tuple(sentences),
        heads=tuple(heads),
        punctuation=tuple(punctuation),
        texts=tuple(opened.describe() for _, opened in parts),
        **_arrays(labeled, target.slots),
    )


def word_labels(found: Annotated, examples: Any, units: Any) -> np.ndarray:
    """
    The label of each row, for rows of words.

    Parameters
    ----------
    found : Annotated
        Labels of words.
    examples, units : ndarray of int of shape (rows,)
        The sentence and the word of each row, as in `Activations.rows`.

    Returns
    -------
    ndarray of int of shape (rows,)
        Indices of labels; -1 for words without one.
    """
    if found.target.kind != "words":
        word_targets = ", ".join(name for name, target in TARGETS.items() if target.kind == "words")
        raise must("a target whose labels are those of words", f"one of {word_targets}", found.target.name)
    longest = max(map(len, found.sentences)) + 1
    table = np.full((len(found.sentences), longest), -1)
    table[found.owner, found.spans[:, 0, 0]] = found.right.argmax(1)
    return table[np.asarray(examples), np.asarray(units)]


def _arrays(labeled: list[tuple[int, Labeled]], slots: int) -> dict[str, Any]:
    labels = sorted({label for _, (_, names) in labeled for label in names})
    numbers = {label: number for number, label in enumerate(labels)}
    gold = np.zeros((len(labeled), len(labels)), dtype=bool)
    for index, (_, (_, names)) in enumerate(labeled):
        gold[index, [numbers[label] for label in names]] = True
    spans = np.array([spans for _, (spans, _) in labeled], dtype=np.int64).reshape(-1, slots, 2)
    owner = np.array([owner for owner, _ in labeled], dtype=np.int64)
    return {"labels": tuple(labels), "spans": spans, "right": gold, "owner": owner}
