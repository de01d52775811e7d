"""Output folders: only files that microtome wrote, according to its records, are replaced."""

from __future__ import annotations

import fnmatch
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ..errors import InputError, check_plain, must
from .entry import RECORD, read_entry
from .files import TEMPORARY, disk, peek_json, write_whole
from .shards import MANIFEST

if TYPE_CHECKING:
    import pyarrow

RESULT, EXPORT, TABLE = "result.json", "microtome.json", "table.parquet"
# The files of most commands, recognized by their result.json; figures carry their own metadata.
FILES = (RESULT, TABLE, "methods.md", "references.bib")
# The Linux ioctl for a copy-on-write clone of a file.
_FICLONE = 0x40049409


def kind_of(record: Path) -> str | None:
    """
    Read which command wrote a record.

    Parameters
    ----------
    record : Path
        A JSON file, such as result.json.

    Returns
    -------
    str or None
        "change" for the format "microtome/change/1"; None for a foreign file.
    """
    form = peek_json(record).get("format")
    match = re.fullmatch(r"microtome/(.+)/\d+", form) if isinstance(form, str) else None
    return None if match is None else match[1]


def check_foreign(folder: Path, names: Iterable[str] = FILES) -> None:
    """
    Raise if a file in a folder that microtome did not write would be replaced.

    Parameters
    ----------
    folder : Path
        It need not exist.
    names : iterable of str
        The files to be written, as names or patterns; a pattern matches no hidden file.
    """
    if folder.is_file():
        raise InputError(
            f"a folder to write to must be one that can be made, but got {folder}: it is a file."
        )
    written = listed(folder) | (frozenset() if kind_of(folder / RESULT) is None else frozenset(FILES))
    for pattern in names:
        hits = [pattern] if os.path.lexists(folder / pattern) else []
        if not hits and folder.is_dir():
            names_in_folder = sorted(name for name in os.listdir(folder) if not name.startswith("."))
            hits = fnmatch.filter(names_in_folder, pattern)
        for name in hits:
            if name not in written and not _is_empty(folder / name):
                raise InputError(
                    "a folder to write to must hold no file of others that would be replaced, but "
                    f"{folder} holds {name}, which microtome did not write there; name another folder."
                )


def check_folder(path: str | os.PathLike[str]) -> Path:
    """Check that a folder can be created and written to, without creating it."""
    folder = Path(path)
    existing = next(
        candidate for candidate in (folder, *folder.absolute().parents) if os.path.lexists(candidate)
    )
    if not existing.is_dir():
        # The system's message for the common case, a file of that name, is unclear to most users.
        why = "it is a file" if existing == folder else f"{existing} is a file"
        raise InputError(f"a folder to write to must be one that can be made, but got {folder}: {why}.")
    if not os.access(existing, os.W_OK):
        raise must("a folder to write to", "writable", str(existing))
    return folder


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder to write to, or raise an error with the reason."""
    folder = check_folder(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"a folder to write to must be one that can be made, but got {folder}: {error.strerror or error}."
        ) from error
    return folder


def check_earlier(path: str | os.PathLike[str], kind: str, names: Iterable[str] = FILES) -> None:
    """
    Check that no result of another kind and no foreign file would be overwritten in a folder.

    Parameters
    ----------
    path : path
        Of `--out`; it need not exist.
    kind : str
        Kind of the new result, as in its format: "change" for "microtome/change/1".
    names : iterable of str
        The files that are to be written, as names or patterns.
    """
    check_plain(Path(path) / RESULT)
    earlier = kind_of(Path(path) / RESULT)
    if earlier not in (None, kind):
        raise InputError(
            f"--out must be a new folder or one of an earlier `{kind}`, but {path} holds the result of "
            f"`{earlier}`."
        )
    check_foreign(Path(path), names)


def write_files(folder: str | os.PathLike[str], contents: Mapping[str, bytes]) -> tuple[Path, ...]:
    """
    Write the files of a result into a folder; files of an earlier result are replaced atomically.

    Parameters
    ----------
    folder : path
        Created if it does not exist.
    contents : mapping of str to bytes
        By the names of the files.

    Returns
    -------
    tuple of Path
    """
    check_foreign(Path(folder), contents)
    target = make_folder(folder)
    for name, content in contents.items():
        write_whole(target / name, [content])
    return tuple(target / name for name in contents)


def parquet(table: pyarrow.Table, metadata: Mapping[str, str] | None = None) -> bytes:
    """Content of a Parquet file with a table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table if metadata is None else table.replace_schema_metadata(metadata), sink)
    return sink.getvalue().to_pybytes()


