"""Strict parsing of TOML tables: every key must be known and valid."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..errors import InputError

_NEEDED: Any = object()


class StrictTable:
    """A table of a TOML file, whose keys are taken one by one until none is left."""

    def __init__(self, table: Mapping[str, Any], where: str, path: str = "") -> None:
        self._left = dict(table)
        self._where = where
        self._path = path

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def wrong(self, key: str, allowed: str, got: object) -> InputError:
        """Return the error about an invalid value."""
        return InputError(f"{self._path}{key} in {self._where} must be {allowed}, but got {got!r}.")

    def _take(self, key: str, allowed: str, fits: Any, default: Any) -> Any:
        if key not in self._left:
            if default is _NEEDED:
                raise InputError(
                    f"{self._where} must have the key {self._path}{key}, {allowed}, but it is missing."
                )
            return default
        value = self._left.pop(key)
        if not fits(value):
            raise self.wrong(key, allowed, value)
        return value

    def text(self, key: str, default: Any = _NEEDED) -> str:
        """Take a nonempty text."""
        return self._take(key, "a text", lambda v: isinstance(v, str) and bool(v.strip()), default).strip()

    def one_of(self, key: str, allowed: tuple[str, ...], default: Any = _NEEDED) -> str:
        """Take one of the allowed names."""
        return self._take(key, f"one of {', '.join(allowed)}", lambda v: v in allowed, default)

    def names(self, key: str, default: Any = _NEEDED) -> tuple[str, ...]:
        """Take a list of distinct names."""
        return tuple(self._take(key, "a list of different names", _is_names, default))

    def interval(self, key: str) -> tuple[float, float]:
        """Take two numbers, the lower first."""
        low, high = self._take(key, "two numbers, the lower first", _is_interval, _NEEDED)
        return float(low), float(high)

    def counts(self, key: str) -> Mapping[str, int]:
        """Take a table of counts; empty by default."""
        table = self._take(key, "a table of counts", lambda v: _is_table(v, _is_count), {})
        return MappingProxyType(dict(table))

    def texts(self, key: str, default: Any = _NEEDED) -> Mapping[str, str]:
        """Take a table of texts."""
        table = self._take(key, "a table of texts", lambda v: _is_table(v, _is_text), default)
        return MappingProxyType(dict(table))

    def several(self, key: str) -> Mapping[str, tuple[str, ...]]:
        """Take a table of names or lists of them."""
        table = self._take(
            key, "a table of names or lists of them", lambda v: _is_table(v, _is_one_or_more), _NEEDED
        )
        return MappingProxyType({k: (v,) if isinstance(v, str) else tuple(v) for k, v in table.items()})

    def inner(self, key: str) -> StrictTable:
        """Take a nested table."""
        table = self._take(key, "a table", lambda v: isinstance(v, dict), _NEEDED)
        return StrictTable(table, self._where, f"{self._path}{key}.")

    def done(self) -> None:
        """Raise if a key is left: a misspelled one would otherwise be ignored."""
        if self._left:
            key = next(iter(self._left))
            raise InputError(
                f"{self._where} must have no key that cards do not know, but it has {self._path}{key}."
            )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_one_or_more(value: Any) -> bool:
    return _is_text(value) or (_is_names(value) and bool(value))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_table(value: Any, inside: Any) -> bool:
    return isinstance(value, dict) and all(map(inside, value.values()))


def _is_interval(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value)
        and value[0] < value[1]
    )
