"""Records of failed work: what went wrong at an address, how often, and where."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..errors import InputError, must
from .address import check_address, is_address
from .files import as_written, disk, write_whole
from .layout import StoreLayout, listing

ENDING = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """
    Failed attempts at a piece of work.

    Parameters
    ----------
    message : str
        One sentence about the last one.
    kind : str
        Its kind, such as the name of an error.
    attempts : int
    host : str
        Where the last one was made.
    time : str
        When, in UTC.
    """

    message: str
    kind: str
    attempts: int
    host: str
    time: str


def record_failure(layout: StoreLayout, address: str, message: str, kind: str) -> FailureRecord:
    """Enter one more failed attempt at an address, and return the record."""
    check_address(address)
    for name, text in (("message", message), ("kind", kind)):
        if not isinstance(text, str):
            raise must(f"the {name} of a failure", "text", text)
    layout.make()
    attempts = 0
    with suppress(InputError, FileNotFoundError):  # the first one, or a record that is broken
        attempts = _read_failure(_place(layout, address)).attempts
    record = FailureRecord(
        message=message,
        kind=kind,
        attempts=attempts + 1,
        host=socket.gethostname(),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    with disk(layout.root):
        layout.failures.mkdir(exist_ok=True)
        write_whole(_place(layout, address), [f"{json.dumps(asdict(record), indent=1)}\n".encode()])
    return record


def read_failures(layout: StoreLayout) -> dict[str, FailureRecord]:
    """Read all readable records of failures, by address."""
    records: dict[str, FailureRecord] = {}
    for address, path in failure_files(layout).items():
        with suppress(InputError, FileNotFoundError):
            records[address] = _read_failure(path)
    return records


def forgive(layout: StoreLayout, address: str) -> bool:
    """Remove the record of failures at an address, and return whether there was one."""
    try:
        os.unlink(_place(layout, address))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def find_broken_failures(layout: StoreLayout) -> Iterator[str]:
    """Report files among the records of failures that are none."""
    for name in listing(layout.failures):
        try:
            if not is_address(name.removesuffix(ENDING)) or not name.endswith(ENDING):
                yield f"{layout.failures / name} must be a record of failures, but its name is none."
            else:
                _read_failure(layout.failures / name)
        except InputError as problem:
            yield str(problem)
        except FileNotFoundError:
            continue


def failure_files(layout: StoreLayout) -> dict[str, Path]:
    """Return the files of the records of failures, by address."""
    names = [name.removesuffix(ENDING) for name in listing(layout.failures) if name.endswith(ENDING)]
    return {name: _place(layout, name) for name in names if is_address(name)}


def _place(layout: StoreLayout, address: str) -> Path:
    return layout.failures / f"{address}{ENDING}"


def _read_failure(path: Path) -> FailureRecord:
    content = path.read_bytes()
    with as_written(path):
        document = json.loads(content)
        record = FailureRecord(**{key: document[key] for key in FailureRecord.__dataclass_fields__})
        texts = (record.message, record.kind, record.host, record.time)
        if type(record.attempts) is not int or not all(isinstance(text, str) for text in texts):
            raise TypeError("values of another type")
        return record
