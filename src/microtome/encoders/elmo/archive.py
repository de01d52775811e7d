"""Access to `config.json` and `weights.th` in a folder or an untrusted archive."""

from __future__ import annotations

import lzma
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from ...errors import InputError, WorkError
from .options import content_of

CONFIG, WEIGHTS = "config.json", "weights.th"
SUFFIXES = (".tar.gz", ".tgz", ".tar")

_LARGEST_CONFIG = 10_000_000
_AT_ONCE = 1 << 20
_BROKEN = (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError)


def is_archive(path: Path) -> bool:
    """Recognize an archive by its name."""
    return path.is_file() and path.name.lower().endswith(SUFFIXES)


def glance(path: Path) -> bytes | None:
    """
    Read the configuration if there are weights beside it.

    Parameters
    ----------
    path : Path
        A folder or an archive.

    Returns
    -------
    bytes or None
        None where one of the two is missing or cannot be read.
    """
    contents: dict[str, bytes] = {}
    try:
        if path.is_dir():
            complete = (path / CONFIG).is_file() and (path / WEIGHTS).is_file()
            return (path / CONFIG).read_bytes() if complete else None
        with tarfile.open(path) as archive:
            for name, member in _members(archive, path):
                contents[name] = _content(archive, member, path) if name == CONFIG else b""
                if len(contents) == 2:
                    return contents[CONFIG]
    except (*_BROKEN, InputError):
        return None
    return None


@contextmanager
def open_files(path: Path) -> Iterator[tuple[bytes, IO[bytes]]]:
    """
    Open the configuration and the weights in a folder or an archive.

    Nothing is extracted to a named file: the weights of an archive pass through an anonymous temporary file.

    Parameters
    ----------
    path : Path

    Yields
    ------
    tuple of bytes and binary file
        The configuration and the weights.
    """
    if path.is_dir():
        for name in (CONFIG, WEIGHTS):
            if not (path / name).is_file():
                raise InputError(f"{path} must hold {name}, but it is missing.")
        with _weights_file(path) as weights:
            yield content_of(path / CONFIG), weights
    else:
        with _temporary_file(path) as weights:
            yield _unpack(path, weights), weights


def _weights_file(folder: Path) -> IO[bytes]:
    try:
        return (folder / WEIGHTS).open("rb")
    except OSError as problem:
        raise InputError(f"{folder / WEIGHTS} must be a readable file, but got: {problem}.") from problem


def _temporary_file(path: Path) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as problem:
        raise WorkError(f"{path} must be unpacked to a temporary file, but got: {problem}.") from problem


def _unpack(path: Path, weights: IO[bytes]) -> bytes:
    """Copy the weights out of an archive, and return its configuration."""
    config, seen = b"", set[str]()
    try:
        with tarfile.open(path) as archive:
            for name, member in _members(archive, path):
                if name in seen:
                    raise InputError(f"{path} must hold {name} once, but it holds several.")
                seen.add(name)
                if name == CONFIG:
                    config = _content(archive, member, path)
                elif (source := archive.extractfile(member)) is not None:
                    shutil.copyfileobj(source, weights)
            # The checksum of the archive comes after the last file.
            while archive.fileobj is not None and archive.fileobj.read(_AT_ONCE):
                pass
    except _BROKEN as problem:
        if isinstance(problem, OSError) and problem.errno is not None:  # of the system, not of the archive
            raise WorkError(f"{path} must be unpacked to a temporary file, but got: {problem}.") from problem
        raise InputError(f"{path} must be a whole tar archive, but it cannot be read as one.") from problem
    for name in (CONFIG, WEIGHTS):
        if name not in seen:
            raise InputError(f"{path} must hold {name}, but it is missing.")
    weights.seek(0)
    return config


def _members(archive: tarfile.TarFile, path: Path) -> Iterator[tuple[str, tarfile.TarInfo]]:
    for member in archive:
        name = str(PurePosixPath(member.name))
        if name not in (CONFIG, WEIGHTS):
            continue
        # A link may point anywhere, and a sparse file may be larger than any disk.
        if not member.isreg() or member.issparse():
            raise InputError(f"{name} in {path} must be a plain file, but it is a link or something else.")
        yield name, member


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bytes:
    source = archive.extractfile(member)
    if source is None or member.size > _LARGEST_CONFIG:
        raise InputError(
            f"{CONFIG} in {path} must be at most {_LARGEST_CONFIG} bytes long, but it has {member.size}."
        )
    return source.read()
