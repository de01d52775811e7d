"""
Folders of unfinished work, one for each holder of the claim on it.

Files of a piece of work are in `partial/ADDRESS.TOKEN`, with the token of the claim; once they are left, in
`partial/ADDRESS`. Who holds the claim next goes on from there. It renames the folder if nobody can write
into it any more: it was left, or its process has ended. Otherwise it copies the files and removes the
original, since a process that only seemed dead may still have files open. Such a process finds its folder
gone, and never writes into that of another; should it finish within that moment, its files are its own, and
the first writer stands.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from ..errors import WorkError
from .claims import STALE, is_claimed
from .entry import RECORD
from .files import drop_temporary
from .layout import StoreLayout
from .sweeping import discard
from .tokens import is_dead


def enter(layout: StoreLayout, address: str, token: str) -> Path:
    """
    Make the folder of the holder of a claim, with the files of the work so far.

    Parameters
    ----------
    layout : StoreLayout
    address : str
    token : str
        Of the claim on the address.

    Returns
    -------
    Path
    """
    folder = place(layout, address, token)
    while not folder.is_dir():
        check_held(layout, address, token)
        latest = next(iter(layout.states(address)), None)
        try:
            if latest is None:
                folder.mkdir()
            elif latest.name == address or is_dead(latest.name.partition(".")[2]):
                os.rename(latest, folder)
            else:
                # Of a name that cannot be resumed, and claimed: garbage collection knows both.
                copy = layout.partial / f"{address}.{secrets.token_hex(4)}"
                with layout.locked(copy.name):
                    try:
                        shutil.copytree(latest, copy, ignore=shutil.ignore_patterns(".*"))
                        os.rename(copy, folder)
                    finally:
                        discard(layout, copy)
        except (FileNotFoundError, shutil.Error):
            # Its process went on just now: it has left or finished it.
            if latest is not None and latest.is_dir():
                raise
    for state in layout.states(address):
        if state != folder:
            check_held(layout, address, token)
            discard(layout, state)
    drop_temporary(folder)
    (folder / RECORD).unlink(missing_ok=True)
    return folder


def leave(layout: StoreLayout, address: str, token: str) -> None:
    """Leave the folder of a holder to the next one; there is none if the work is finished."""
    with suppress(OSError):
        os.rename(place(layout, address, token), layout.partial / address)


def place(layout: StoreLayout, address: str, token: str) -> Path:
    """Return the folder of the holder of a claim."""
    return layout.partial / f"{address}.{token}"


def check_held(layout: StoreLayout, address: str, token: str) -> None:
    """Raise if another process has taken over a piece of work."""
    if not is_claimed(layout.locks / address, token):
        raise taken_over(address)


def taken_over(address: str) -> WorkError:
    """Make the error of a process that was silent for too long."""
    return WorkError(
        f"a process must give a sign of life every {STALE:.0f} seconds, but this one was stopped or cut off "
        f"from the store, and another took over {address}; the same command goes on from what the store has."
    )
