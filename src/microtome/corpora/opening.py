"""Opening and reading of a corpus, identified by a digest of its content."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..checks import whole_number
from ..errors import InputError, WorkError, listed, must, unknown
from ..store.address import address, digest_file
from .examples import RULES, Example, Reader
from .files import ARCHIVES, COMPRESSED, File, is_archive, kinds_at, locate, split_name, unchanged
from .hub import HUB, SCHEME
from .table import CORPORA


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """
    Text with ids, read from disk on each iteration and not kept in memory.

    Parameters
    ----------
    name : str
        The name of the corpus in results.
    source : str
        The path or the hub id, as it was given.
    reader : str
        The name of the reader.
    options : mapping
        All options of the reader.
    rule : str
        The rule by which an example is split into words: one of `microtome.corpora.examples.RULES`.
    digest : str
        A hash of the bytes of all files, the reader's name, its options, and the rule.
    files : tuple of File
        The files, with their state when the corpus was opened.
    how : Reader
        The reader itself.
    """

    name: str
    source: str
    reader: str
    options: Mapping[str, Any] = field(hash=False)
    rule: str
    digest: str
    files: tuple[File, ...] = field(repr=False, compare=False)
    how: Reader = field(repr=False, compare=False)
    # The number of examples, once it is known.
    _count: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def __iter__(self) -> Iterator[Example]:
        return self.examples()

    def __len__(self) -> int:
        """
        Count the examples; the first call reads all of them.

        Python's `list(corpus)` calls this first; `list(corpus.examples())` does not.
        """
        if not self._count:
            for _ in self.examples():
                pass
        return self._count[0]

    def __bool__(self) -> bool:
        # A corpus without examples cannot be opened, so nothing has to be counted.
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled; a dict can.
        values = {name: getattr(self, name) for name in self.__slots__ if name != "_count"}
        return partial(Corpus, **{**values, "options": dict(self.options)}), ()

    def examples(self) -> Generator[Example]:
        """Read the examples, one at a time and in order."""
        changed = [file for file in self.files if not unchanged(file)]
        if changed and _digest(self.how, self.options, self.rule, self.files) != self.digest:
            raise WorkError(
                f"{changed[0].path} must stay as it was when it was opened, but it holds something else now."
            )
        count = 0
        for example in self.how.read(self.files, self.options):
            count += 1
            yield _without_words(example) if self.rule == "whitespace" else example
        self._count[:] = [count]

    def head(self, k: int) -> list[Example]:
        """Read the first k examples, or all where there are fewer, and nothing after them."""
        whole_number("k", k, 0)
        with closing(self.examples()) as examples:
            return list(itertools.islice(examples, k))

    def describe(self) -> dict[str, Any]:
        """Return the metadata of the corpus as plain data, for results."""
        names = ("name", "source", "reader", "rule", "digest")
        return {**{name: getattr(self, name) for name in names}, "options": dict(self.options)}


def corpus(
    source: str | os.PathLike[str],
    *,
    reader: str | Reader | None = None,
    rule: str | None = None,
    name: str | None = None,
    **options: Any,
) -> Corpus:
    """
    Open a corpus.

    The files are hashed and the first example is read, so that a wrong option is reported at once; the other
    examples are read on demand.

    Parameters
    ----------
    source : str or path
        A file; a folder or a tar archive with files of one kind, whose stems are then prefixes of the ids;
        or "hub:owner/name" for a dataset of the hub and "hub:FOLDER" for a folder in the same form. Files
        may end in .gz, .xz or .bz2. The files of an archive are read in archive order, those of a folder in
        the natural order of their names.
    reader : str or Reader, optional
        A name of `microtome.corpora.table.CORPORA`, or a custom reader; chosen by the file suffix when
        absent.
    rule : {"given", "whitespace"}, optional
        The rule by which examples are split into words; when absent, given words are used where there are
        any. With "whitespace", given words are dropped, and so are marks with one value per word.
    name : str, optional
        The name of the corpus in results; the file's stem when absent.
    **options
        The reader's options, as `microtome ls corpora` lists them.

    Returns
    -------
    Corpus
    """
    location = os.fspath(source) if isinstance(source, (str, os.PathLike)) else source
    if not isinstance(location, str) or not location:
        raise must("source", "a path or hub:NAME", source)
    if not location.startswith(SCHEME) and not Path(location).exists():
        raise must("source", "a file or a folder that exists, or hub:NAME", location)
    if rule is not None and rule not in RULES:
        raise unknown("rule", rule, RULES)
    corpus_reader = find_reader(location, reader)
    reader_options = corpus_reader.choose(options)
    if corpus_reader.locate is not None:
        files = corpus_reader.locate(location, reader_options)
    else:
        files = locate(location, corpus_reader.suffixes, nested=corpus_reader.nested)
    first = next(corpus_reader.read(files, reader_options), None)
    if first is None:
        raise InputError(f"{location} must hold at least one example, but it holds none.")
    rule = _rule(rule, first, location)
    return Corpus(
        name=name or _stem(location),
        source=location,
        reader=corpus_reader.name,
        options=reader_options,
        rule=rule,
        digest=_digest(corpus_reader, reader_options, rule, files),
        files=files,
        how=corpus_reader,
    )


def _rule(requested: str | None, example: Example, source: str) -> str:
    possible = [
        rule
        for rule, content in (("given", example.words), ("whitespace", example.text))
        if content is not None
    ]
    if requested is not None and requested not in possible:
        raise must("rule", f"{possible[0]} for {source}", requested)
    return requested or possible[0]


def _stem(source: str) -> str:
    path = Path(source.removeprefix(SCHEME))
    return path.absolute().name if path.is_dir() or source.startswith(SCHEME) else split_name(path.name)[0]


def _without_words(example: Example) -> Example:
    if example.words is None:
        return example
    length = len(example.words)
    marks = {
        name: mark for name, mark in example.marks.items() if isinstance(mark, str) or len(mark) != length
    }
    return replace(example, words=None, marks=marks)


def _digest(reader: Reader, options: Mapping[str, Any], rule: str, files: tuple[File, ...]) -> str:
    # Prefixes are part of the ids.
    specification = {
        "reader": reader.name,
        "options": options,
        "rule": rule,
        "prefixes": [file.prefix for file in files],
    }
    return address(specification, [digest_file(file.path) for file in files])


def find_reader(source: str, reader: str | Reader | None) -> Reader:
    """
    Find the reader of a source.

    Parameters
    ----------
    source : str
        A path that exists, or hub:NAME.
    reader : str or Reader, optional
        The user's choice; chosen by the file suffix when absent.

    Returns
    -------
    Reader
    """
    if isinstance(reader, Reader):
        return reader
    if reader is not None and reader not in CORPORA:
        raise unknown("reader", reader, CORPORA)
    if source.startswith(SCHEME):
        if reader not in (None, HUB.name):
            raise InputError(f"reader must be hub for {source!r}, but got {reader!r}.")
        return HUB
    if reader is not None:
        return CORPORA[reader]
    path = Path(source)
    if not path.is_dir() and not is_archive(path):
        return _by_kind(path)
    kinds = kinds_at(path)
    readers = [
        candidate
        for candidate in CORPORA.values()
        if any(kinds.get(s, False) or (candidate.nested and s in kinds) for s in candidate.suffixes)
    ]
    if not readers:
        raise InputError(f"{path} must hold {_known()} files, but there is none.")
    if len(readers) > 1:
        names = ", ".join(candidate.name for candidate in readers)
        raise InputError(f"reader must be named for {path}, but got none, and there are files for {names}.")
    return readers[0]


def _by_kind(path: Path) -> Reader:
    kind = split_name(path.name)[1]
    for reader in CORPORA.values():
        if kind in reader.suffixes:
            return reader
    raise InputError(
        f"a corpus must end in {_known()}, packed as {listed((*COMPRESSED, *ARCHIVES))} or not, or have its "
        f"reader named, but got {path.name!r}."
    )


def _known() -> str:
    return listed(suffix for reader in CORPORA.values() for suffix in reader.suffixes)
