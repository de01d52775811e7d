"""Checks of arguments that many functions share: whole numbers, names of a list, levels."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from numbers import Real
from typing import Any

from .errors import InputError, must


def whole_number(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """
    Return a whole number, also one of numpy, as an int.

    Parameters
    ----------
    name : str
        The name of the argument in the error.
    value : object
    least, most : int, optional
        The allowed range; `most` requires `least`.

    Examples
    --------
    >>> whole_number("longest", 0, 1)
    Traceback (most recent call last):
    microtome.errors.InputError: longest must be a whole number above 0, but got 0.
    """
    try:
        # True and False are whole numbers to Python, and a mistake here.
        number = None if _is_truth(value) else operator.index(value)
    except TypeError:
        number = None
    if number is not None and (least is None or number >= least) and (most is None or number <= most):
        return number
    limits = "" if least is None else " above 0" if least == 1 else f" of at least {least}"
    raise must(name, f"a whole number{limits if most is None else f' between {least} and {most:,}'}", value)


def real_number(name: str, value: Any, least: float | None = None) -> float:
    """
    Return a number that is finite.

    Parameters
    ----------
    name : str
        The name of the argument in the error.
    value : object
    least : float, optional

    Examples
    --------
    >>> real_number("--older-than", "week", 0)
    Traceback (most recent call last):
    microtome.errors.InputError: --older-than must be a number of at least 0, but got 'week'.
    """
    number: Any = value if isinstance(value, Real) and not _is_truth(value) else None
    if number is not None and is_finite(number) and (least is None or number >= least):
        return float(number)
    raise must(name, f"a number{'' if least is None else f' of at least {least:g}'}", value)


def is_finite(value: Any) -> bool:
    """
    Whether a real number is finite as a float; whole numbers may be too large to be one.

    Examples
    --------
    >>> [is_finite(value) for value in (1.5, float("inf"), float("nan"), 10**400)]
    [True, False, False, False]
    """
    return abs(value) <= sys.float_info.max


def is_countable(value: int) -> bool:
    """Whether a whole number fits into 64 bits, as libraries for arrays need it."""
    return -(2**63) <= value < 2**63


def _is_truth(value: Any) -> bool:
    """Whether a value is True or False, also of numpy, which is not imported for a check."""
    return type(value).__name__ in ("bool", "bool_")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise if a value is none of the allowed names."""
    names = tuple(choices)
    if value not in names:
        raise must(name, f"one of {', '.join(names)}", value)


def check_distinct(what: str, values: Iterable[Any], hint: str = "") -> None:
    """Raise if a value comes twice; the hint says what to do then."""
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise InputError(f"{what} must differ, but {value!r} stands twice{hint}.")
        seen.add(value)


def check_level(level: Any) -> float:
    """Return the level of intervals as a float, before anything is trained."""
    number: Any = level if isinstance(level, Real) and not _is_truth(level) else None
    if number is None or not 0 < number < 1:
        raise must("level", "between 0 and 1", level)
    return float(level)


def several(values: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple."""
    if getattr(values, "ndim", 0):  # an array
        values = values.tolist()
    return tuple(values) if isinstance(values, list | tuple | range | set | frozenset) else (values,)
