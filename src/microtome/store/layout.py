"""Where is the store, and where in it is what?"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, must
from .address import is_address
from .files import disk, sync_folder, write_whole

FORMAT = "microtome/store/1"
VARIABLE = "MICROTOME_STORE"
_MARKER = "format.json"


def find_store(given: str | os.PathLike[str] | None = None) -> Path:
    """
    Say where the store is.

    Parameters
    ----------
    given : path, optional
        Where the user says it is; else the environment variable MICROTOME_STORE says it, and else it is
        `microtome` in the user's cache folder (XDG_CACHE_HOME, or ~/.cache).

    Returns
    -------
    Path
        It need not be there yet.
    """
    chosen = os.fspath(given) if given is not None else os.environ.get(VARIABLE, "")
    if given is not None and not chosen:
        raise must("store", "a folder", chosen)
    try:
        if chosen:
            return Path(chosen).expanduser()
        cache = os.environ.get("XDG_CACHE_HOME", "")
        # The rule of that variable: what is not absolute is as good as absent.
        return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "microtome"
    except RuntimeError as problem:
        raise InputError(
            f"store must be a folder, but there is no home folder to put it in; {VARIABLE} can name another."
        ) from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """
    The folders of a store.

    Parameters
    ----------
    root : Path
    """

    root: Path

    @property
    def entries(self) -> Path:
        """What is finished, each entry in a folder of its own."""
        return self.root / "entries"

    @property
    def partial(self) -> Path:
        """Work that is going on, or that was interrupted."""
        return self.root / "partial"

    @property
    def trash(self) -> Path:
        """What is being deleted."""
        return self.root / "trash"

    @property
    def locks(self) -> Path:
        """Who works on what, a file each."""
        return self.root / "locks"

    def place(self, address: str) -> Path:
        """The folder of an entry, whether it is there or not."""
        return self.entries / address[:2] / address

    def addresses(self) -> Iterator[str]:
        """All entries that have a folder, in the order of their addresses."""
        for shelf in listing(self.entries):
            for name in listing(self.entries / shelf):
                if is_address(name) and name[:2] == shelf:
                    yield name

    def works(self) -> Iterator[str]:
        """All folders of work that is not finished."""
        yield from (name for name in listing(self.partial) if (self.partial / name).is_dir())

    def check(self) -> None:
        """Refuse a folder that is no store and could not become one."""
        with disk(self.root):
            if not self.root.exists():
                return
            if not self.root.is_dir():
                raise must("store", "a folder", str(self.root))
        foreign = [name for name in listing(self.root) if not name.startswith(".")]
        marker = self.root / _MARKER
        # The marker comes before everything else, so that a store in the making is never taken for foreign.
        if not marker.exists():
            if foreign:
                raise InputError(
                    f"store must be a folder that is new, empty or already a store, but {self.root} holds "
                    f"{foreign[0]} and no {_MARKER}."
                )
            return
        try:
            content = json.loads(marker.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as problem:
            raise InputError(f"{marker} must be readable JSON, but got: {problem}.") from problem
        found = content.get("format") if isinstance(content, dict) else content
        if found != FORMAT:
            raise must(f"the format of the store {self.root}", f"{FORMAT!r} for this version", found)

    def make(self) -> None:
        """Make the folders that are missing."""
        self.check()
        with disk(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            if not (self.root / _MARKER).exists():
                write_whole(self.root / _MARKER, [json.dumps({"format": FORMAT}).encode() + b"\n"])
            folders = (self.entries, self.partial, self.trash, self.locks)
            missing = [folder for folder in folders if not folder.is_dir()]
            for folder in missing:
                folder.mkdir(exist_ok=True)
            if missing:
                sync_folder(self.root)


def listing(folder: Path) -> list[str]:
    """Names of what is in a folder, sorted; of one that is not there, none."""
    with disk(folder):
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
