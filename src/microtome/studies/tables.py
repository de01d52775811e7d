"""Checks of the tables of study files and of claims: TOML, keys, and types of values."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ..arguments import check_value
from ..errors import InputError, must, shown, unknown


def read_toml(content: bytes, where: str) -> dict[str, Any]:
    """Read TOML; `where` is its name in error messages."""
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{where} must be a file in TOML, but {problem}.") from problem


def check_keys(table: Any, allowed: Any, where: str, path: str) -> None:
    """Refuse what is no table, and keys that are not allowed."""
    if not isinstance(table, Mapping):
        raise InputError(
            f"{path.rstrip('.') or 'the content'} in {where} must be a table, but got {shown(table)}."
        )
    for key in table:
        if key not in allowed:
            raise unknown(f"the key {path}{key} in {where}", key, allowed)


def check_types(table: Mapping[str, Any], kinds: Mapping[str, str], where: str, path: str = "") -> None:
    """Refuse values of other types than the annotations of their keys say."""
    for key, annotation in kinds.items():
        if key in table and annotation.startswith("Mapping"):
            check_keys(table[key], table[key], where, f"{path}{key}.")
        elif key in table:
            check_value(f"{path}{key} in {where}", annotation, table[key])


def types_of(kind: type[Any]) -> dict[str, str]:
    """The annotations of the fields of a dataclass."""
    return {f.name: str(f.type) for f in fields(kind)}


def names_in(table: Mapping[str, Any], key: str, where: str, path: str = "") -> tuple[str, ...]:
    """A list of names; empty when absent."""
    names = table.get(key, ())
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise must(f"{path}{key} in {where}", "a list of names", names)
    return tuple(names)
