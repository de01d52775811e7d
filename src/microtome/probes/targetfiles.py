"""Files of probing targets, and their splits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..corpora.brackets import PTB
from ..corpora.files import kinds_at
from ..corpora.opening import Corpus, corpus
from ..corpora.packed import is_archive, split_name
from ..errors import InputError, listed, must, unknown
from .spanlabels import FORMATS

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
