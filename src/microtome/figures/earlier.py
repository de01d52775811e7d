"""Replacement of figure files that microtome wrote earlier."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..store.files import write_whole

# Creator tag of each file format.
CREATOR = "microtome"
_MARKS = {
    ".png": f"Creator\0{CREATOR}".encode(),
    ".svg": f"<dc:title>{CREATOR}</dc:title>".encode(),
    ".pdf": f"/Creator ({CREATOR})".encode(),
}


def remove_earlier(folder: Path, new: Iterable[Path]) -> tuple[Path, ...]:
    """
    Remove the figures in a folder that microtome wrote earlier, and no other file.

    Parameters
    ----------
    folder : Path
        It need not exist.
    new : iterable of Path
        New figures, which are not removed.

    Returns
    -------
    tuple of Path
        The removed files.
    """
    paths = set(folder.iterdir()) if folder.is_dir() else set()
    old = [path for path in sorted(paths - set(new)) if _is_ours(path)]
    for path in old:
        path.unlink()
    return tuple(old)


def is_foreign(path: Path) -> bool:
    """Whether a path holds a file that microtome did not write; warns that it is not replaced."""
    if not os.path.lexists(path) or _is_ours(path):
        return False
    warnings.warn(f"{path} was not drawn by microtome and stays; no picture replaces it.", stacklevel=2)
    return True


def write_picture(figure: Any, path: Path, metadata: Mapping[str, Any]) -> None:
    """
    Write a figure atomically.

    A partial file of an interrupted run would lack the creator tag and count as foreign.

    Parameters
    ----------
    figure : matplotlib Figure
    path : Path
        Its suffix is the format.
    metadata : mapping
        Metadata of the file.
    """
    content = io.BytesIO()
    options = {"dpi": 200, "bbox_inches": "tight", "pad_inches": 0.06, "metadata": dict(metadata)}
    figure.savefig(content, format=path.suffix[1:], **options)
    write_whole(path, [content.getvalue()])


def _is_ours(path: Path) -> bool:
    mark = _MARKS.get(path.suffix)
    return mark is not None and path.is_file() and not path.is_symlink() and mark in path.read_bytes()
