"""Writing of whole files, their checksums, and reading of files that may be damaged or foreign."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError, MicrotomeError, WorkError
from .address import DIGEST_BYTES, digest_file

TEMPORARY = ".tmp"
# Error codes of a full disk, an exhausted quota or a limit on the size of files.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# Checksums computed by this process, by device, inode, size and modification time of the file.
_HASHED: dict[tuple[int, int, int, int], str] = {}
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """
    Size and checksum of a file.

    Parameters
    ----------
    bytes : int
        Its size.
    blake2b : str
        The hash of its content, 40 hexadecimal digits.
    """

    bytes: int
    blake2b: str


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> Mark:
    """
    Write a file atomically: under a temporary name, flushed to the disk and renamed into place.

    A reader sees either the complete old file or the complete new one, even after a power cut.

    Parameters
    ----------
    path : Path
    pieces : iterable of bytes
        The content, piece by piece.

    Returns
    -------
    Mark
    """
    temporary = temporary_name(path)
    hasher, size = hashlib.blake2b(digest_size=DIGEST_BYTES), 0
    with disk(path):
        try:
            with open(temporary, "xb") as file:
                for piece in pieces:
                    file.write(piece)
                    hasher.update(piece)
                    size += len(piece)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)
    return Mark(bytes=size, blake2b=hasher.hexdigest())


def temporary_name(path: Path) -> Path:
    """Return the temporary path of a file that will be renamed into place."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")


def drop_temporary(folder: Path) -> None:
    """Remove temporary files of a killed process; only the owner of the folder may do so."""
    for path in folder.iterdir():
        # The second form is that of safetensors.
        name = path.name
        if (name.startswith(".") and name.endswith(TEMPORARY)) or re.fullmatch(r"\.tmp\w{6}", name):
            path.unlink() if path.is_symlink() or not path.is_dir() else shutil.rmtree(path)


@contextmanager
def writing_weights(folder: Path) -> Iterator[None]:
    """
    Restore the OSErrors that safetensors hides, and the default permissions of the files that it writes.

    Parameters
    ----------
    folder : Path
    """
    try:
        yield
    except Exception as problem:
        match = re.search(r"\(os error (\d+)\)", str(problem))
        if match is None or isinstance(problem, OSError):
            raise
        raise OSError(int(match[1]), os.strerror(int(match[1])), os.fspath(folder)) from problem
    mask = os.umask(0)
    os.umask(mask)
    for path in folder.glob("*.safetensors"):
        path.chmod(0o666 & ~mask)


def mark_file(path: Path) -> Mark:
    """Flush a file to the disk, and return its size and checksum."""
    with disk(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
            size = os.fstat(handle).st_size
        finally:
            os.close(handle)
        return Mark(bytes=size, blake2b=digest_once(path))


def digest_once(path: Path) -> str:
    """Hash a file, with a cache per process for files that have not changed."""
    status = os.stat(path)
    identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    if identity not in _HASHED:
        _HASHED[identity] = digest_file(path)
    return _HASHED[identity]


def sync_folder(folder: Path) -> None:
    """Flush a folder to the disk, so that changes in it survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in _NO_SYNC:  # some file systems do not support it, and need not
            raise
    finally:
        os.close(handle)


def refresh(folder: Path) -> None:
    """Have a network file system ask its server for the names in a folder, rather than its cache."""
    with suppress(OSError):
        os.close(os.open(folder, os.O_RDONLY))


@contextmanager
def disk(place: Path, *, note: str = "", only: Container[int | None] | None = None) -> Iterator[None]:
    """
    Convert an OSError into a WorkError of one sentence about a path.

    Parameters
    ----------
    place : Path
    note : str
        The end of the sentence.
    only : container of int, optional
        The error codes to convert; others pass through.
    """
    try:
        yield
    except OSError as problem:
        if only is not None and problem.errno not in only:
            raise
        ending = f"; {note}." if note else "."
        if problem.errno in FULL:
            what = f"have room for what is written, but got: {problem.strerror}"
        else:
            what = f"be readable and writable, but got: {problem}"
        raise WorkError(f"{place} must {what}{ending}") from problem


def natural_key(name: str) -> list[Any]:
    """Return the key that sorts names in their natural order: layer2 before layer10."""
    # Digits are compared by length, then as text: the order of numbers, without a limit on their size.
    pieces: list[Any] = re.split(r"([0-9]+)", name)
    pieces[1::2] = [(len(digits.lstrip("0")), digits.lstrip("0")) for digits in pieces[1::2]]
    return [pieces, name]


# What comes of content that is not what was written, here and inside of libraries. Recursion that is too deep
# and what a library has not implemented are RuntimeErrors.
_WRONG = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError)


@contextmanager
def as_written(path: Path, by: str = "microtome") -> Iterator[None]:
    """Convert errors from malformed content into one sentence that names the file."""
    try:
        yield
    except MicrotomeError:
        raise
    except (*_WRONG, MemoryError) as problem:
        # The message of a KeyError is the bare key.
        what = f"{problem} is missing" if isinstance(problem, KeyError) else f"got: {problem}"
        raise InputError(f"{path} must be as {by} wrote it, but {what.rstrip('. ')}.") from problem


def read_json(path: Path) -> Any:
    """Read a JSON file; raise an error that names it if it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise InputError(f"{path} must be a readable JSON file, but got: {problem}.") from problem


def peek_json(path: Path, *, line: bool = False) -> dict[str, Any]:
    """Read a JSON object from a file, or its first line, that may be missing or foreign; empty if none."""
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as file:
            document = json.loads(file.readline() if line else file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def read_record(path: Path) -> dict[str, Any]:
    """
    Read a JSON object from a file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    dict
        Empty if there is no file.
    """
    if not path.is_file():
        return {}
    with as_written(path):
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict):
            raise TypeError(f"{type(document).__name__} instead of an object")
    return document


def read_columns(path: Path) -> dict[str, list[Any]]:
    """
    Read a Parquet file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    dict of str to list
        Values by column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with as_written(path):
        try:
            return pq.read_table(path).to_pydict()
        except pa.ArrowException as problem:
            raise ValueError(str(problem)) from problem
