"""Values as they are typed: numbers, names, names with values, and paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import InputError, must, unknown

MOST_NUMBERS = 10_000


def read_numbers(option: str, text: str, *, empty: bool = False) -> list[int]:
    """
    Read whole numbers, with commas between them and a hyphen for all from one to another.

    Parameters
    ----------
    option, text : str
    empty : bool
        Whether there may be none.

    Examples
    --------
    >>> read_numbers("--permutations", "1-3,7")
    [1, 2, 3, 7]
    """
    numbers: list[int] = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        first, hyphen, last = part.partition("-")
        if not first.isdecimal() or (hyphen and not last.isdecimal()):
            raise must(option, "numbers with commas between them, or as 1-10", text)
        low, high = int(first), int(last if hyphen else first)
        if high < low:
            raise must(option, f"from low to high, as {high}-{low}", part)
        if len(numbers) + high - low >= MOST_NUMBERS:
            raise must(option, f"at most {MOST_NUMBERS:,} numbers", text)
        numbers += range(low, high + 1)
    if len(set(numbers)) != len(numbers) or not (numbers or empty):
        raise must(option, "one number or more, each once", text)
    return numbers


def read_names(option: str, text: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """Read names with commas between them, each one of those that are allowed; any where none are listed."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if allowed and name not in allowed:
            raise unknown(f"a name of {option}", name, allowed)
    if not names or len(set(names)) != len(names):
        raise must(option, "one name or more, each once", text)
    return names


def read_pairs(option: str, parts: Sequence[str], example: str) -> dict[str, str]:
    """
    Read `name=value`, each name once.

    Parameters
    ----------
    option : str
    parts : sequence of str
    example : str
        For whoever wrote something else.

    Examples
    --------
    >>> read_pairs("--column", ["text=review", "label=stars"], "text=review")
    {'text': 'review', 'label': 'stars'}
    """
    pairs: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise must(option, f"name=value, such as {example}", part)
        if name in pairs:
            raise InputError(f"{option} must give {name} once, but got {pairs[name]!r} and {value!r}.")
        pairs[name] = value
    return pairs


def read_values(parts: list[str], option: str = "--set", example: str = "rate=2e-5") -> dict[str, Any]:
    """Read `name=value`: numbers, true and false, none, or a word."""
    plain = {"true": True, "false": False, "none": None}
    values: dict[str, Any] = {}
    for name, text in read_pairs(option, parts, example).items():
        if text.lower() in plain:
            values[name] = plain[text.lower()]
            continue
        numbers = [read_number(part) for part in text.split(",")]
        values[name] = numbers[0] if len(numbers) == 1 else tuple(numbers)
    return values


def read_number(value: str) -> int | float | str:
    """Read a number; what is none stays text."""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def names_apart(paths: Sequence[Sequence[str]]) -> list[str]:
    """
    Name paths by their ends, with only those folders before them that tell equal ends apart.

    Parameters
    ----------
    paths : sequence of sequence of str
        The parts of each path.

    Examples
    --------
    >>> names_apart([["a", "layers", "seed-1"], ["b", "layers", "seed-1"], ["a", "seed-2"]])
    ['a-seed-1', 'b-seed-1', 'seed-2']
    """
    names = [path[-1] for path in paths]
    different = len(set(map(tuple, paths)))
    for place in range(2, max(map(len, paths), default=0) + 1):
        if len(set(names)) == different:
            break
        longer = [
            f"{path[-place]}-{name}" if names.count(name) > 1 and len(path) >= place else name
            for path, name in zip(paths, names, strict=True)
        ]
        names = longer if len(set(longer)) > len(set(names)) else names
    return names
