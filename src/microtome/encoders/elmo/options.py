"""Validated access to the JSON options and to the weights of an ELMo."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...lazy import torch
from .characters import WORD

_ABSENT: Any = object()
# What float32 can hold.
LARGEST = 3.4e38


@dataclass(frozen=True, slots=True, kw_only=True)
class ElmoOptions:
    """
    The content of a JSON file, addressed by dotted names such as `lstm.dim`.

    Parameters
    ----------
    source : str
        The name of the file in error messages.
    values : mapping
    """

    source: str
    values: Mapping[str, Any]

    def get(self, name: str, default: Any = _ABSENT) -> Any:
        """Look up a name; raise if it is missing and there is no default."""
        value: Any = self.values
        for part in name.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, Mapping) else _ABSENT
        if value is _ABSENT and default is _ABSENT:
            raise InputError(f"{self.source} must hold {name}, but it is missing.")
        return default if value is _ABSENT else value

    def check(self, name: str, allowed: str, fits: Callable[[Any], bool], default: Any = _ABSENT) -> Any:
        """Look up a value that must fit; `allowed` describes such values in errors."""
        value = self.get(name, default)
        if not fits(value):
            raise InputError(f"{name} in {self.source} must be {allowed}, but got {value!r}.")
        return value

    def whole(self, name: str, *, default: Any = _ABSENT, least: int = 1) -> int:
        """Look up a whole number."""
        allowed = f"a whole number of at least {least}"
        return self.check(name, allowed, lambda value: type(value) is int and value >= least, default)

    def limit(self, name: str) -> float | None:
        """Look up a positive number that may be absent or null."""

        def fits(value: Any) -> bool:
            return value is None or (type(value) in (int, float) and 0 < value <= LARGEST)

        value = self.check(name, "a number above 0 that float32 can hold, or null", fits, None)
        return None if value is None else float(value)

    def flag(self, name: str) -> bool:
        """Look up true or false, false by default."""
        return self.check(name, "true or false", lambda value: type(value) is bool, False)

    def choice(self, name: str, allowed: Sequence[Any], *, default: Any = _ABSENT) -> Any:
        """Look up one of the allowed names, numbers or truth values."""
        words = " or ".join("true" if value is True else str(value) for value in allowed)
        return self.check(
            name, words, lambda value: (type(value), value) in [(type(v), v) for v in allowed], default
        )

    def filters(self, name: str) -> list[tuple[int, int]]:
        """Look up widths and numbers of filters."""

        def is_pair(pair: Any) -> bool:
            numbers = isinstance(pair, list) and all(type(number) is int and number > 0 for number in pair)
            return numbers and len(pair) == 2 and pair[0] <= WORD

        def fits(value: Any) -> bool:
            return isinstance(value, list) and len(value) > 0 and all(map(is_pair, value))

        pairs = self.check(name, f"a list of pairs [width up to {WORD}, number]", fits)
        return [(width, number) for width, number in pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElmoWeights:
    """
    The tensors of a file, and the names of those that were taken.

    Parameters
    ----------
    source : str
        The name of the file in error messages.
    declared : str
        The end of an error message about a shape: "as the options say".
    find : callable
        `find(name, source)` returns a tensor of floating numbers as it is stored, or raises if there is none.
    read : callable
        `read(stored, name, source)` returns it as float32.
    """

    source: str
    declared: str
    find: Callable[[str, str], Any]
    read: Callable[[Any, str, str], torch.Tensor]
    taken: set[str] = field(default_factory=set)

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Return a tensor as float32; raise if its shape is another, or a number is not finite."""
        self.taken.add(name)
        stored = self.find(name, self.source)
        if tuple(stored.shape or ()) != shape:
            raise InputError(
                f"{name} in {self.source} must have the shape {list(shape)}, {self.declared}, but it has "
                f"{list(stored.shape or ())}."
            )
        numbers = self.read(stored, name, self.source)
        if not bool(numbers.isfinite().all()):
            raise InputError(f"{name} in {self.source} must hold finite numbers, but some are not.")
        return numbers

    def refuse_more(self, names: Iterable[str], prefixes: tuple[str, ...]) -> None:
        """Raise if the file holds layers that the configuration or the options do not declare."""
        unexpected = sorted(name for name in names if name.startswith(prefixes) and name not in self.taken)
        if unexpected:
            what = self.declared.removeprefix("as ")
            raise InputError(f"{self.source} must hold what {what}, but it also holds {unexpected[0]}.")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Convert an OSError into an error that names the file."""
    try:
        yield
    except OSError as problem:
        raise InputError(f"{path} must be a readable file, but got: {problem}.") from problem


def parse_options(content: bytes, source: str) -> ElmoOptions:
    """Parse the content of a JSON file; `source` is its name in error messages."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{source} must be JSON, but it cannot be read as such.") from problem
    if not isinstance(values, dict):
        raise InputError(f"{source} must hold a JSON object, but it holds a {type(values).__name__}.")
    return ElmoOptions(source=source, values=values)
