"""Garbage collection in the store."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial as partial_call
from pathlib import Path
from typing import Literal

from ..errors import WorkError
from .address import is_address
from .entry import read_entry
from .files import disk
from .layout import StoreLayout, listing
from .lock import hold, is_held

HOUR = 3_600.0
DAY = 24 * HOUR
# Running work may still read entries that are younger.
GRACE_HOURS = 24.0
LASTING = ("look",)  # kinds that are kept at any age: a look at the data cannot be undone


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """
    Unfinished work.

    Parameters
    ----------
    address : str
        The address of the future entry.
    folder : Path
    resumable : bool
        Whether it can be resumed.
    running : bool
        Whether a process is working on it.
    bytes : int
        The bytes written so far.
    changed : float
        The time of the last write, in seconds since 1970.
    """

    address: str
    folder: Path
    resumable: bool
    running: bool
    bytes: int
    changed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """
    One removed folder.

    Parameters
    ----------
    what : {"entry", "work", "trash", "damaged"}
        A finished entry, unfinished work, the remains of an earlier removal, or a damaged entry.
    name : str
        Its address, where it has one.
    kind : str
        The kind of an entry.
    bytes : int
    """

    what: Literal["entry", "work", "trash", "damaged"]
    name: str
    kind: str = ""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """
    What a garbage collection removed, or would remove.

    Parameters
    ----------
    removed : tuple of Removed
    dry_run : bool
    young : int
        The number of entries and pieces of work that are kept only because they are recent.
    """

    removed: tuple[Removed, ...]
    dry_run: bool
    young: int = 0

    @property
    def bytes(self) -> int:
        """Bytes freed."""
        return sum(removal.bytes for removal in self.removed)


def list_partial(layout: StoreLayout) -> list[Partial]:
    """List all unfinished work."""
    works = []
    for name in layout.works():
        address, _, suffix = name.partition(".")
        if is_address(address):
            size, changed = measure(layout.partial / name)
            works.append(
                Partial(
                    address=address,
                    folder=layout.partial / name,
                    resumable=not suffix,
                    running=is_held(layout.locks / name),
                    bytes=size,
                    changed=changed,
                )
            )
    return works


def discard(layout: StoreLayout, folder: Path) -> bool:
    """Move a folder to the trash in one step, then delete it; return whether it existed."""
    if not os.path.lexists(folder):
        return False
    layout.trash.mkdir(exist_ok=True)
    target = layout.trash / f"{folder.name}.{secrets.token_hex(4)}"
    try:
        os.rename(folder, target)
    except FileNotFoundError:  # another process was faster
        return False
    _delete(target)
    return True


def set_aside(layout: StoreLayout, folder: Path, number: int | None) -> Path | None:
    """
    Move a damaged entry aside.

    Parameters
    ----------
    layout : StoreLayout
    folder : Path
    number : int or None
        The inode of the damaged folder: another process may have replaced it since.

    Returns
    -------
    Path or None
        The new path; None if another process was faster.
    """
    with disk(layout.root, note="a damaged entry cannot be moved away"):
        layout.damaged.mkdir(exist_ok=True)
        target = layout.damaged / f"{folder.name}.{secrets.token_hex(4)}"
        try:
            if folder.stat().st_ino != number:
                return None
            os.rename(folder, target)
        except FileNotFoundError:
            return None
        return target


def measure(folder: Path) -> tuple[int, float]:
    """Return the size of a folder or a file in bytes, and the time of its last change."""
    paths = [os.fspath(folder)]
    for inside, folders, files in os.walk(folder):
        paths += [os.path.join(inside, name) for name in (*folders, *files)]
    size, changed = 0, 0.0
    for path in paths:
        with suppress(FileNotFoundError):  # a process may be at work there
            status = os.lstat(path)
            size += 0 if stat.S_ISDIR(status.st_mode) else status.st_size
            changed = max(changed, status.st_mtime)
    return size, changed


# What may be removed, the time of its last change or use, and the function that removes it.
Candidate = tuple[Removed, float, Callable[[], bool]]


def old_entries(layout: StoreLayout, before: float | None, keep: Sequence[str]) -> Iterator[Candidate]:
    """Iterate over entries that were finished before a time, except for those of kinds to keep."""
    for address in layout.addresses() if before is not None else ():
        try:
            entry = read_entry(layout.place(address))
        except WorkError:
            continue
        if before is None or entry.created.timestamp() > before or entry.kind in (*LASTING, *keep):
            continue
        size, changed = measure(entry.folder)
        # Reading an entry updates the time of its folder.
        used = max(entry.created.timestamp(), changed)
        removal = Removed(what="entry", name=address, kind=entry.kind, bytes=size)
        yield removal, used, partial_call(discard, layout, entry.folder)


def idle_works(layout: StoreLayout, before: float | None, partial: bool) -> Iterator[Candidate]:
    """Iterate over work that cannot be resumed, and if `partial` also over interrupted work."""
    for work in list_partial(layout):
        removable = not work.resumable or (partial and (before is None or work.changed <= before))
        if work.running or not removable:
            continue
        removed = Removed(what="work", name=work.address, bytes=work.bytes)
        yield removed, work.changed, partial_call(_discard_work, layout, work)


def _discard_work(layout: StoreLayout, work: Partial) -> bool:
    with hold(layout.locks / work.folder.name, wait=False) as state:
        # Without locks a running process cannot be detected; work unchanged for a day counts as abandoned.
        resting = time.time() - work.changed > DAY
        return (state == "held" or (state == "unsupported" and resting)) and discard(layout, work.folder)


def drop_remains(layout: StoreLayout, dry_run: bool) -> Iterator[Removed]:
    """Delete the remains of earlier removals, and damaged entries."""
    folders: tuple[tuple[Path, Literal["trash", "damaged"]], ...] = (
        (layout.trash, "trash"),
        (layout.damaged, "damaged"),
    )
    for folder, what in folders:
        for name in listing(folder):
            size, _ = measure(folder / name)
            if not dry_run:
                _delete(folder / name)
            yield Removed(what=what, name=name.partition(".")[0], bytes=size)


def drop_locks(layout: StoreLayout) -> None:
    """Remove the lock files that killed processes have left."""
    for name in listing(layout.locks):
        if not (layout.partial / name).exists():
            with hold(layout.locks / name, wait=False):
                pass


def _delete(path: Path) -> None:
    while os.path.lexists(path):
        try:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        except FileNotFoundError:  # another process deletes it, too
            continue
