"""Which files does a target come from, and which split is each of them?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..corpora.brackets import PTB
from ..corpora.files import kinds_at, listed
from ..corpora.opening import Corpus, corpus
from ..corpora.packed import is_archive, split_name
from ..errors import InputError, must, unknown
from .spanlabels import FORMATS

# Words in the names of files that say which split they are.
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
        Of the target.
    formats : tuple of str
        Kinds of file that have it.

    Yields
    ------
    split : str
        "train", "validation", "test", or "" where nothing tells.
    opened : Corpus
        Whose sentences have the marks that the target needs.
    """
    if isinstance(source, Mapping):
        if not source:
            raise must("source", "at least one file, by the name of its split", source)
        for split, one in source.items():
            called = split_named(str(split))
            yield from ((called, opened) for _, opened in target_parts(one, name, formats))
    elif isinstance(source, Corpus):
        yield "", _with_phrases(source, formats)
    elif not isinstance(source, (str, os.PathLike)):
        raise must("source", "a path, a corpus, or one of them for each split", type(source).__name__)
    elif not Path(source).is_dir():
        yield split_of(Path(source)), _opened(Path(source), name, formats)
    else:
        kinds = {suffix for one in formats for suffix in FORMATS[one][0].suffixes}
        found = [(split_of(f), f) for f in sorted(Path(source).iterdir()) if split_name(f.name)[1] in kinds]
        told = [(split, file) for split, file in found if split]
        for split, file in sorted(told, key=lambda each: list(SPLITS).index(each[0])):
            yield split, _opened(file, name, formats)
        if not told:
            yield "", _opened(Path(source), name, formats)


def split_named(word: str) -> str:
    """
    The split that somebody calls by one of its names.

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
    The split that the name of a file tells of, if any.

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
    for reader, options in (FORMATS[one] for one in formats):
        if kinds.keys() & set(reader.suffixes):
            return corpus(path, reader=reader, **options)
    allowed = listed(suffix for one in formats for suffix in FORMATS[one][0].suffixes)
    raise InputError(f"{name} must be read from {allowed} files, but got {path.name!r}.")


def _with_phrases(given: Corpus, formats: tuple[str, ...]) -> Corpus:
    """The same corpus, read for phrases too where it holds trees that were read for words alone."""
    if given.reader != PTB.name or "brackets" not in formats:
        return given
    return corpus(given.source, reader=FORMATS["brackets"][0], name=given.name, **given.options)
