"""How are packed bytes read as streams, without a file being extracted?"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import InputError

COMPRESSED = (".gz", ".xz", ".bz2")
ARCHIVES = (".tar", ".tgz", ".txz", ".tbz2")

_END = bytes(1024)  # two blocks of zeros end a tar archive


def split_name(name: str) -> tuple[str, str]:
    """
    Split the name of a file into its stem and its kind, leaving the compression out.

    Examples
    --------
    >>> split_name("en_ewt-ud-dev.CONLLU.xz")
    ('en_ewt-ud-dev', '.conllu')
    """
    path = Path(name)
    if path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.stem, path.suffix.lower()


def is_archive(path: Path) -> bool:
    """Whether the name is that of a tar file."""
    return split_name(path.name)[1] in ARCHIVES


@contextmanager
def sound(name: str) -> Iterator[None]:
    """Say which file is broken, when one is that is read here."""
    try:
        yield
    except (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError) as problem:
        raise InputError(f"{name} must be a whole and readable file, but got: {problem}.") from problem


def unpacked(stream: IO[bytes], name: str) -> IO[bytes]:
    """Read through the compression that the name tells of."""
    suffix = Path(name).suffix.lower()
    if suffix in (".gz", ".tgz"):
        return io.BufferedReader(gzip.GzipFile(fileobj=stream))
    if suffix in (".xz", ".txz"):
        return io.BufferedReader(lzma.LZMAFile(stream))
    if suffix in (".bz2", ".tbz2"):
        return io.BufferedReader(bz2.BZ2File(stream))
    return stream


def members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """
    Give the plain files of an archive in its own order, hidden ones left out.

    Yields
    ------
    name : str
        As the archive has it; never used as a path.
    stream : binary file
        The unpacked bytes, to be read before the next file is asked for.
    """
    with sound(str(path)), path.open("rb") as raw:
        tail = _Tail(unpacked(raw, path.name))
        with tarfile.open(fileobj=tail, mode="r|") as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None and not Path(member.name).name.startswith("."):
                    yield member.name, unpacked(stream, member.name)
            # An archive without its end mark may have lost files, and tarfile does not tell.
            while tail.read(1 << 20):
                pass
            if tail.last != _END:
                raise InputError(f"{path} must be a whole archive, but it is cut short.")


class _Tail(io.RawIOBase):
    """A stream that remembers its last bytes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        """Read on."""
        piece = self._stream.read(size)
        self.last = (self.last + piece)[-len(_END) :]
        return piece
