"""Which pictures in a folder are ours? Those of an earlier result must not stay beside a new one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

# Every picture names its maker, in the way of its format.
CREATOR = "microtome"
_MARKS = {
    ".png": f"Creator\0{CREATOR}".encode(),
    ".svg": f"<dc:title>{CREATOR}</dc:title>".encode(),
    ".pdf": f"/Creator ({CREATOR})".encode(),
}


def remove_earlier(folder: Path, kept: Iterable[Path]) -> tuple[Path, ...]:
    """
    Remove the pictures in a folder that microtome drew before, and no other file.

    Parameters
    ----------
    folder : Path
        Need not be there.
    kept : iterable of Path
        Pictures that were drawn just now.

    Returns
    -------
    tuple of Path
        Those that were removed.
    """
    found = set(folder.iterdir()) if folder.is_dir() else set()
    old = [path for path in sorted(found - set(kept)) if _is_ours(path)]
    for path in old:
        path.unlink()
    return tuple(old)


def _is_ours(path: Path) -> bool:
    mark = _MARKS.get(path.suffix)
    return mark is not None and path.is_file() and not path.is_symlink() and mark in path.read_bytes()
