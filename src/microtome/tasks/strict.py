"""Strict reading of TOML tables into dataclasses: every key must be a field, and every value must fit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Any, TypeVar

from ..errors import InputError

T = TypeVar("T")


def read_table(kind: type[T], table: Mapping[str, Any], where: str, path: str = "") -> T:
    """
    Read a table into a dataclass.

    Parameters
    ----------
    kind : type
        A dataclass whose fields have annotations of `_FORMS`, or metadata: `choices` for one of several
        names, `table` for a nested dataclass.
    table : mapping
    where : str
        The name of the file in error messages.
    path : str
        The dotted path of the table, with a dot at its end.

    Returns
    -------
    object
        Of the kind.
    """
    declared: Any = kind
    names = [field.name for field in fields(declared)]
    for key in table:
        if key not in names:
            raise InputError(f"{where} must have no key that cards do not know, but it has {path}{key}.")
    values: dict[str, Any] = {}
    for field in fields(declared):
        key, choices, nested = field.name, field.metadata.get("choices"), field.metadata.get("table")
        words, fits, convert = _FORMS["table" if nested else "str" if choices else str(field.type)]
        if choices:
            words, fits = f"one of {', '.join(choices)}", choices.__contains__
        if key in table:
            if not fits(table[key]):
                raise wrong(where, f"{path}{key}", words, table[key])
            values[key] = (
                read_table(nested, table[key], where, f"{path}{key}.") if nested else convert(table[key])
            )
        elif field.default is MISSING and field.default_factory is MISSING:
            raise InputError(f"{where} must have the key {path}{key}, {words}, but it is missing.")
    return kind(**values)


def wrong(where: str, key: str, allowed: str, got: object) -> InputError:
    """Return the error about an invalid value."""
    return InputError(f"{key} in {where} must be {allowed}, but got {got!r}.")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_names(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return texts and len(set(value)) == len(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_interval(value: Any) -> bool:
    numbers = isinstance(value, list) and all(type(number) in (int, float) for number in value)
    return numbers and len(value) == 2 and value[0] < value[1]


def _table_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


# By the annotation of a field: what it must be, the test, and the conversion.
_FORMS: Mapping[str, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]] = {
    "str": ("a text", _is_text, str.strip),
    "tuple[str, ...]": ("a list of different names", _is_names, tuple),
    "tuple[float, float] | None": (
        "two numbers, the lower first",
        _is_interval,
        lambda value: (float(value[0]), float(value[1])),
    ),
    "Mapping[str, int]": ("a table of counts", _table_of(_is_count), MappingProxyType),
    "Mapping[str, str]": (
        "a table of texts",
        _table_of(lambda value: isinstance(value, str)),
        MappingProxyType,
    ),
    "Columns": (
        "a table of names or lists of them",
        _table_of(lambda value: isinstance(value, str) or (_is_names(value) and bool(value))),
        lambda table: MappingProxyType(
            {k: (v,) if isinstance(v, str) else tuple(v) for k, v in table.items()}
        ),
    ),
    "table": ("a table", lambda value: isinstance(value, dict), dict),
}
