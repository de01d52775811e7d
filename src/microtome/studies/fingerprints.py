"""Fingerprints of local files and folders that options of a study name."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..store.address import digest

# Of a split of a task that is a corpus; and the files that mark a store, and a report of a study.
SCHEME, STORE, INDEX = "task:", "format.json", "study.json"


def fingerprint(text: str) -> str:
    """
    Tell a file or folder apart from what it was before: names, sizes and times of change.

    What was computed is found by content in any case; results of changed files are put together again.

    Parameters
    ----------
    text : str
        A path, or a split of a task that is one, such as "task:FOLDER/validation".

    Returns
    -------
    str
        Empty where there is no such file or folder.
    """
    place = Path(text)
    with suppress(OSError):  # too long for a name
        if text.startswith(SCHEME):
            place = Path(text.removeprefix(SCHEME))
            place = place if place.exists() else place.parent
        # Examples of a card of one's own lie beside it.
        sources = [place, place.with_suffix("")] if place.suffix == ".toml" else [place]
        files = [file for source in sources if source.exists() for file in _files(source)]
        facts = [(str(f.relative_to(place.parent)), f.stat().st_size, f.stat().st_mtime_ns) for f in files]
        return digest(repr(facts).encode()) if files else ""
    return ""


def _files(place: Path) -> list[Path]:
    """A file, or all files of a folder but those of a store or of a report in it."""
    if place.is_file():
        return [place]
    files: list[Path] = []
    for folder, folders, names in os.walk(place):
        if Path(folder) != place and {STORE, INDEX} & set(names):
            folders.clear()
            continue
        folders.sort()
        files += [Path(folder, name) for name in sorted(names)]
    return files
