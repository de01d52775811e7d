"""Files of a corpus: their location, compressed files and archives."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..errors import InputError, WorkError, listed
from ..store.files import natural_key

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


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """
    A file of a corpus, with its size and modification time when the corpus was opened.

    Parameters
    ----------
    path : Path
    prefix : str
        The prefix of the ids of its examples: the file's stem where there are several files, else empty.
    size, modified : int
        The size in bytes and the modification time in nanoseconds.
    members : tuple of str
        The suffixes of the files to read from an archive; empty for a file that is not an archive.
    """

    path: Path
    prefix: str = ""
    size: int
    modified: int
    members: tuple[str, ...] = ()


def locate(source: str, suffixes: tuple[str, ...], *, nested: bool) -> tuple[File, ...]:
    """
    Find the files of a corpus.

    Parameters
    ----------
    source : str
        A file, an archive, or a folder.
    suffixes : tuple of str
        The suffixes of the files to read from a folder or an archive.
    nested : bool
        Whether subfolders are read too.

    Returns
    -------
    tuple of File
        The files of a folder in the natural order of their names (part2 before part10).
    """
    path = Path(source)
    if not path.is_dir():
        return (file_at(path, members=suffixes if is_archive(path) else ()),)
    paths = [file for file in _walk(path, nested=nested) if split_name(file.name)[1] in suffixes]
    if not paths:
        raise InputError(f"{path} must hold {listed(suffixes)} files, but there is none.")
    paths.sort(key=lambda file: natural_key(file.relative_to(path).as_posix()))
    files: dict[str, File] = {}
    for file in paths:
        stem = split_name(file.name)[0]
        if stem in files:
            raise same_stem(str(files[stem].path), str(file))
        files[stem] = file_at(file, prefix=stem)
    return tuple(files.values())


def file_at(path: Path, *, prefix: str = "", members: tuple[str, ...] = ()) -> File:
    """Return a file with its present size and modification time."""
    path = path.absolute()
    try:
        status = path.stat()
    except OSError as problem:
        raise InputError(f"{path} must be a readable file, but got: {problem}.") from problem
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} must be a plain file or a folder, but it is neither.")
    return File(path=path, prefix=prefix, size=status.st_size, modified=status.st_mtime_ns, members=members)


def unchanged(file: File) -> bool:
    """Whether a file still has the same size and modification time; a missing file is an error."""
    try:
        status = file.path.stat()
    except OSError as problem:
        raise WorkError(f"{file.path} must stay readable, but got: {problem}.") from problem
    return (status.st_size, status.st_mtime_ns) == (file.size, file.modified)


def kinds_at(path: Path) -> dict[str, bool]:
    """Return the suffixes of the files of a folder or an archive, and whether any is at its top level."""
    if is_archive(path):
        return {split_name(name)[1]: True for name, _ in members(path)}
    kinds: dict[str, bool] = {}
    for file in _walk(path, nested=True):
        kind = split_name(file.name)[1]
        kinds[kind] = kinds.get(kind, False) or file.parent == path
    return kinds


def same_stem(first: str, second: str) -> InputError:
    """Return the error about two files whose examples would have the same ids."""
    return InputError(f"file names must differ before their suffix, but {first} and {second} do not.")


def _walk(folder: Path, *, nested: bool) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if nested and not name.startswith(".")]
        yield from (Path(parent, name) for name in names if not name.startswith("."))
