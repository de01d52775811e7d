"""How does a grammar choose? From a stream of uniform numbers, which is quick and the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from ...randomness import generator

T = TypeVar("T")

Draws = Iterator[float]


def draws(seed: int, *names: str | int) -> Draws:
    """
    Give uniform numbers without end.

    A number from a list costs a fiftieth of a call to the generator, and a sentence needs dozens.

    Parameters
    ----------
    seed : int
    *names : str or int
        What the numbers are for.

    Returns
    -------
    iterator of float
        Each at least 0 and below 1.
    """
    source = generator(seed, *names)
    while True:
        yield from source.random(4096).tolist()


def chance(rate: float, numbers: Draws) -> bool:
    """Say yes at a given rate."""
    return next(numbers) < rate


def pick(options: Sequence[T], numbers: Draws) -> T:
    """Choose one of several, each as likely as the others."""
    return options[int(next(numbers) * len(options))]


def several(options: Sequence[T], count: int, numbers: Draws) -> list[T]:
    """
    Choose different ones, in random order.

    Examples
    --------
    >>> sorted(several("abc", 3, draws(0, "letters")))
    ['a', 'b', 'c']
    """
    places: list[int] = []
    while len(places) < count:
        place = int(next(numbers) * len(options))
        if place not in places:
            places.append(place)
    return [options[place] for place in places]
