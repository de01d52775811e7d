"""What is already known? Finished work under its address, put there in one step or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import InputError, WorkError, must
from .address import canonical, is_address
from .checking import check_store
from .entry import RECORD, Entry, read_entry
from .files import FULL, disk, refusal
from .layout import Layout
from .layout import find_store as find_store
from .lock import hold
from .sweeping import Partial, Sweep, discard, list_partial, sweep
from .work import Order, Work, make_order, settle

_KEPT = "what was done before is kept, and the same command goes on from there"


class Shelf:
    """
    A store of finished work: owns a folder.

    Parameters
    ----------
    root : path, optional
        See `find_store`. Nothing is written before something is put there.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self.root = find_store(root)
        self._layout = Layout(root=self.root)
        self._layout.check()

    def __repr__(self) -> str:
        return f"Shelf({str(self.root)!r})"

    def get(self, address: str) -> Entry | None:
        """
        Look up a finished entry.

        Parameters
        ----------
        address : str

        Returns
        -------
        Entry or None
            Never half of one: an entry is there when its folder was renamed into place.
        """
        if not is_address(address):
            raise must("address", "40 hexadecimal digits", address)
        place = self._layout.place(address)
        try:
            return read_entry(place) if place.is_dir() else None
        except WorkError:
            if not place.is_dir():  # removed meanwhile
                return None
            raise

    def find(self, beginning: str) -> str:
        """
        Complete an address of which only the beginning is given.

        Parameters
        ----------
        beginning : str

        Returns
        -------
        str
            The address of the one entry that begins so.
        """
        found = [one for one in self.addresses() if one.startswith(beginning)] if beginning else []
        if len(found) > 1:
            raise InputError(
                f"address must be the beginning of one entry, but {beginning!r} is that of {len(found)}: "
                f"{', '.join(found[:3])}{', ...' if len(found) > 3 else ''}."
            )
        if not found:
            raise must("address", f"that of an entry in {self.root}, or its beginning", beginning)
        return found[0]

    def put(
        self,
        files: Callable[[Path], object],
        *,
        kind: str,
        specification: Mapping[str, Any],
        inputs: Sequence[str] = (),
        address: str | None = None,
        provenance: Mapping[str, Any] | None = None,
        command: str = "",
    ) -> Entry:
        """
        Make an entry in one step.

        Parameters
        ----------
        files : callable
            Writes the files into the folder it is given. Not called if the entry is there.
        kind : str
        specification : mapping
            What was asked for: plain data.
        inputs : sequence of str
            The addresses of what was read.
        address : str, optional
            That of the specification and the inputs when absent.
        provenance : mapping, optional
            What else is to be known about how it was made.
        command : str
            What a user types to make it again.

        Returns
        -------
        Entry
            That of whoever was first.
        """
        order = make_order(address, kind, specification, inputs, command)
        canonical(provenance or {}, "provenance")
        if (entry := self._known(order)) is not None:
            return entry
        self._layout.make()
        # The dot tells it from work that can be taken up again.
        name = f"{order.address}.{secrets.token_hex(4)}"
        folder = self._layout.partial / name
        with _locked(self._layout, name):
            start = time.monotonic()
            try:
                with disk(self.root):
                    folder.mkdir()
                with _no_room(self.root):
                    files(folder)
                return settle(self._layout, order, folder, provenance or {}, time.monotonic() - start)
            finally:
                with suppress(OSError):  # the next collection of garbage tries again
                    discard(self._layout, folder)

    @contextmanager
    def work(
        self,
        address: str | None = None,
        *,
        kind: str,
        specification: Mapping[str, Any],
        inputs: Sequence[str] = (),
        command: str = "",
        waiting: Callable[[], None] | None = None,
    ) -> Iterator[Work]:
        """
        Take up a piece of work, or find it finished.

        Only one process at a time works on an address; another waits until it is done or has died. What
        a killed process has written is still in the folder.

        Parameters
        ----------
        address : str, optional
            That of the specification and the inputs when absent.
        kind, specification, inputs, command
            As in `put`.
        waiting : callable, optional
            Called once if another process is at it.

        Yields
        ------
        Work
        """
        order = make_order(address, kind, specification, inputs, command)
        folder = self._layout.partial / order.address

        def finish(place: Path, provenance: Mapping[str, Any], seconds: float) -> Entry:
            return settle(self._layout, order, place, provenance, seconds)

        if (entry := self._known(order)) is not None:
            yield Work(order.address, entry, folder=folder, finish=finish)
            return
        self._layout.make()
        with _locked(self._layout, order.address, waiting):
            # Whoever held the lock before may have finished it.
            entry = self._known(order)
            if entry is None:
                with disk(folder):
                    folder.mkdir(exist_ok=True)
                    (folder / RECORD).unlink(missing_ok=True)
            with _no_room(self.root, note=_KEPT):
                yield Work(order.address, entry, folder=folder, finish=finish)

    @contextmanager
    def alone(self, address: str) -> Iterator[None]:
        """
        Keep other processes off a piece of work that makes and removes several entries.

        Parameters
        ----------
        address : str
            What the work is known by; another process that asks for the same waits.
        """
        if not is_address(address):
            raise must("address", "40 hexadecimal digits", address)
        self._layout.make()
        with _locked(self._layout, address):
            yield

    def addresses(self) -> list[str]:
        """The addresses of all entries, also of those that cannot be read."""
        return list(self._layout.addresses())

    def entries(self) -> Iterator[Entry]:
        """All entries that can be read, in the order of their addresses; `verify` names the others."""
        for address in self.addresses():
            try:
                entry = self.get(address)
            except WorkError:
                continue
            if entry is not None:
                yield entry

    def partial(self) -> list[Partial]:
        """Work that was begun and not finished, whether it is going on or was interrupted."""
        return list_partial(self._layout)

    def verify(
        self, address: str | None = None, *, progress: Callable[[str, int, int], None] | None = None
    ) -> list[str]:
        """
        Compare every file with its checksum.

        Parameters
        ----------
        address : str, optional
            One entry; all when absent.
        progress : callable, optional
            Called with what is done, how many are, and of how many.

        Returns
        -------
        list of str
            A sentence for each problem.
        """
        chosen = self.addresses() if address is None else [self.find(address)]
        return check_store(self._layout, chosen, strays=address is None, progress=progress)

    def remove(self, address: str) -> bool:
        """
        Remove an entry, also one that cannot be read.

        Parameters
        ----------
        address : str

        Returns
        -------
        bool
            Whether there was one.
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
    ) -> Sweep:
        """
        Remove what is not needed any more.

        What was begun by `put` and cannot be taken up again always goes, and so does what is left of earlier
        removals. What a process is working on never goes.

        Parameters
        ----------
        older_than_days : float, optional
            Remove entries that were finished longer ago; none when absent.
        keep : sequence of str
            Kinds of entries that stay at any age.
        partial : bool
            Whether interrupted work goes too, if no file of it was changed within `older_than_days`.
        dry_run : bool
            Only say what would go.

        Returns
        -------
        Sweep
        """
        return sweep(
            self._layout, older_than_days=older_than_days, keep=keep, partial=partial, dry_run=dry_run
        )

    def _known(self, order: Order) -> Entry | None:
        entry = self.get(order.address)
        if entry is not None and entry.kind != order.kind:
            raise must("kind", f"{entry.kind!r}, as that of the entry {entry.address} is", order.kind)
        return entry


@contextmanager
def _locked(layout: Layout, name: str, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    # Only taking the lock is explained as the disk's doing: errors of the work go through as they are.
    with ExitStack() as stack:
        with disk(layout.root):
            stack.enter_context(hold(layout.locks / name, waiting=waiting))
        yield


@contextmanager
def _no_room(root: Path, note: str = "") -> Iterator[None]:
    """Explain a full disk; every other error of a writer is its own."""
    try:
        yield
    except OSError as problem:
        if problem.errno in FULL or problem.errno == errno.EROFS:
            raise refusal(root, problem, note=note) from problem
        raise
