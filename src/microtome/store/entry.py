"""Records of store entries: reading, writing, provenance, and verification against checksums."""

from __future__ import annotations

import json
import os
import platform
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import InputError, WorkError, must, unknown
from ..version import VERSION
from .address import canonical, digest, digest_file, is_address
from .files import Mark, digest_once, disk, write_whole
from .layout import StoreLayout, listing

FORMAT = "microtome/entry/1"
RECORD = "entry.json"
_KEYS = {"format", "address", "kind", "specification", "inputs", "provenance", "files", "blake2b"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEntry:
    """
    A finished piece of work in the store.

    Parameters
    ----------
    address : str
    kind : str
        The kind of content, such as "activations".
    specification : mapping
        The specification of the work.
    inputs : tuple of str
        The addresses of its inputs.
    provenance : mapping
        Versions, platform, time of creation (`created`, UTC), duration in seconds, command, and further
        facts from its writer.
    files : mapping of str to Mark
        Size and checksum by name.
    folder : Path
        The folder of the files.
    """

    address: str
    kind: str
    specification: Mapping[str, Any]
    inputs: tuple[str, ...] = ()
    provenance: Mapping[str, Any]
    files: Mapping[str, Mark]
    folder: Path = field(compare=False)

    @property
    def bytes(self) -> int:
        """Total size of all files."""
        return sum(mark.bytes for mark in self.files.values())

    @property
    def created(self) -> datetime:
        """Time at which the entry was finished."""
        return datetime.fromisoformat(self.provenance["created"])

    def path(self, name: str) -> Path:
        """
        Return the path of a file of the entry.

        Parameters
        ----------
        name : str
            One of `files`.

        Returns
        -------
        Path
        """
        if name not in self.files:
            raise unknown(f"a file of entry {self.address}", name, self.files)
        if not is_plain(self.folder / name):
            raise WorkError(f"{self.folder / name} must be a file, but it is not there any more.")
        return self.folder / name


def check_name(name: str) -> None:
    """Raise if the name of a file could lead out of its folder, or is not printable."""
    if not name or name in (".", "..") or not name.isprintable() or re.search(r"[/\\]", name):
        raise must("the name of a file", "printable, without / and \\ and not ..", name)
    if name == RECORD:
        raise InputError(f"the name of a file must be another than {RECORD}, but got {name!r}.")


def check_kind(kind: str) -> None:
    """Raise if a kind is not a short name."""
    if not isinstance(kind, str) or not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", kind):
        raise must("kind", "a short name in small letters, such as 'activations'", kind)


def is_plain(path: Path) -> bool:
    """Whether a path is a regular file and not a link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def make_provenance(facts: Mapping[str, Any], *, seconds: float, command: str) -> dict[str, Any]:
    """
    Collect the provenance of an entry: versions, time, duration and command.

    Parameters
    ----------
    facts : mapping
        Further facts; they do not override those collected here.
    seconds : float
    command : str
        The command that reproduces the entry.

    Returns
    -------
    dict
    """
    from importlib.metadata import version

    return {
        **facts,
        "microtome": VERSION,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "platform": platform.platform(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(float(seconds), 3),
        "command": command,
    }


def write_entry(entry: StoreEntry) -> None:
    """Write the record of an entry into its folder, with a checksum of its own."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "address": entry.address,
        "kind": entry.kind,
        "specification": entry.specification,
        "inputs": entry.inputs,
        "provenance": entry.provenance,
        "files": {name: {"bytes": m.bytes, "blake2b": m.blake2b} for name, m in entry.files.items()},
    }
    # Through the canonical form, so that the written and the hashed data are the same.
    text = canonical(document, "entry")
    document = {**json.loads(text), "blake2b": digest(text.encode("ascii"))}
    write_whole(entry.folder / RECORD, [json.dumps(document, indent=1).encode("ascii") + b"\n"])


def read_entry(folder: Path) -> StoreEntry:
    """
    Read the record of an entry.

    Parameters
    ----------
    folder : Path
        Its name is the address.

    Returns
    -------
    StoreEntry
    """
    path = folder / RECORD

    def broken(what: str) -> WorkError:
        return WorkError(f"{path} must be the whole record of an entry, but {what}.")

    try:
        document = json.loads(path.read_bytes())
    except OSError as problem:
        raise broken(f"it cannot be read: {problem.strerror}") from problem
    except (ValueError, RecursionError) as problem:
        raise broken("it is no JSON") from problem
    if not isinstance(document, dict) or set(document) != _KEYS or document["format"] != FORMAT:
        raise broken(f"it has not the form {FORMAT}")
    try:
        text = canonical({key: value for key, value in document.items() if key != "blake2b"}, "entry")
        if digest(text.encode("ascii")) != document["blake2b"]:
            raise broken("its checksum is wrong")
        entry = StoreEntry(
            address=document["address"],
            kind=document["kind"],
            specification=document["specification"],
            inputs=tuple(document["inputs"]),
            provenance=document["provenance"],
            files={
                name: Mark(bytes=int(mark["bytes"]), blake2b=str(mark["blake2b"]))
                for name, mark in document["files"].items()
            },
            folder=folder,
        )
        for name in entry.files:
            check_name(name)
        if entry.created.tzinfo is None:
            raise broken("its time has no zone")
    except (InputError, KeyError, TypeError, AttributeError, ValueError) as problem:
        raise broken(f"it does not fit: {problem}") from problem
    if not is_address(entry.address) or entry.address != folder.name:
        raise broken(f"it is that of {entry.address!r}")
    return entry


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
