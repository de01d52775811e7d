"""Location of the original files of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ...corpora.packed import COMPRESSED
from ...errors import InputError
from ..card import Card

ENDINGS = ("", *COMPRESSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFile:
    """
    A file of a split.

    Parameters
    ----------
    path : Path
    named : str
        The file name in the card that matched.
    official : bool
        Whether it has an official name; otherwise it is a sample or another version.
    comparable : bool
        Whether the published size refers to this file.
    """

    path: Path
    named: str
    official: bool
    comparable: bool = True


def find_files(card: Card, data: str | Path) -> tuple[Path, Mapping[str, SplitFile]]:
    """
    Find the files of a task.

    Parameters
    ----------
    card : Card
    data : path
        The folder of the task, or one that contains it under its usual name.

    Returns
    -------
    folder : Path
    files : mapping of str to SplitFile
        The existing files, by split.
    """
    root = Path(data)
    if not root.is_dir():
        raise InputError(f"data must be a folder that exists for {card.name}, but got {str(data)!r}.")
    folders = [root, *(root / name for name in card.local.folders)]
    for folder in folders:
        if folder.is_dir():
            files = {
                split: match
                for split, names in card.local.files.items()
                if (match := _pick(folder, names)) is not None
            }
            if files:
                return folder, files
    names = ", ".join(name for several in card.local.files.values() for name in several)
    under = " or ".join(card.local.folders)
    raise InputError(
        f"data must be a folder with files of {card.name} ({names}; packed or not), or have it as {under}, "
        f"but {root} has none of them."
    )


def find_whole(card: Card, data: str | Path) -> Path | None:
    """Find the single file to divide into splits, if the card allows one."""
    root = Path(data)
    if root.is_file():
        return root if card.local.whole else None
    for folder in (root, *(root / name for name in card.local.folders)):
        if folder.is_dir():
            for name in card.local.whole:
                matching = _matching(_listed(folder), name)
                if len(matching) == 1:
                    return folder / matching[0]
    return None


def beside(file: SplitFile, ending: str) -> Path | None:
    """Find the file with the labels of another file."""
    stem = file.named.rpartition(".")[0]
    for packed in ENDINGS:
        path = file.path.parent / f"{stem}{ending}{packed}"
        if path.is_file():
            return path
    return None


def _pick(folder: Path, names: Sequence[str]) -> SplitFile | None:
    for official in (True, False):
        for name in names:
            # A name may include a subfolder.
            inside, last = (folder / name).parent, Path(name).name
            if not inside.is_dir():
                continue
            # A sample or another version: the name has an infix between the official stem and suffix.
            stem, dot, ending = last.rpartition(".")
            matching = _matching(_listed(inside), last if official else f"{stem}.*{dot}{ending}")
            if matching:
                path = inside / _only(inside, matching)
                return SplitFile(path=path, named=last, official=official, comparable="*" not in name)
    return None


def _listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _matching(filenames: Sequence[str], name: str) -> list[str]:
    return [file for file in filenames if any(fnmatchcase(file, name + packed) for packed in ENDINGS)]


def _only(folder: Path, names: Sequence[str]) -> str:
    # A compressed file beside its own decompressed copy is no ambiguity.
    plain = {name.removesuffix(packed) for name in names for packed in COMPRESSED if name.endswith(packed)}
    plain |= {name for name in names if not name.endswith(COMPRESSED)}
    if len(plain) > 1:
        raise InputError(f"{folder} must have one file for a split, but it has {' and '.join(names)}.")
    return min(names, key=len)
