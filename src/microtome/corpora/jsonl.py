"""Reader of JSON Lines files, one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from .examples import Example, Reader
from .lines import Lines, by_file
from .records import COLUMNS, to_examples


def read_jsonl(lines: Lines, options: Mapping[str, Any]) -> Iterator[Example]:
    """Read the objects of one file."""
    return to_examples(read_objects(lines), options["columns"], lines.refuse)


def read_objects(lines: Lines) -> Iterator[dict[str, Any]]:
    """Read the objects of the lines that are not blank."""
    for line in lines:
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=_once)
        except (ValueError, RecursionError) as problem:
            position = f" at character {problem.colno}" if isinstance(problem, json.JSONDecodeError) else ""
            reason = problem.msg if isinstance(problem, json.JSONDecodeError) else problem
            raise lines.refuse("be a JSON object", f"got: {reason}{position}") from problem
        if "\\ud" in line.lower() and not _is_text(value):
            raise lines.refuse("hold text", "it has an escaped half of a surrogate pair")
        if not isinstance(value, dict):
            raise lines.refuse("be a JSON object", f"it is of type {type(value).__name__}")
        yield value


def _is_text(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return record


JSONL = Reader(
    name="jsonl",
    suffixes=(".jsonl", ".ndjson"),
    summary="JSON lines, one example per object; the id is the example's number unless a column gives it.",
    read=partial(by_file, read_jsonl),
    options={"columns": COLUMNS},
)
