"""Verification of store entries against their records and checksums."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import InputError, WorkError
from .address import digest_file, is_address
from .entry import RECORD, StoreEntry, is_plain, read_entry
from .files import Mark, digest_once, disk
from .layout import StoreLayout, listing


def check_entry(folder: Path) -> list[str]:
    """Report the problems of one entry: a broken record, and missing, changed or foreign files."""
    try:
        entry = read_entry(folder)
    except WorkError as problem:
        # An entry that was removed meanwhile has no problem.
        return [str(problem)] if os.path.lexists(folder) else []
    sentences = (check_file(folder / name, mark) for name, mark in entry.files.items())
    problems = [sentence for sentence in sentences if sentence is not None]
    for name in listing(folder):
        if name != RECORD and name not in entry.files:
            problems.append(f"{folder / name} must be a file of its entry, but {RECORD} does not know it.")
    return problems


def find_damage(entry: StoreEntry) -> str | None:
    """
    Find damage in an entry before it is read; each file is hashed once per process.

    Parameters
    ----------
    entry : StoreEntry

    Returns
    -------
    str or None
        One sentence on the first file that is missing or changed.

    Raises
    ------
    WorkError
        If a file cannot be read, which is no evidence of damage.
    """
    for name, mark in entry.files.items():
        path = entry.folder / name
        with disk(path):
            if is_plain(path):
                path.open("rb").close()
        problem = check_file(path, mark, once=True)
        if problem is not None:
            return problem
    return None


def check_whole(folder: Path) -> None:
    """Raise if a folder is a damaged entry; folders that are no entries are not checked."""
    folder = folder.resolve()
    if not is_address(folder.name) or not (folder / RECORD).is_file():
        return
    problem = find_damage(read_entry(folder))
    if problem is not None:
        raise WorkError(
            f"{problem} Remove the entry with `microtome store rm {folder.name[:12]}`, and make it again."
        )


def check_file(path: Path, mark: Mark, *, content: bool = True, once: bool = False) -> str | None:
    """
    Report the problem of a file.

    Parameters
    ----------
    path : Path
    mark : Mark
        The expected size and checksum.
    content : bool
        Whether to compare the checksum too.
    once : bool
        Whether a checksum cached by this process may be used.

    Returns
    -------
    str or None
        One sentence; None if there is no problem.
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
        if not content:
            return None
        checksum = digest_once(path) if once else digest_file(path)
    except (OSError, InputError) as problem:
        return f"{path} must be readable, but got: {problem.args[-1]}"
    if checksum != mark.blake2b:
        return f"{path} must have the checksum {mark.blake2b}, but got {checksum}: its content has changed."
    return None


def find_strays(layout: StoreLayout) -> Iterator[str]:
    """Report files and folders among the entries that are none."""
    for group in listing(layout.entries):
        names = listing(layout.entries / group)
        if not (layout.entries / group).is_dir() or len(group) != 2:
            yield f"{layout.entries / group} must be a folder of entries, but its name is none."
            continue
        for name in names:
            if not is_address(name) or name[:2] != group:
                yield f"{layout.entries / group / name} must be an entry, but its name is no address there."
