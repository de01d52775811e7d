"""Conversion of a folder of files into a store entry."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import InputError, WorkError
from .address import address as make_address
from .address import canonical, check_address
from .entry import (
    RECORD,
    StoreEntry,
    check_kind,
    check_name,
    is_plain,
    make_provenance,
    read_entry,
    write_entry,
)
from .failures import forgive
from .files import FULL, disk, drop_temporary, mark_file, refresh, sync_folder
from .layout import StoreLayout
from .resuming import enter, leave, place, taken_over
from .sweeping import discard

# Errors of a full or read-only disk.
NO_ROOM = FULL | {errno.EROFS}
_RESUMABLE = "what was done before is kept, and the same command goes on from there"


class Work:
    """
    A resumable piece of work; it owns a folder until it is finished.

    Parameters
    ----------
    layout : StoreLayout
    order : StoreEntry
        See `make_order`.
    entry : StoreEntry or None
        The finished entry; if there is one, nothing is left to do.
    token : str
        Of the claim on the address.
    """

    def __init__(
        self, layout: StoreLayout, order: StoreEntry, entry: StoreEntry | None, token: str = ""
    ) -> None:
        self.address, self.entry = order.address, entry
        self._layout, self._order, self._token = layout, order, token
        self._start = time.monotonic()

    @property
    def folder(self) -> Path:
        """Folder for the files; it still holds those written before an interruption."""
        if self.entry is not None:
            raise InputError(
                f"the folder of a work must be asked for before it is finished, but {self.address} is "
                "already in the store."
            )
        return place(self._layout, self.address, self._token)

    def finish(
        self, provenance: Mapping[str, Any] | None = None, *, seconds: float | None = None
    ) -> StoreEntry:
        """
        Turn the folder into an entry: all files, with their checksums, appear in the store at once.

        Parameters
        ----------
        provenance : mapping, optional
            Further facts about how it was made.
        seconds : float, optional
            The duration of the work; by default the time since it was begun or resumed.

        Returns
        -------
        StoreEntry
            That of the first writer.
        """
        spent = time.monotonic() - self._start if seconds is None else seconds
        folder = self.folder
        try:
            self.entry = settle(self._layout, self._order, folder, provenance or {}, spent)
        except (OSError, WorkError) as problem:
            if folder.is_dir():
                raise
            # Another process has taken over, and may have finished it.
            target = self._layout.place(self.address)
            refresh(target.parent)
            if not target.is_dir():
                raise taken_over(self.address) from problem
            self.entry = read_entry(target)
        return self.entry


@contextmanager
def working(
    layout: StoreLayout,
    order: StoreEntry,
    look: Callable[[StoreEntry], StoreEntry | None],
    waiting: Callable[[], None] | None,
) -> Iterator[Work]:
    """
    Claim a piece of work, and go on from the files that are there.

    Parameters
    ----------
    layout : StoreLayout
    order : StoreEntry
        See `make_order`.
    look : callable
        Looks the entry up.
    waiting : callable, optional
        Called once if another process works on it.

    Yields
    ------
    Work
    """
    with layout.locked(order.address, waiting) as token:
        for folder in (layout.entries, layout.place(order.address).parent):
            refresh(folder)
        # The previous holder of the claim may have finished it.
        work = Work(layout, order, look(order), token)
        try:
            if work.entry is None:
                with disk(layout.partial / order.address):
                    enter(layout, order.address, token)
            with disk(layout.root, note=_RESUMABLE, only=NO_ROOM):
                yield work
        except Exception as problem:
            if work.entry is None and not work.folder.is_dir():
                raise taken_over(order.address) from problem
            raise
        finally:
            leave(layout, order.address, token)


def make_order(
    address: str | None, kind: str, specification: Mapping[str, Any], inputs: Sequence[str], command: str
) -> StoreEntry:
    """Validate an entry that is to be made: it has no files yet, and of its provenance only the command."""
    derived = make_address(specification, inputs)
    if address is not None:
        check_address(address)
    check_kind(kind)
    return StoreEntry(
        address=address or derived,
        kind=kind,
        # A deep copy, so that later changes by the caller have no effect.
        specification=json.loads(canonical(specification, "specification")),
        inputs=tuple(inputs),
        provenance={"command": command},
        files={},
        folder=Path(),
    )


def settle(
    layout: StoreLayout, order: StoreEntry, folder: Path, facts: Mapping[str, Any], seconds: float
) -> StoreEntry:
    """
    Turn a folder into an entry: flushed to the disk with checksums, then renamed into place.

    Parameters
    ----------
    layout : StoreLayout
    order : StoreEntry
        See `make_order`.
    folder : Path
        Holds the files; in the same file system.
    facts : mapping
        Further facts about how it was made.
    seconds : float
        The duration.

    Returns
    -------
    StoreEntry
        That of the first writer.
    """
    canonical(facts, "provenance")
    with disk(layout.root):
        files = {}
        drop_temporary(folder)
        for path in sorted(folder.iterdir()):
            check_name(path.name)
            if not is_plain(path):
                raise InputError(f"an entry must consist of plain files, but {path.name} is none.")
            files[path.name] = mark_file(path)
        provenance = make_provenance(facts, seconds=seconds, command=order.provenance["command"])
        write_entry(replace(order, provenance=provenance, files=files, folder=folder))
        target = layout.place(order.address)
        try:
            target.parent.mkdir(exist_ok=True)
            sync_folder(layout.entries)
            os.rename(folder, target)
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                (folder / RECORD).unlink(missing_ok=True)
                raise
            # Another writer was first.
            discard(layout, folder)
        forgive(layout, order.address)
        sync_folder(target.parent)
        for name in (RECORD, *files):
            # Protects the files from changes by path, except by root.
            with suppress(OSError):
                os.chmod(target / name, stat.S_IMODE(os.stat(target / name).st_mode) & ~0o222)
        return read_entry(target)
