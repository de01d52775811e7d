"""Conversion of records with named columns to examples, and detection of repeated ids."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from ..errors import InputError, listed, must, unknown
from .examples import Example, ReaderOption


class SeenIds:
    """
    The set of ids seen so far, stored as 64-bit digests in some 16 to 32 bytes each.

    Among ten million ids the chance that any two share a digest is about one in four hundred thousand.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * 1024))
        self._count = 0

    def add(self, name: str) -> bool:
        """Add an id; return True if it was already present."""
        # 0 marks a free slot.
        key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1
        if not self._place(self._slots, key):
            return True
        self._count += 1
        if 2 * self._count > len(self._slots):
            wider = array("Q", bytes(16 * len(self._slots)))
            for stored_key in self._slots:
                if stored_key:
                    self._place(wider, stored_key)
            self._slots = wider
        return False

    @staticmethod
    def _place(slots: array[int], key: int) -> bool:
        last = len(slots) - 1  # the length is a power of 2
        slot = key & last
        while slots[slot]:
            if slots[slot] == key:
                return False
            slot = (slot + 1) & last
        slots[slot] = key
        return True


ROLES: Mapping[str, str] = MappingProxyType(
    {
        "text": "the text",
        "pair": "the second text",
        "words": "the words: a list, or words with blanks between them",
        "id": "the id, which may not repeat",
        "group": "what clusters examples, such as their document",
    }
)

Refuse = Callable[[str, str], InputError]


def check_columns(value: Any) -> dict[str, str] | None:
    """Validate the option `columns`, a mapping of roles to column names."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value:
        raise must("option columns", f"a mapping of {listed(ROLES)} to names of columns", value)
    for role, column in value.items():
        if role not in ROLES:
            raise unknown("a key of columns", role, ROLES)
        if not isinstance(column, (str, int)) or isinstance(column, bool):
            raise must(f"columns[{role!r}]", "the name of a column", column)
    return {role: str(column) for role, column in value.items()}


COLUMNS = ReaderOption(
    default=None,
    check=check_columns,
    meaning=f"which columns are {listed(ROLES)}, as in {{'text': 'sentence1', 'pair': 'sentence2'}}; without "
    "it, those of these names; all others become marks",
)


def to_examples(
    records: Iterator[Mapping[str, Any]], columns: Mapping[str, str] | None, refuse: Refuse
) -> Iterator[Example]:
    """
    Convert records to examples.

    Parameters
    ----------
    records : iterator of mappings
        Values are JSON-serializable.
    columns : mapping of role to column, or None
        The user's choice.
    refuse : callable
        `refuse(must, but)` returns the error about the current record.

    Yields
    ------
    Example
        With the number of the record as its id, unless a column provides one.
    """
    seen = SeenIds()
    for number, record in enumerate(records, start=1):
        roles = _roles(columns, record, refuse)
        values = {role: record[column] for role, column in roles.items()}
        identifier = _name(values["id"], roles["id"], refuse) if "id" in roles else str(number)
        if "id" in roles and seen.add(identifier):
            raise refuse("have an id of its own", f"{identifier!r} was there before")
        # The second text and the group may be missing from some records.
        text, pair = (_text(values.get(role), roles.get(role, ""), refuse) for role in ("text", "pair"))
        words = _words(values["words"], roles["words"], refuse) if "words" in roles else None
        if text is None and words is None:
            raise refuse(f"have a text in the column {roles['text']!r}", "it is null")
        group = values.get("group")
        used = set(roles.values())
        yield Example(
            id=identifier,
            text=text,
            pair=pair,
            words=words,
            marks={k: _mark(v) for k, v in record.items() if k not in used and v is not None},
            group="" if group is None else _name(group, roles["group"], refuse),
        )


def _roles(
    columns: Mapping[str, str] | None, available: Collection[str], refuse: Refuse
) -> Mapping[str, str]:
    if columns is None:
        columns = {role: role for role in ROLES if role in available}
    for role, column in columns.items():
        if column not in available:
            raise refuse(f"have the column {column!r} for {role}", f"its columns are {', '.join(available)}")
    if "text" not in columns and "words" not in columns:
        raise refuse(
            "have a column for text or for words", f"option columns names none of {', '.join(available)}"
        )
    return columns


def _name(value: Any, column: str, refuse: Refuse) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value:
        return value
    raise refuse(f"have a name or a whole number in the column {column!r}", f"got {value!r}")


def _text(value: Any, column: str, refuse: Refuse) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise refuse(f"have a text in the column {column!r}", f"got {value!r}")


def _words(value: Any, column: str, refuse: Refuse) -> tuple[str, ...]:
    words = value.split() if isinstance(value, str) else value
    if isinstance(words, list) and all(isinstance(word, str) and word for word in words):
        return tuple(words)
    raise refuse(f"have a list of words in the column {column!r}", f"got {value!r}")


def _mark(value: Any) -> tuple[str, ...] | str:
    if isinstance(value, list):
        return tuple(item if isinstance(item, str) else _json(item) for item in value)
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
