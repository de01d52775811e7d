"""How do the bytes of a file become lines, and which line is at fault?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import InputError, WorkError
from .examples import Example
from .files import File, same_stem
from .packed import members, sound, split_name, unpacked


class Lines:
    """
    The lines of an open file, decoded one at a time, with the number of the current one.

    Parameters
    ----------
    stream : iterable of bytes
        Lines with their ends, such as an open binary file.
    name : str
        What errors call the file.
    prefix : str
        What the ids of the file's examples begin with; empty for a lone file.
    """

    def __init__(self, stream: Iterable[bytes], name: str, prefix: str = "") -> None:
        self._stream = stream
        self.name = name
        self.prefix = prefix
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        """Lines without their ends, be they those of Unix or of Windows."""
        for line in self.whole():
            yield line.removesuffix("\n").removesuffix("\r")

    def whole(self) -> Iterator[str]:
        """Lines with their ends."""
        with sound(self.name):
            for raw in self._stream:
                self.number += 1
                yield self._decoded(raw).removeprefix("\ufeff" if self.number == 1 else "")

    def refuse(self, must: str, but: str, line: int | None = None) -> InputError:
        """Write the house sentence about a line, the current one unless another is named."""
        return InputError(f"line {line or self.number} of {self.name} must {must}, but {but}.")

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as problem:
            at = problem.start
            raise self.refuse("be UTF-8", f"its byte {at + 1} is 0x{raw[at]:02x}") from problem


ReadLines = Callable[[Lines, Mapping[str, Any]], Iterator[Example]]


def by_file(
    read: ReadLines, files: Sequence[File], options: Mapping[str, Any], *, documents: bool = False
) -> Iterator[Example]:
    """
    Read files one after the other with a function that knows lines.

    Parameters
    ----------
    read : callable
        `read(lines, options)` yields the examples of one file.
    files : sequence of File
    options : mapping
    documents : bool
        Whether each of several files is a document, and so the group of its examples.

    Yields
    ------
    Example
        Where there are several files, with the stem of the file before id and group.
    """
    for file in files:
        for lines in _opened(file):
            for example in read(lines, options):
                if lines.prefix:
                    group = lines.prefix if documents else f"{lines.prefix}/{example.group}"
                    example = replace(example, id=f"{lines.prefix}/{example.id}", group=group)
                yield example


def _opened(file: File) -> Iterator[Lines]:
    if not file.members:
        try:
            stream = file.path.open("rb")
        except OSError as problem:
            raise WorkError(f"{file.path} must stay readable, but got: {problem}.") from problem
        with stream:
            yield Lines(unpacked(stream, file.path.name), str(file.path), file.prefix)
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
