"""Streaming access to compressed files and tar archives, without extraction to disk."""

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
    Split the name of a file into its stem and its suffix, without the suffix of a compression.

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
    """Turn errors of reading or decompression into one that names the file."""
    try:
        yield
    except (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError) as problem:
        raise InputError(f"{name} must be a whole and readable file, but got: {problem}.") from problem


def unpacked(stream: IO[bytes], name: str) -> IO[bytes]:
    """Decompress a stream according to the suffix of its name."""
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
    Yield the plain files of an archive in archive order, without hidden ones.

    Yields
    ------
    name : str
        The name in the archive; never used as a path.
    stream : binary file
        The decompressed bytes, to be read before the next file is requested.
    """
    with sound(str(path)), path.open("rb") as raw:
        tail = _Tail(unpacked(raw, path.name))
        with tarfile.open(fileobj=tail, mode="r|") as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None and not Path(member.name).name.startswith("."):
                    yield member.name, unpacked(stream, member.name)
            # An archive without its end mark may have lost files, which tarfile does not report.
            while tail.read(1 << 20):
                pass
            if tail.last != _END:
                raise InputError(f"{path} must be a whole archive, but it is cut short.")


class _Tail(io.RawIOBase):
    """A stream that keeps the last bytes read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        """Read bytes."""
        piece = self._stream.read(size)
        self.last = (self.last + piece)[-len(_END) :]
        return piece
