"""Location of the store, the layout of its folders, and claims on names."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, must
from .address import is_address
from .claims import hold, is_part
from .files import disk, read_json, sync_folder, write_whole

FORMAT = "microtome/store/1"
VARIABLE = "MICROTOME_STORE"
_MARKER = "format.json"


def find_store(location: str | os.PathLike[str] | None = None) -> Path:
    """
    Return the folder of the store.

    Parameters
    ----------
    location : path, optional
        The folder; by default the value of the environment variable MICROTOME_STORE, or else
        `microtome` in the user's cache folder (XDG_CACHE_HOME, or ~/.cache).

    Returns
    -------
    Path
        It need not exist.
    """
    if location is not None and not isinstance(location, str | os.PathLike):
        raise must("store", "a folder", location)
    folder = os.fspath(location) if location is not None else os.environ.get(VARIABLE, "")
    if isinstance(folder, str) and "\0" in folder:
        raise must("store", "a folder without a zero byte in its name", folder)
    if location is not None and not folder:
        raise must("store", "a folder", folder)
    try:
        if folder:
            return Path(folder).expanduser()
        cache = os.environ.get("XDG_CACHE_HOME", "")
        # The XDG specification: a relative path is ignored.
        return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "microtome"
    except RuntimeError as problem:
        raise InputError(
            f"store must be a folder, but there is no home folder to put it in; {VARIABLE} can name another."
        ) from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLayout:
    """
    The folders of a store.

    Parameters
    ----------
    root : Path
    """

    root: Path

    @property
    def entries(self) -> Path:
        """Finished entries, each in a folder of its own."""
        return self.root / "entries"

    @property
    def partial(self) -> Path:
        """Work in progress, or interrupted."""
        return self.root / "partial"

    @property
    def trash(self) -> Path:
        """Folders that are being deleted."""
        return self.root / "trash"

    @property
    def damaged(self) -> Path:
        """Damaged entries, until the next garbage collection."""
        return self.root / "damaged"

    @property
    def locks(self) -> Path:
        """Claims on addresses: which process works on what."""
        return self.root / "locks"

    @property
    def failures(self) -> Path:
        """Records of failed work, one file per address."""
        return self.root / "failures"

    def place(self, address: str) -> Path:
        """Return the folder of an entry, whether it exists or not."""
        return self.entries / address[:2] / address

    def addresses(self) -> Iterator[str]:
        """Iterate over all entries that have a folder, in order of their addresses."""
        for shelf in listing(self.entries):
            for name in listing(self.entries / shelf):
                if is_address(name) and name[:2] == shelf:
                    yield name

    def works(self) -> Iterator[str]:
        """Iterate over the names of folders of unfinished work."""
        yield from (name for name in listing(self.partial) if (self.partial / name).is_dir())

    def present(self, addresses: Iterable[str]) -> set[str]:
        """Return those addresses that have an entry, from the names of folders alone."""
        asked = defaultdict[str, set[str]](set)
        for address in addresses:
            asked[address[:2]].add(address)
        return {
            address
            for group, members in asked.items()
            for address in members & set(listing(self.entries / group))
        }

    def states(self, address: str) -> list[Path]:
        """List the folders of unfinished work at an address that can be resumed, the latest first."""
        dated: list[tuple[float, Path]] = []
        with suppress(FileNotFoundError), os.scandir(self.partial) as files:
            for file in files:
                if file.name.startswith(address) and (file.name == address or is_part(file.name)):
                    with suppress(FileNotFoundError):
                        dated.append((os.stat(file.path).st_mtime, Path(file.path)))
        return [path for _, path in sorted(dated, reverse=True)]

    @contextmanager
    def locked(self, name: str, waiting: Callable[[], None] | None = None) -> Iterator[str]:
        """
        Hold the claim on a name; yields its token.

        Only errors of claiming are reported as those of the disk: others pass through.
        """
        with ExitStack() as stack:
            with disk(self.root):
                token = stack.enter_context(hold(self.locks / name, waiting=waiting))
            yield token or ""

    def check(self) -> None:
        """Raise if the folder is neither a store nor able to become one."""
        with disk(self.root):
            if not self.root.exists():
                return
            if not self.root.is_dir():
                raise must("store", "a folder", str(self.root))
        foreign = [name for name in listing(self.root) if not name.startswith(".")]
        marker = self.root / _MARKER
        # The marker is written first, so that a new store is never taken for a foreign folder.
        if not marker.exists():
            if foreign:
                raise InputError(
                    f"store must be a folder that is new, empty or already a store, but {self.root} holds "
                    f"{foreign[0]} and no {_MARKER}."
                )
            return
        content = read_json(marker)
        form = content.get("format") if isinstance(content, dict) else content
        if form != FORMAT:
            raise must(f"the format of the store {self.root}", f"{FORMAT!r} for this version", form)

    def make(self) -> None:
        """Create the folders that are missing."""
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
    """List the names in a folder, sorted; none if it does not exist."""
    with disk(folder):
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
