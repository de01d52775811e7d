"""Reading of files that microtome wrote and that may have been changed since."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError, MicrotomeError

# What comes of content that is not what was written, here and inside of libraries. Recursion that is too deep
# and what a library has not implemented are RuntimeErrors.
_WRONG = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError)


@contextmanager
def as_written(path: Path, by: str = "microtome") -> Iterator[None]:
    """Convert errors from malformed content into one sentence that names the file."""
    try:
        yield
    except MicrotomeError:
        raise
    except (*_WRONG, MemoryError) as problem:
        # The message of a KeyError is the bare key.
        what = f"{problem} is missing" if isinstance(problem, KeyError) else f"got: {problem}"
        raise InputError(f"{path} must be as {by} wrote it, but {what.rstrip('. ')}.") from problem


def read_json(path: Path) -> Any:
    """Read a JSON file; raise an error that names it if it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise InputError(f"{path} must be a readable JSON file, but got: {problem}.") from problem


def peek_json(path: Path, *, line: bool = False) -> dict[str, Any]:
    """Read a JSON object from a file, or its first line, that may be missing or foreign; empty if none."""
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as file:
            document = json.loads(file.readline() if line else file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def read_record(path: Path) -> dict[str, Any]:
    """
    Read a JSON object from a file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    dict
        Empty if there is no file.
    """
    if not path.is_file():
        return {}
    with as_written(path):
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict):
            raise TypeError(f"{type(document).__name__} instead of an object")
    return document


def read_columns(path: Path) -> dict[str, list[Any]]:
    """
    Read a Parquet file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    dict of str to list
        Values by column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with as_written(path):
        try:
            return pq.read_table(path).to_pydict()
        except pa.ArrowException as problem:
            raise ValueError(str(problem)) from problem
