"""How is an entry of the store shown under a name that one can type? By links, or copies without them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .manifest import MANIFEST


def link_files(folder: Path, out: Path) -> Path:
    """
    Show the files of an entry in a folder, in place of what an earlier entry left there.

    Parameters
    ----------
    folder : Path
        Of the entry.
    out : Path
        Made where it is absent.

    Returns
    -------
    Path
        The folder that was asked for.
    """
    out.mkdir(parents=True, exist_ok=True)
    if out.samefile(folder):
        return out
    # Without its manifest, which comes last, a folder that is replaced in part cannot be read.
    for old in (out / MANIFEST, *out.glob("shard-*.safetensors")):
        old.unlink(missing_ok=True)
    for file in sorted(folder.iterdir(), key=lambda path: (path.name == MANIFEST, path.name)):
        if not file.is_file():
            continue
        place = out / file.name
        place.unlink(missing_ok=True)
        try:
            os.link(file, place)
        except OSError:
            shutil.copyfile(file, place)
    return out
