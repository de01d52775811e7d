"""Values as they are typed: numbers, names, and names with values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import InputError, must, unknown

MOST_NUMBERS = 10_000


def read_numbers(option: str, given: str, *, empty: bool = False) -> list[int]:
    """
    Read whole numbers, with commas between them and a hyphen for all from one to another.

    Parameters
    ----------
    option, given : str
    empty : bool
        Whether there may be none.

    Examples
    --------
    >>> read_numbers("--permutations", "1-3,7")
    [1, 2, 3, 7]
    """

    found: list[int] = []
    for part in (part.strip() for part in given.split(",") if part.strip()):
        first, hyphen, last = part.partition("-")
        if not first.isdecimal() or (hyphen and not last.isdecimal()):
            raise must(option, "numbers with commas between them, or as 1-10", given)
        low, high = int(first), int(last if hyphen else first)
        if len(found) + high - low >= MOST_NUMBERS:
            raise must(option, f"at most {MOST_NUMBERS:,} numbers", given)
        found += range(low, high + 1)
    if len(set(found)) != len(found) or not (found or empty):
        raise must(option, "one number or more, each once", given)
    return found


def read_names(option: str, given: str, known: Sequence[str]) -> tuple[str, ...]:
    """Read names with commas between them, each one of those that are known."""

    found = tuple(part.strip() for part in given.split(",") if part.strip())
    for name in found:
        if name not in known:
            raise unknown(f"a name of {option}", name, known)
    if not found or len(set(found)) != len(found):
        raise must(option, "one name or more, each once", given)
    return found


def read_pairs(option: str, given: Sequence[str], form: str = "name=value") -> dict[str, str]:
    """
    Read `name=value`, each name once.

    Parameters
    ----------
    option : str
    given : sequence of str
    form : str
        For whoever wrote something else.

    Examples
    --------
    >>> read_pairs("--column", ["text=review", "label=stars"])
    {'text': 'review', 'label': 'stars'}
    """

    pairs: dict[str, str] = {}
    for part in given:
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise must(option, form, part)
        if name in pairs:
            raise InputError(f"{option} must give {name} once, but got {pairs[name]!r} and {value!r}.")
        pairs[name] = value
    return pairs


def read_values(given: list[str], option: str = "--set", such: str = "rate=2e-5") -> dict[str, Any]:
    """Read `name=value`: numbers, true and false, none, or a word."""
    plain = {"true": True, "false": False, "none": None}
    found: dict[str, Any] = {}
    for name, value in read_pairs(option, given, f"name=value, such as {such}").items():
        if value.lower() in plain:
            found[name] = plain[value.lower()]
            continue
        parts = [_read_number(part) for part in value.split(",")]
        found[name] = parts[0] if len(parts) == 1 else tuple(parts)
    return found


def _read_number(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
