"""File locks between processes, released by the system when a process dies."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

State = Literal["held", "busy", "unsupported"]
# Error codes of file systems without locks, on which work proceeds unlocked.
_UNSUPPORTED = frozenset(
    {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF}
)


@contextmanager
def hold(path: Path, *, wait: bool = True, waiting: Callable[[], None] | None = None) -> Iterator[State]:
    """
    Hold the lock of a file while the block runs.

    The lock belongs to the open file, so that the system releases it when a process dies. The file is
    removed at the end.

    Parameters
    ----------
    path : Path
        The lock file; created if it does not exist.
    wait : bool
        Whether to wait for another holder.
    waiting : callable, optional
        Called once before waiting.

    Yields
    ------
    {"held", "busy", "unsupported"}
        "busy" only without waiting; "unsupported" where the file system has no locks.
    """
    handle, state = _take(path, wait, waiting)
    try:
        yield state
    finally:
        if state != "busy":
            # Removed while it is held: a waiting process then notices that its file was removed.
            with suppress(OSError):
                path.unlink()
            # A forked child may share the open file, so that closing it here would not release the lock.
            _flock(handle, unlock=True)
        os.close(handle)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock of a file; changes nothing on the disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return _flock(handle, wait=False) == "busy"
    finally:
        os.close(handle)


def _take(path: Path, wait: bool, waiting: Callable[[], None] | None) -> tuple[int, State]:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            state = _flock(handle, wait=False)
            if state == "busy" and wait:
                if waiting is not None:
                    waiting()
                    waiting = None
                state = _flock(handle)
            if state != "held" or _is_at(handle, path):
                return handle, state
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _flock(handle: int, *, wait: bool = True, unlock: bool = False) -> State:
    try:
        import fcntl
    except ImportError:
        return "unsupported"
    try:
        fcntl.flock(handle, fcntl.LOCK_UN if unlock else fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return "busy"
    except OSError as problem:
        if problem.errno in _UNSUPPORTED:
            return "unsupported"
        raise
    return "held"
