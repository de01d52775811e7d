"""Garbage collection in the store."""

from __future__ import annotations

import math
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

from ..errors import WorkError, must
from .address import is_address
from .claims import drop_part, hold, is_part, read_claims
from .entry import read_entry
from .failures import failure_files, forgive
from .files import disk
from .layout import StoreLayout, listing

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
    what : {"entry", "work", "trash", "damaged", "failure"}
        A finished entry, unfinished work, the remains of an earlier removal, a damaged entry, or a record of
        failures.
    name : str
        Its address, where it has one.
    kind : str
        The kind of an entry.
    bytes : int
    """

    what: Literal["entry", "work", "trash", "damaged", "failure"]
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


def sweep(
    layout: StoreLayout,
    *,
    older_than_days: float | None,
    keep: Sequence[str],
    partial: bool,
    dry_run: bool,
    grace_hours: float,
) -> Sweep:
    """Collect garbage; see `Shelf.gc`."""
    if older_than_days is not None and not (0 <= older_than_days < math.inf):
        raise must("older_than_days", "a number of days, at least 0", older_than_days)
    if isinstance(keep, str):
        raise must("keep", "a sequence of kinds", keep)
    if not (0 <= grace_hours < math.inf):
        raise must("grace_hours", "a number of hours, at least 0", grace_hours)
    before = None if older_than_days is None else time.time() - older_than_days * DAY
    grace = time.time() - grace_hours * HOUR
    removed: list[Removed] = []
    young = 0
    with disk(layout.root):
        candidates = (
            *old_entries(layout, before, keep),
            *idle_works(layout, before, partial),
            *old_failures(layout, before),
        )
        for candidate, changed, remove in candidates:
            if grace_hours and changed > grace:
                young += 1
            elif dry_run or remove():
                removed.append(candidate)
        removed += drop_remains(layout, dry_run)
        if not dry_run:
            drop_claims(layout)
    return Sweep(removed=tuple(removed), dry_run=dry_run, young=young)


def list_partial(layout: StoreLayout) -> list[Partial]:
    """List all unfinished work."""
    works = []
    claims = read_claims(layout.locks)
    for name in layout.works():
        address, _, suffix = name.partition(".")
        if is_address(address):
            resumable = not suffix or is_part(name)
            size, changed = measure(layout.partial / name)
            works.append(
                Partial(
                    address=address,
                    folder=layout.partial / name,
                    resumable=resumable,
                    running=(address if resumable else name) in claims,
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
    with hold(layout.locks / (work.address if work.resumable else work.folder.name), wait=False) as token:
        return token is not None and discard(layout, work.folder)


def old_failures(layout: StoreLayout, before: float | None) -> Iterator[Candidate]:
    """Iterate over records of failures whose last attempt was before a time."""
    for address, path in failure_files(layout).items() if before is not None else ():
        size, changed = measure(path)
        if before is not None and changed <= before:
            removal = Removed(what="failure", name=address, bytes=size)
            yield removal, changed, partial_call(forgive, layout, address)


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


def drop_claims(layout: StoreLayout) -> None:
    """Remove the claims that killed processes have left."""
    for name in listing(layout.locks):
        if is_part(name):
            drop_part(layout.locks / name)
        elif not (layout.partial / name).exists() and not layout.states(name):
            with hold(layout.locks / name, wait=False):
                pass


def _delete(path: Path) -> None:
    while os.path.lexists(path):
        try:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        except FileNotFoundError:  # another process deletes it, too
            continue
