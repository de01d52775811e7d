"""What is not needed any more, and how does it go without taking anything else along?"""

from __future__ import annotations

import math
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import WorkError, must
from .address import is_address
from .entry import read_entry
from .files import disk
from .layout import Layout, listing
from .lock import hold, is_held

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """
    Work that was begun and is not finished.

    Parameters
    ----------
    address : str
        Of the entry that it is to become.
    folder : Path
    resumable : bool
        Whether it can be taken up again.
    running : bool
        Whether a process is at it now.
    bytes : int
        What is written so far.
    changed : float
        When something was last written, in seconds since 1970.
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
    One thing that went.

    Parameters
    ----------
    what : {"entry", "work", "trash"}
        A finished entry, unfinished work, or what was left of an earlier removal.
    name : str
        Its address, where it has one.
    kind : str
        Of an entry.
    bytes : int
    """

    what: Literal["entry", "work", "trash"]
    name: str
    kind: str = ""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """
    What a collection of garbage removed, or would remove.

    Parameters
    ----------
    removed : tuple of Removed
    dry_run : bool
    """

    removed: tuple[Removed, ...]
    dry_run: bool

    @property
    def bytes(self) -> int:
        """How much room that makes."""
        return sum(one.bytes for one in self.removed)


def sweep(
    layout: Layout, *, older_than_days: float | None, keep: Sequence[str], partial: bool, dry_run: bool
) -> Sweep:
    """Remove entries by age, what cannot be taken up again, and on request what could; see `Shelf.gc`."""
    if older_than_days is not None and not (0 <= older_than_days < math.inf):
        raise must("older_than_days", "a number of days, at least 0", older_than_days)
    if isinstance(keep, str):
        raise must("keep", "a sequence of kinds", keep)
    before = None if older_than_days is None else time.time() - older_than_days * DAY
    with disk(layout.root):
        found = [*_entries(layout, before, keep, dry_run), *_works(layout, before, partial, dry_run)]
        found += _trash(layout, dry_run)
        if not dry_run:
            _locks(layout)
    return Sweep(removed=tuple(found), dry_run=dry_run)


def list_partial(layout: Layout) -> list[Partial]:
    """Look at everything that is not finished."""
    found = []
    for name in layout.works():
        address, _, rest = name.partition(".")
        if is_address(address):
            size, changed = measure(layout.partial / name)
            found.append(
                Partial(
                    address=address,
                    folder=layout.partial / name,
                    resumable=not rest,
                    running=is_held(layout.locks / name),
                    bytes=size,
                    changed=changed,
                )
            )
    return found


def discard(layout: Layout, folder: Path) -> bool:
    """Move a folder out of sight in one step, then delete it; say whether it was there."""
    if not os.path.lexists(folder):
        return False
    layout.trash.mkdir(exist_ok=True)
    grave = layout.trash / f"{folder.name}.{secrets.token_hex(4)}"
    try:
        os.rename(folder, grave)
    except FileNotFoundError:  # somebody else was faster
        return False
    _delete(grave)
    return True


def measure(folder: Path) -> tuple[int, float]:
    """Say how many bytes a folder or a file holds, and when something in it was last changed."""
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


def _entries(layout: Layout, before: float | None, keep: Sequence[str], dry_run: bool) -> Iterator[Removed]:
    for address in layout.addresses() if before is not None else ():
        try:
            entry = read_entry(layout.place(address))
        except WorkError:
            continue
        if before is None or entry.created.timestamp() > before or entry.kind in keep:
            continue
        size, _ = measure(entry.folder)
        if dry_run or discard(layout, entry.folder):
            yield Removed(what="entry", name=address, kind=entry.kind, bytes=size)


def _works(layout: Layout, before: float | None, partial: bool, dry_run: bool) -> Iterator[Removed]:
    for one in list_partial(layout):
        wanted = not one.resumable or (partial and (before is None or one.changed <= before))
        if one.running or not wanted:
            continue
        if dry_run or _discard_work(layout, one):
            yield Removed(what="work", name=one.address, bytes=one.bytes)


def _discard_work(layout: Layout, one: Partial) -> bool:
    with hold(layout.locks / one.folder.name, wait=False) as state:
        # Without locks nobody knows whether a process is at it; what rests for a day is taken to be left.
        resting = time.time() - one.changed > DAY
        return (state == "held" or (state == "unsupported" and resting)) and discard(layout, one.folder)


def _trash(layout: Layout, dry_run: bool) -> Iterator[Removed]:
    for name in listing(layout.trash):
        size, _ = measure(layout.trash / name)
        if not dry_run:
            _delete(layout.trash / name)
        yield Removed(what="trash", name=name.partition(".")[0], bytes=size)


def _locks(layout: Layout) -> None:
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
