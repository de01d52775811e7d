"""The store: lookup, atomic insertion and garbage collection of entries by address."""

from __future__ import annotations

import errno
import math
import os
import secrets
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DamageWarning, InputError, WorkError, must
from .address import canonical, is_address
from .checking import check_entry, find_damage, find_strays
from .entry import RECORD, StoreEntry, read_entry
from .files import FULL, disk, drop_temporary
from .layout import StoreLayout, listing
from .layout import find_store as find_store
from .sweeping import (
    DAY,
    GRACE_HOURS,
    HOUR,
    Partial,
    Removed,
    Sweep,
    discard,
    drop_locks,
    drop_remains,
    idle_works,
    list_partial,
    old_entries,
    set_aside,
)
from .work import Work, make_order, settle

if TYPE_CHECKING:
    from ..context import Progress  # which imports numpy

# A missing record is damage; an unreadable one is not.
_LOST = frozenset({errno.ENOENT, errno.EISDIR, errno.ENOTDIR})
# Errors of a full or read-only disk.
NO_ROOM = FULL | {errno.EROFS}
_RESUMABLE = "what was done before is kept, and the same command goes on from there"


class Shelf:
    """
    A store of finished work; it owns a folder.

    Parameters
    ----------
    root : path, optional
        See `find_store`. Nothing is written before the first entry.
    command : str
        The command that reproduces the entries that are added.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None, command: str = "") -> None:
        self.root, self.command = find_store(root), command
        self._layout = StoreLayout(root=self.root)
        self._layout.check()

    def __repr__(self) -> str:
        return f"Shelf({str(self.root)!r})"

    def get(self, address: str) -> StoreEntry | None:
        """
        Look up a finished entry and verify its files.

        Parameters
        ----------
        address : str

        Returns
        -------
        StoreEntry or None
            Always complete: the folder of an entry is renamed into place, and its files have the checksums of
            its record. A damaged entry is set aside with a warning, and counts as absent.
        """
        folder = self._layout.place(address)
        before = folder.stat().st_ino if is_address(address) and folder.is_dir() else None
        try:
            entry = self.look(address)
            problem = None if entry is None else find_damage(entry)
        except WorkError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno not in _LOST:
                raise
            entry, problem = None, str(error)
        if problem is None:
            if entry is not None:
                with suppress(OSError):  # a read-only store
                    os.utime(folder)
            return entry
        aside = set_aside(self._layout, folder, before)
        if aside is not None:
            warnings.warn(
                f"{problem} The entry was moved to {aside}; what is asked of it is computed again.",
                DamageWarning,
                stacklevel=2,
            )
        return None

    def look(self, address: str) -> StoreEntry | None:
        """
        Read the record of a finished entry without its files.

        Parameters
        ----------
        address : str

        Returns
        -------
        StoreEntry or None
        """
        if not is_address(address):
            raise must("address", "40 hexadecimal digits", address)
        folder = self._layout.place(address)
        try:
            return read_entry(folder) if folder.is_dir() else None
        except WorkError:
            if not folder.is_dir():  # removed meanwhile
                return None
            raise

    def find(self, beginning: str) -> str:
        """
        Complete the prefix of an address.

        Parameters
        ----------
        beginning : str

        Returns
        -------
        str
            The address of the only entry with this prefix.
        """
        matches = (
            [address for address in self.addresses() if address.startswith(beginning)] if beginning else []
        )
        if len(matches) > 1:
            raise InputError(
                f"address must be the beginning of one entry, but {beginning!r} is that of {len(matches)}: "
                f"{', '.join(matches[:3])}{', ...' if len(matches) > 3 else ''}."
            )
        if not matches:
            raise must("address", f"that of an entry in {self.root}, or its beginning", beginning)
        return matches[0]

    def put(
        self,
        files: Callable[[Path], object],
        *,
        kind: str,
        specification: Mapping[str, Any],
        inputs: Sequence[str] = (),
        address: str | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> StoreEntry:
        """
        Create an entry in one step.

        Parameters
        ----------
        files : callable
            Called with a folder, into which it writes the files. Not called if the entry exists.
        kind : str
        specification : mapping
            The specification of the work: plain data.
        inputs : sequence of str
            The addresses of the inputs.
        address : str, optional
            By default that of the specification and the inputs.
        provenance : mapping, optional
            Further facts about how it was made.

        Returns
        -------
        StoreEntry
            That of the first writer.
        """
        order = make_order(address, kind, specification, inputs, self.command)
        canonical(provenance or {}, "provenance")
        if (entry := self._known(order)) is not None:
            return entry
        self._layout.make()
        # The dot distinguishes it from work that can be resumed.
        name = f"{order.address}.{secrets.token_hex(4)}"
        folder = self._layout.partial / name
        with self._layout.locked(name):
            start = time.monotonic()
            try:
                with disk(self.root):
                    folder.mkdir()
                with disk(self.root, only=NO_ROOM):
                    files(folder)
                return settle(self._layout, order, folder, provenance or {}, time.monotonic() - start)
            finally:
                with suppress(OSError):  # the next garbage collection tries again
                    discard(self._layout, folder)

    @contextmanager
    def work(
        self,
        address: str | None = None,
        *,
        kind: str,
        specification: Mapping[str, Any],
        inputs: Sequence[str] = (),
        waiting: Callable[[], None] | None = None,
    ) -> Iterator[Work]:
        """
        Begin or resume a piece of work, or find it finished.

        Only one process at a time works on an address; others wait until it has finished or died. The files
        of a killed process are still in the folder.

        Parameters
        ----------
        address : str, optional
            By default that of the specification and the inputs.
        kind, specification, inputs
            As in `put`.
        waiting : callable, optional
            Called once if another process works on it.

        Yields
        ------
        Work
        """
        order = make_order(address, kind, specification, inputs, self.command)
        folder = self._layout.partial / order.address

        if (entry := self._known(order)) is not None:
            yield Work(self._layout, order, entry)
            return
        self._layout.make()
        with self._layout.locked(order.address, waiting):
            # The previous holder of the lock may have finished it.
            entry = self._known(order)
            if entry is None:
                with disk(folder):
                    folder.mkdir(exist_ok=True)
                    drop_temporary(folder)
                    (folder / RECORD).unlink(missing_ok=True)
            with disk(self.root, note=_RESUMABLE, only=NO_ROOM):
                yield Work(self._layout, order, entry)

    @contextmanager
    def alone(self, address: str) -> Iterator[None]:
        """
        Hold the lock of a piece of work that creates and removes several entries.

        Parameters
        ----------
        address : str
            The address of the work; other processes that lock the same address wait.
        """
        if not is_address(address):
            raise must("address", "40 hexadecimal digits", address)
        self._layout.make()
        with self._layout.locked(address):
            yield

    def addresses(self) -> list[str]:
        """List the addresses of all entries, including those that cannot be read."""
        return list(self._layout.addresses())

    def entries(self) -> Iterator[StoreEntry]:
        """Iterate over all readable entries, in order of their addresses; `verify` reports the others."""
        for address in self.addresses():
            try:
                entry = self.look(address)
            except WorkError:
                continue
            if entry is not None:
                yield entry

    def partial(self) -> list[Partial]:
        """List unfinished work, whether running or interrupted."""
        return list_partial(self._layout)

    def damaged(self) -> list[str]:
        """List the addresses of damaged entries that were set aside; `gc` removes them."""
        return [name.partition(".")[0] for name in listing(self._layout.damaged)]

    def verify(self, address: str | None = None, *, progress: Progress | None = None) -> list[str]:
        """
        Compare every file with its checksum.

        Parameters
        ----------
        address : str, optional
            The entry; all entries by default.
        progress : callable, optional
            Called with the name of the task, the number done and the total.

        Returns
        -------
        list of str
            One sentence per problem.
        """
        addresses = self.addresses() if address is None else [self.find(address)]
        problems = list(find_strays(self._layout)) if address is None else []
        for position, name in enumerate(addresses, start=1):
            problems += check_entry(self._layout.place(name))
            if progress is not None:
                progress("entries", position, len(addresses))
        return problems

    def remove(self, address: str) -> bool:
        """
        Remove an entry, even if it cannot be read.

        Parameters
        ----------
        address : str

        Returns
        -------
        bool
            Whether it existed.
        """
        if not is_address(address):
            raise must("address", "40 hexadecimal digits", address)
        with disk(self.root):
            return discard(self._layout, self._layout.place(address))

    def gc(
        self,
        *,
        older_than_days: float | None = None,
        keep: Sequence[str] = (),
        partial: bool = False,
        dry_run: bool = False,
        grace_hours: float = GRACE_HOURS,
    ) -> Sweep:
        """
        Collect garbage.

        Unfinished work of `put`, which cannot be resumed, is always removed, and so are the remains of
        earlier removals and damaged entries that were set aside. Work in progress is never removed, and
        recent entries are kept, since running work may still read them.

        Parameters
        ----------
        older_than_days : float, optional
            Remove entries that were finished longer ago; by default none. Records of looks at certifying
            examples are kept, since guarantees depend on them.
        keep : sequence of str
            Kinds of entries that are kept at any age.
        partial : bool
            Whether to remove interrupted work too, if none of its files changed within `older_than_days`.
        dry_run : bool
            Only report what would be removed.
        grace_hours : float
            Entries created or read, and work changed, within this many hours are kept.

        Returns
        -------
        Sweep
        """
        if older_than_days is not None and not (0 <= older_than_days < math.inf):
            raise must("older_than_days", "a number of days, at least 0", older_than_days)
        if isinstance(keep, str):
            raise must("keep", "a sequence of kinds", keep)
        if not (0 <= grace_hours < math.inf):
            raise must("grace_hours", "a number of hours, at least 0", grace_hours)
        layout = self._layout
        before = None if older_than_days is None else time.time() - older_than_days * DAY
        grace = time.time() - grace_hours * HOUR
        removed: list[Removed] = []
        young = 0
        with disk(self.root):
            candidates = (*old_entries(layout, before, keep), *idle_works(layout, before, partial))
            for candidate, changed, remove in candidates:
                if grace_hours and changed > grace:
                    young += 1
                elif dry_run or remove():
                    removed.append(candidate)
            removed += drop_remains(layout, dry_run)
            if not dry_run:
                drop_locks(layout)
        return Sweep(removed=tuple(removed), dry_run=dry_run, young=young)

    def _known(self, order: StoreEntry) -> StoreEntry | None:
        entry = self.get(order.address)
        if entry is not None and entry.kind != order.kind:
            raise must("kind", f"{entry.kind!r}, as that of the entry {entry.address} is", order.kind)
        return entry
