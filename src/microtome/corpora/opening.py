"""How is a corpus opened, read as often as needed, and known by what it holds?"""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import InputError, WorkError, must, unknown
from ..store.address import address, digest_file
from .declare import Reader
from .examples import RULES, Example
from .files import File, locate, unchanged
from .hub import SCHEME
from .packed import split_name
from .table import find


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """
    Text with ids, read anew each time it is gone through; nothing of it stays in memory.

    Parameters
    ----------
    name : str
        What results call it.
    source : str
        The path or the hub's id, as it was given.
    reader : str
        The name of the reader.
    options : mapping
        The reader's options, all of them.
    rule : str
        How an example gets its words: one of `microtome.corpora.examples.RULES`.
    digest : str
        The address of the bytes of all files, of the reader's name, its options, and the rule.
    files : tuple of File
        What is read, as it was when the corpus was opened.
    how : Reader
        Who reads it.
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
        Count the examples, by reading all of them the first time.

        Python's `list(corpus)` asks for the length first; `list(corpus.examples())` does not.
        """
        if not self._count:
            for _ in self.examples():
                pass
        return self._count[0]

    def __bool__(self) -> bool:
        # A corpus without examples is refused when it is opened, so nothing has to be counted.
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
        if not isinstance(k, int) or isinstance(k, bool) or k < 0:
            raise must("k", "a whole number, 0 or more", k)
        with closing(self.examples()) as examples:
            return list(itertools.islice(examples, k))

    def describe(self) -> dict[str, Any]:
        """What a result says of its corpus, as plain data."""
        told = ("name", "source", "reader", "rule", "digest")
        return {**{name: getattr(self, name) for name in told}, "options": dict(self.options)}


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

    The files are hashed and the first example is read, so that a wrong option is told at once; the rest is
    read when it is asked for.

    Parameters
    ----------
    source : str or path
        A file; a folder or a tar archive with files of one kind, whose stems then begin the ids; or
        "hub:owner/name" for a dataset of the hub and "hub:FOLDER" for a folder in the same form. Files may
        end in .gz, .xz or .bz2. The files of an archive come in its own order, those of a folder in the
        natural order of their names.
    reader : str or Reader, optional
        A name of `microtome.corpora.table.CORPORA`, or a reader of one's own; without it, the ending of the
        names decides.
    rule : {"given", "whitespace"}, optional
        How examples get their words; without it, given words where there are some. By "whitespace", given
        words are left out, and so are marks of which there is one a word.
    name : str, optional
        What results call the corpus; without it, the file's stem.
    **options
        The reader's options, as `microtome ls corpora` lists them.

    Returns
    -------
    Corpus
    """
    given = os.fspath(source) if isinstance(source, (str, os.PathLike)) else source
    if not isinstance(given, str) or not given:
        raise must("source", "a path or hub:NAME", source)
    if not given.startswith(SCHEME) and not Path(given).exists():
        raise must("source", "a file or a folder that exists, or hub:NAME", given)
    if rule is not None and rule not in RULES:
        raise unknown("rule", rule, RULES)
    how = find(given, reader)
    chosen = how.choose(options)
    if how.locate is not None:
        files = how.locate(given, chosen)
    else:
        files = locate(given, how.suffixes, nested=how.nested)
    first = next(how.read(files, chosen), None)
    if first is None:
        raise InputError(f"{given} must hold at least one example, but it holds none.")
    rule = _rule(rule, first, given)
    return Corpus(
        name=name or _stem(given),
        source=given,
        reader=how.name,
        options=chosen,
        rule=rule,
        digest=_digest(how, chosen, rule, files),
        files=files,
        how=how,
    )


def _rule(asked: str | None, first: Example, source: str) -> str:
    possible = [
        rule for rule, there in (("given", first.words), ("whitespace", first.text)) if there is not None
    ]
    if asked is not None and asked not in possible:
        raise must("rule", f"{possible[0]} for {source}", asked)
    return asked or possible[0]


def _stem(source: str) -> str:
    path = Path(source.removeprefix(SCHEME))
    return path.absolute().name if path.is_dir() or source.startswith(SCHEME) else split_name(path.name)[0]


def _without_words(example: Example) -> Example:
    if example.words is None:
        return example
    length = len(example.words)
    marks = {n: m for n, m in example.marks.items() if isinstance(m, str) or len(m) != length}
    return replace(example, words=None, marks=marks)


def _digest(how: Reader, options: Mapping[str, Any], rule: str, files: tuple[File, ...]) -> str:
    # Prefixes are part of the ids.
    told = {"reader": how.name, "options": options, "rule": rule, "prefixes": [file.prefix for file in files]}
    return address(told, [digest_file(file.path) for file in files])