def fill(folder: Path, write: Callable[[Path], object], record: str) -> None:
    """
    Write files into a folder, all or none of them, replacing those of an earlier call.

    Parameters
    ----------
    folder : Path
        Created if it does not exist.
    write : callable
        Called with a folder, into which it writes the files.
    record : str
        The file that lists the others; see `listed`.
    """
    with disk(folder):
        new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f".*{TEMPORARY}"):  # of a process that was killed
            if re.fullmatch(rf"\.[0-9a-f]{{16}}{re.escape(TEMPORARY)}", leftover.name):
                shutil.rmtree(leftover, ignore_errors=True)
        staging = folder / f".{secrets.token_hex(8)}{TEMPORARY}"
        try:
            staging.mkdir()
            write(staging)
            names = _files(staging)
            check_foreign(folder, names)
            forget(folder)
            # The record first, so that the files of a killed process are recognized as such; a manifest last.
            for name in sorted(names, key=lambda name: (name != record, name == MANIFEST, name)):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(staging / name, folder / name)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            if new:
                with suppress(OSError):  # not empty, as expected
                    folder.rmdir()


def forget(folder: Path, extra: Iterable[str] = ()) -> None:
    """
    Remove the files from a folder that its records list, and no others.

    Parameters
    ----------
    folder : Path
    extra : iterable of str
        Further files of the same result.
    """
    for name in sorted({*listed(folder), *extra}, key=lambda name: (name in (EXPORT, RECORD), name)):
        path = folder / name
        inside = [folder.joinpath(*path.relative_to(folder).parts[:k]) for k in range(1, name.count("/") + 1)]
        if any(parent.is_symlink() for parent in inside) or path.is_dir():
            continue
        path.unlink(missing_ok=True)
        for parent in reversed(inside):
            with suppress(OSError):  # it holds other files
                parent.rmdir()


def listed(folder: Path) -> frozenset[str]:
    """Return the names of files in a folder that come from a store entry or an exported model."""
    names: set[str] = set()
    for record in (RECORD, EXPORT):
        if kind_of(folder / record) is not None:
            files = peek_json(folder / record).get("files")
            strings = (
                [name for name in files if isinstance(name, str)] if isinstance(files, dict | list) else []
            )
            names |= {record, *strings} if strings else set()
    # A record is untrusted, and must not lead out of the folder.
    return frozenset(name for name in names if not {"..", "/", ""} & {*PurePosixPath(name).parts, name})


def deliver(source: Path, out: Path) -> Path:
    """
    Copy the files of an entry into a folder of the user's choice.

    The copies are independent: changes to them leave the entry intact.

    Parameters
    ----------
    source : Path
        The folder of the entry.
    out : Path
        Created if it does not exist.

    Returns
    -------
    Path
        The output folder.
    """
    if out.is_dir() and out.samefile(source):
        return out
    names = (RECORD, *read_entry(source).files)
    fill(out, lambda staging: [_copy(source / name, staging / name) for name in names], RECORD)
    return out


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as old, target.open("xb") as new:
        try:
            import fcntl

            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except (ImportError, OSError):
            shutil.copyfileobj(old, new, 1 << 20)


def _files(folder: Path) -> list[str]:
    return [
        os.path.relpath(os.path.join(inside, name), folder).replace(os.sep, "/")
        for inside, _, names in os.walk(folder)
        for name in names
    ]


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
