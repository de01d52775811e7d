"""The store: lookup, atomic insertion and garbage collection of entries by address."""

from __future__ import annotations

import errno
import os
import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DamageWarning, InputError, WorkError, must
from .address import canonical, check_address, is_address
from .claims import StoreClaim, read_claims
from .entry import StoreEntry, check_entry, find_damage, find_strays, read_entry
from .failures import FailureRecord, find_broken_failures, forgive, read_failures, record_failure
from .files import disk
from .layout import StoreLayout, listing
from .layout import find_store as find_store
from .sweeping import GRACE_HOURS, Partial, Sweep, discard, list_partial, set_aside, sweep
from .work import NO_ROOM, Work, make_order, settle, working

if TYPE_CHECKING:
    from ..context import Progress  # which imports numpy

# A missing record is damage; an unreadable one is not.
_LOST = frozenset({errno.ENOENT, errno.EISDIR, errno.ENOTDIR})


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
        check_address(address)
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

        Only one process at a time works on an address; others wait until it has finished or died, or gives no
        sign of life. The files of a killed process are still in the folder.

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
        if (entry := self._known(order)) is not None:
            yield Work(self._layout, order, entry)
            return
        self._layout.make()
        with working(self._layout, order, self._known, waiting) as work:
            yield work

    @contextmanager
    def alone(self, address: str) -> Iterator[None]:
        """
        Claim a piece of work that creates and removes several entries.

        Parameters
        ----------
        address : str
            The address of the work; other processes that claim the same address wait.
        """
        check_address(address)
        self._layout.make()
        with self._layout.locked(address):
            yield

    def running(self) -> dict[str, StoreClaim]:
        """Return the live claims on addresses: which host and process works on what."""
        with disk(self.root):
            claims = read_claims(self._layout.locks)
        return {address: claim for address, claim in claims.items() if is_address(address)}

    def fail(self, address: str, *, message: str, kind: str) -> FailureRecord:
        """
        Record a failed attempt at a piece of work; the record goes when its entry is made.

        Parameters
        ----------
        address : str
        message : str
            One sentence.
        kind : str
            Such as the name of the error.

        Returns
        -------
        FailureRecord
        """
        return record_failure(self._layout, address, message, kind)

    def failures(self) -> dict[str, FailureRecord]:
        """Return the records of failures at addresses without an entry."""
        records = read_failures(self._layout)
        entries = self.has(records)
        return {address: record for address, record in records.items() if address not in entries}

    def forgive(self, address: str) -> bool:
        """Remove the record of failures at an address, and return whether there was one."""
        check_address(address)
        with disk(self.root):
            return forgive(self._layout, address)

    def has(self, addresses: Iterable[str]) -> set[str]:
        """Return those addresses that have an entry; no record is read."""
        return self._layout.present(addresses)

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
        problems = (
            [*find_strays(self._layout), *find_broken_failures(self._layout)] if address is None else []
        )
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
        check_address(address)
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
            Remove entries that were finished longer ago, and records of failures; by default none. Records of
            looks at certifying examples are kept, since guarantees depend on them.
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
        return sweep(
            self._layout,
            older_than_days=older_than_days,
            keep=keep,
            partial=partial,
            dry_run=dry_run,
            grace_hours=grace_hours,
        )

    def _known(self, order: StoreEntry) -> StoreEntry | None:
        entry = self.get(order.address)
        if entry is not None and entry.kind != order.kind:
            raise must("kind", f"{entry.kind!r}, as that of the entry {entry.address} is", order.kind)
        return entry
