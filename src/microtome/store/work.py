"""How does a folder of files become an entry?"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError, must
from .address import address as make_address
from .address import canonical, is_address
from .entry import RECORD, Entry, check_kind, check_name, is_plain, make_provenance, read_entry, write_entry
from .files import disk, mark_file, sync_folder
from .layout import Layout
from .sweeping import discard


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """
    What is to become an entry; see `Entry`.

    Parameters
    ----------
    address, kind : str
    specification : mapping
    inputs : tuple of str
    command : str
    """

    address: str
    kind: str
    specification: Mapping[str, Any]
    inputs: tuple[str, ...]
    command: str


class Work:
    """
    A piece of work that may be interrupted and taken up again: owns a folder until it is finished.

    Parameters
    ----------
    address : str
    entry : Entry or None
        The finished entry: when it is there, nothing is left to do.
    """

    def __init__(self, address: str, entry: Entry | None, *, folder: Path, finish: Callable[..., Entry]):
        self.address, self.entry = address, entry
        self._folder, self._finish = folder, finish
        self._start = time.monotonic()

    @property
    def folder(self) -> Path:
        """Where to write; it still holds what was written before an interruption."""
        if self.entry is not None:
            raise InputError(
                f"the folder of a work must be asked for before it is finished, but {self.address} is "
                "already in the store."
            )
        return self._folder

    def finish(self, provenance: Mapping[str, Any] | None = None, *, seconds: float | None = None) -> Entry:
        """
        Make the folder an entry: every file gets its checksum, and all appear in the store at once.

        Parameters
        ----------
        provenance : mapping, optional
            What else is to be known about how it was made.
        seconds : float, optional
            How long the work took; since it was taken up when absent.

        Returns
        -------
        Entry
        """
        spent = time.monotonic() - self._start if seconds is None else seconds
        self.entry = self._finish(self.folder, provenance or {}, spent)
        return self.entry


def make_order(
    address: str | None, kind: str, specification: Mapping[str, Any], inputs: Sequence[str], command: str
) -> Order:
    """Check what is to become an entry, and find its address where none is given."""
    made = make_address(specification, inputs)
    if address is not None and not is_address(address):
        raise must("address", "40 hexadecimal digits", address)
    check_kind(kind)
    return Order(
        address=address or made,
        kind=kind,
        # A copy all the way down: what the caller changes later was not asked for.
        specification=json.loads(canonical(specification, "specification")),
        inputs=tuple(inputs),
        command=command,
    )


def settle(layout: Layout, order: Order, folder: Path, more: Mapping[str, Any], seconds: float) -> Entry:
    """
    Make a folder an entry: on the disk with checksums first, then renamed into place.

    Parameters
    ----------
    layout : Layout
    order : Order
    folder : Path
        Holds the files; in the same file system.
    more : mapping
        What else is to be known about how it was made.
    seconds : float
        How long that took.

    Returns
    -------
    Entry
        That of whoever was first.
    """
    canonical(more, "provenance")
    with disk(layout.root):
        files = {}
        for path in sorted(folder.iterdir()):
            check_name(path.name)
            if not is_plain(path):
                raise InputError(f"an entry must consist of plain files, but {path.name} is none.")
            files[path.name] = mark_file(path)
        provenance = make_provenance(more, seconds=seconds, command=order.command)
        write_entry(
            Entry(
                address=order.address,
                kind=order.kind,
                specification=order.specification,
                inputs=order.inputs,
                provenance=provenance,
                files=files,
                folder=folder,
            )
        )
        place = layout.place(order.address)
        try:
            place.parent.mkdir(exist_ok=True)
            sync_folder(layout.entries)
            os.rename(folder, place)
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                (folder / RECORD).unlink(missing_ok=True)
                raise
            # Another writer was first.
            discard(layout, folder)
        sync_folder(place.parent)
        return read_entry(place)
