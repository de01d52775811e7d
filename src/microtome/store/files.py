"""How is a file written so that it is whole or not there at all, and what is said when the disk refuses?"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import WorkError
from .address import DIGEST_BYTES, digest_file

TEMPORARY = ".tmp"
# What a disk, a quota or a limit on the size of files answers when there is no room.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """
    What a file is known by.

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
    Write a file under another name, make sure that it is on the disk, and rename it into place.

    Whoever opens it sees the whole old file or the whole new one, also after a power cut.

    Parameters
    ----------
    path : Path
    pieces : iterable of bytes
        The content, piece by piece.

    Returns
    -------
    Mark
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
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


def mark_file(path: Path) -> Mark:
    """Make sure that a file is on the disk, and say what it is known by."""
    with disk(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
            size = os.fstat(handle).st_size
        finally:
            os.close(handle)
    return Mark(bytes=size, blake2b=digest_file(path))


def sync_folder(folder: Path) -> None:
    """Make sure that what was made, renamed or removed in a folder stays so after a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in _NO_SYNC:  # some file systems cannot, and need not
            raise
    finally:
        os.close(handle)


@contextmanager
def disk(place: Path, *, note: str = "") -> Iterator[None]:
    """Turn what the system says about a disk into one sentence about the place."""
    try:
        yield
    except OSError as problem:
        raise refusal(place, problem, note=note) from problem


def refusal(place: Path, problem: OSError, *, note: str = "") -> WorkError:
    """Write the sentence for a disk that is full, read-only or broken."""
    ending = f"; {note}." if note else "."
    if problem.errno in FULL:
        return WorkError(f"{place} must have room for what is written, but got: {problem.strerror}{ending}")
    return WorkError(f"{place} must be readable and writable, but got: {problem}{ending}")
