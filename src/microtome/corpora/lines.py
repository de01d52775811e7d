"""Decoding of files into numbered lines, with errors that name the line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import InputError, check_plain
from .examples import Example
from .files import File, members, same_stem, sound, split_name, unpacked

# A line is at most one example. A longer one is not line-based text, and takes 50 times its size as tokens.
MOST_BYTES = 10_000_000


class Lines:
    """
    The lines of an open file, decoded one at a time, with the number of the current one.

    Parameters
    ----------
    stream : iterable of bytes
        Lines with their ends, such as an open binary file.
    name : str
        The name of the file in errors.
    prefix : str
        The prefix of the ids of the file's examples; empty for a single file.
    """

    def __init__(self, stream: Iterable[bytes], name: str, prefix: str = "") -> None:
        self._stream = stream
        self.name = name
        self.prefix = prefix
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        """Yield lines without their line ends, Unix or Windows."""
        for line in self.whole():
            yield line.removesuffix("\n").removesuffix("\r")

    def whole(self) -> Iterator[str]:
        """Yield lines with their line ends."""
        with sound(self.name):
            for raw in self._stream:
                self.number += 1
                if len(raw) > MOST_BYTES:
                    raise self.refuse(f"have at most {MOST_BYTES:,} bytes", f"it has {len(raw):,}")
                yield self._decoded(raw).removeprefix("\ufeff" if self.number == 1 else "")

    def refuse(self, must: str, but: str, line: int | None = None) -> InputError:
        """Return the error about a line, the current one by default."""
        return InputError(f"line {line or self.number} of {self.name} must {must}, but {but}.")

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as problem:
            position = problem.start
            raise self.refuse("be UTF-8", f"its byte {position + 1} is 0x{raw[position]:02x}") from problem


@contextmanager
def opened(path: Path, prefix: str = "") -> Iterator[Lines]:
    """Open a file, compressed or not, as lines."""
    check_plain(path)
    try:
        stream = path.open("rb")
    except OSError as problem:
        raise InputError(f"{path} must be a readable file, but got: {problem}.") from problem
    with stream:
        yield Lines(unpacked(stream, path.name), str(path), prefix)


ReadLines = Callable[[Lines, Mapping[str, Any]], Iterator[Example]]


def by_file(
    read_lines: ReadLines, files: Sequence[File], options: Mapping[str, Any], *, documents: bool = False
) -> Iterator[Example]:
    """
    Read files one after the other with a line-based function.

    Parameters
    ----------
    read_lines : callable
        `read(lines, options)` yields the examples of one file.
    files : sequence of File
    options : mapping
    documents : bool
        Whether each of several files is a document, and thus the group of its examples.

    Yields
    ------
    Example
        Where there are several files, with the stem of the file as a prefix of id and group.
    """
    for file in files:
        for lines in _opened(file):
            for example in read_lines(lines, options):
                if lines.prefix:
                    group = lines.prefix if documents else f"{lines.prefix}/{example.group}"
                    example = replace(example, id=f"{lines.prefix}/{example.id}", group=group)
                yield example


def _opened(file: File) -> Iterator[Lines]:
    if not file.members:
        with opened(file.path, file.prefix) as lines:
            yield lines
        return
    names: dict[str, str] = {}
    for name, stream in members(file.path):
        stem, kind = split_name(name)
        if kind not in file.members:
            continue
        if stem in names:
            raise same_stem(names[stem], name)
        names[stem] = name
        yield Lines(stream, f"{file.path}/{name}", stem)
