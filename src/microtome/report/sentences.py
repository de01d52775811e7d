"""Statements and their words: bounds are rounded outward, and every interval names its unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Points of 100 that findings call a loss, or units of a score that is not counted in points.
MARGIN = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """
    One sentence, and how it is to be read.

    Parameters
    ----------
    text : str
    sure : bool, optional
        Whether it was shown; a sentence that says that nothing is shown is not sure either way, and of None
        it is not known here.
    layers : tuple of str
        Names of the layers it speaks of, as a map calls them.
    headline : bool
        Whether it stands among the findings at the top, too.
    """

    text: str
    sure: bool | None = False
    layers: tuple[str, ...] = ()
    headline: bool = False


def percent(level: float) -> str:
    """
    Write a level of confidence.

    Examples
    --------
    >>> percent(0.95), percent(0.995)
    ('95 %', '99.5 %')
    """
    return f"{round(level * 100, 6):g} %"


def doubt(level: float, what: str, unit: str) -> str:
    """
    Say what an interval promises, and what it takes as independent.

    Examples
    --------
    >>> doubt(0.95, "for all cuts at once", "example")
    '(95 %, for all cuts at once, unit: example)'
    """
    return f"({', '.join(part for part in (percent(level), what, f'unit: {unit}') if part)})"


def listed(items: Sequence[str]) -> str:
    """
    Put names into one phrase.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def counted(numbers: Sequence[int], noun: str) -> str:
    """
    Name layers or blocks by their numbers, runs of three or more joined.

    Examples
    --------
    >>> counted([5], "block"), counted([2, 5], "block"), counted([7, 8, 9, 12], "layer")
    ('block 5', 'blocks 2 and 5', 'layers 7 to 9 and 12')
    """
    ordered = sorted(set(numbers))
    runs: list[list[int]] = []
    for number in ordered:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    phrases: list[str] = []
    for run in runs:
        phrases += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(number) for number in run]
    return f"{noun}{'' if len(ordered) == 1 else 's'} {listed(phrases)}" if ordered else f"no {noun}"


def amount(text: str, points: float, score: str) -> str:
    """
    Say what a number counts: points of 100 of a score, or units of it.

    Examples
    --------
    >>> amount("0.8", 100, "accuracy"), amount("1", 100, "accuracy"), amount("0.25", 1, "perplexity")
    ('0.8 points of accuracy', '1 point of accuracy', '0.25 of perplexity')
    """
    if points != 100:
        return f"{text} of {score}"
    return f"{text} {'point' if text == '1' else 'points'} of {score}"
