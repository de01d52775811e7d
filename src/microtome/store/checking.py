"""Is everything in the store as it was written?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..errors import InputError, WorkError
from .address import digest_file, is_address
from .entry import RECORD, is_plain, read_entry
from .files import Mark
from .layout import Layout, listing


def check_store(
    layout: Layout,
    addresses: Sequence[str],
    *,
    strays: bool,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[str]:
    """
    Compare entries with their records.

    Parameters
    ----------
    layout : Layout
    addresses : sequence of str
        The entries to look at.
    strays : bool
        Whether to name also what lies between the entries and is none.
    progress : callable, optional
        Called with what is done, how many are, and of how many.

    Returns
    -------
    list of str
        A sentence for each problem.
    """
    problems = list(_strays(layout)) if strays else []
    for position, address in enumerate(addresses):
        problems += check_entry(layout.place(address))
        if progress is not None:
            progress("entries", position + 1, len(addresses))
    return problems


def check_entry(folder: Path) -> list[str]:
    """Say what is wrong with one entry: its record, a file that is lost or changed, one that is foreign."""
    try:
        entry = read_entry(folder)
    except WorkError as problem:
        # One that was removed meanwhile has no problem any more.
        return [str(problem)] if os.path.lexists(folder) else []
    found = (check_file(folder / name, mark) for name, mark in entry.files.items())
    problems = [sentence for sentence in found if sentence is not None]
    for name in listing(folder):
        if name != RECORD and name not in entry.files:
            problems.append(f"{folder / name} must be a file of its entry, but {RECORD} does not know it.")
    return problems


def check_file(path: Path, mark: Mark, *, content: bool = True) -> str | None:
    """
    Say what is wrong with a file.

    Parameters
    ----------
    path : Path
    mark : Mark
        What it should be.
    content : bool
        Whether to read it and compare the checksum, too.

    Returns
    -------
    str or None
        One sentence, if something is wrong.
    """
    if not os.path.lexists(path):
        return f"{path} must be a file of {mark.bytes} bytes, but it is missing."
    if not is_plain(path):
        return f"{path} must be a file of {mark.bytes} bytes, but it is no plain file."
    try:
        size = path.stat().st_size
        if size != mark.bytes:
            state = "cut short" if size < mark.bytes else "followed by something else"
            return f"{path} must be {mark.bytes} bytes long, but it has {size}: it is {state}."
        found = digest_file(path) if content else mark.blake2b
    except (OSError, InputError) as problem:
        return f"{path} must be readable, but got: {problem.args[-1]}"
    if found != mark.blake2b:
        return f"{path} must have the checksum {mark.blake2b}, but got {found}: its content has changed."
    return None


def _strays(layout: Layout) -> Iterator[str]:
    for group in listing(layout.entries):
        names = listing(layout.entries / group)
        if not (layout.entries / group).is_dir() or len(group) != 2:
            yield f"{layout.entries / group} must be a folder of entries, but its name is none."
            continue
        for name in names:
            if not is_address(name) or name[:2] != group:
                yield f"{layout.entries / group / name} must be an entry, but its name is no address there."
