"""Checks of arguments that many functions share: whole numbers, seeds, levels."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .errors import must


def whole_number(name: str, given: Any, least: int | None = None) -> int:
    """Take a whole number, also one of numpy; a smaller one than the least is refused."""
    words = "a whole number" if least is None else f"a whole number above {least - 1}"
    try:
        # True and False are whole numbers to Python, and a mistake here.
        found = None if isinstance(given, bool | np.bool_) else operator.index(given)
    except TypeError:
        found = None
    if found is None or (least is not None and found < least):
        raise must(name, words, given)
    return found


def check_level(level: Any) -> float:
    """Take the level of intervals, before anything is trained."""
    if isinstance(level, str | bool) or np.ndim(level) or not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    return float(level)


def several(given: Any) -> tuple[Any, ...]:
    """Take one value or several."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    return tuple(given) if isinstance(given, list | tuple | range | set | frozenset) else (given,)
