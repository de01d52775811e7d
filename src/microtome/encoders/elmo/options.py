"""Validated access to the JSON options and to the weights of an ELMo."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...lazy import torch
from .characters import ACTIVATIONS, CHARACTERS, WORD

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

    def wrong(self, name: str, allowed: str, got: object) -> InputError:
        """Return the error for an invalid value."""
        return InputError(f"{name} in {self.source} must be {allowed}, but got {got!r}.")

    def whole(self, name: str, *, default: Any = _ABSENT, least: int = 1) -> int:
        """Look up a whole number."""
        value = self.get(name, default)
        if type(value) is not int or value < least:
            raise self.wrong(name, f"a whole number of at least {least}", value)
        return value

    def limit(self, name: str) -> float | None:
        """Look up a positive number that may be absent or null."""
        value = self.get(name, None)
        if value is not None and (type(value) not in (int, float) or not 0 < value <= LARGEST):
            raise self.wrong(name, "a number above 0 that float32 can hold, or null", value)
        return None if value is None else float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Look up true or false."""
        value = self.get(name, default)
        if type(value) is not bool:
            raise self.wrong(name, "true or false", value)
        return value

    def choice(self, name: str, allowed: tuple[str, ...], *, default: Any = _ABSENT) -> str:
        """Look up one of the allowed names."""
        value = self.get(name, default)
        if value not in allowed:
            raise self.wrong(name, " or ".join(allowed), value)
        return value

    def activation(self, name: str, *, default: Any = _ABSENT) -> str:
        """Look up the activation of the filters."""
        return self.choice(name, tuple(ACTIVATIONS), default=default)

    def filters(self, name: str) -> tuple[tuple[int, int], ...]:
        """Look up widths and numbers of filters."""
        value = self.get(name)
        pairs = value if isinstance(value, list) else []
        valid = [
            isinstance(pair, list)
            and len(pair) == 2
            and all(type(number) is int and number > 0 for number in pair)
            and pair[0] <= WORD
            for pair in pairs
        ]
        if not valid or not all(valid):
            raise self.wrong(name, f"a list of pairs [width up to {WORD}, number]", value)
        return tuple((width, number) for width, number in pairs)

    def characters(self, name: str, allowed: tuple[int, ...] = (CHARACTERS,)) -> None:
        """Raise if a model has another number of characters."""
        value = self.get(name)
        if value not in allowed or isinstance(value, bool):
            raise self.wrong(name, " or ".join(map(str, allowed)), value)


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
    """

    source: str
    declared: str
    taken: set[str] = field(default_factory=set)

    def find(self, name: str) -> Any:
        """Find a tensor of floating numbers as it is stored; raise if there is none."""
        raise NotImplementedError

    def read(self, name: str, stored: Any) -> torch.Tensor:
        """Read a tensor as float32."""
        raise NotImplementedError

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Return a tensor as float32; raise if its shape is another, or a number is not finite."""
        self.taken.add(name)
        stored = self.find(name)
        if tuple(stored.shape or ()) != shape:
            raise InputError(
                f"{name} in {self.source} must have the shape {list(shape)}, {self.declared}, but it has "
                f"{list(stored.shape or ())}."
            )
        numbers = self.read(name, stored)
        if not bool(numbers.isfinite().all()):
            raise InputError(f"{name} in {self.source} must hold finite numbers, but some are not.")
        return numbers

    def refuse_more(self, names: Iterable[str], prefixes: tuple[str, ...]) -> None:
        """Raise if the file holds layers that the configuration or the options do not declare."""
        unexpected = sorted(name for name in names if name.startswith(prefixes) and name not in self.taken)
        if unexpected:
            what = self.declared.removeprefix("as ")
            raise InputError(f"{self.source} must hold what {what}, but it also holds {unexpected[0]}.")


def content_of(path: Path) -> bytes:
    """Read the bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as problem:
        raise InputError(f"{path} must be a readable file, but got: {problem}.") from problem


def parse_options(content: bytes, source: str) -> ElmoOptions:
    """
    Parse the content of a JSON file.

    Parameters
    ----------
    content : bytes
    source : str
        The name of the file in error messages.

    Returns
    -------
    ElmoOptions
    """
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{source} must be JSON, but it cannot be read as such.") from problem
    if not isinstance(values, dict):
        raise InputError(f"{source} must hold a JSON object, but it holds a {type(values).__name__}.")
    return ElmoOptions(source=source, values=values)
