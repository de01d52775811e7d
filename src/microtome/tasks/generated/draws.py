"""Random choices of the grammars, from a stream of uniform numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from ...randomness import generator

T = TypeVar("T")

Draws = Iterator[float]


def draws(seed: int, *names: str | int) -> Draws:
    """
    Generate an infinite stream of uniform numbers.

    A number from a list costs a fiftieth of a call to the generator, and a sentence needs dozens.

    Parameters
    ----------
    seed : int
    *names : str or int
        The purpose of the numbers.

    Returns
    -------
    iterator of float
        Each at least 0 and below 1.
    """
    source = generator(seed, *names)
    while True:
        yield from source.random(4096).tolist()


def chance(rate: float, numbers: Draws) -> bool:
    """Return True with a given probability."""
    return next(numbers) < rate


def pick(options: Sequence[T], numbers: Draws) -> T:
    """Choose one option uniformly."""
    return options[int(next(numbers) * len(options))]


def several(options: Sequence[T], count: int, numbers: Draws) -> list[T]:
    """
    Choose distinct options, in random order.

    Examples
    --------
    >>> sorted(several("abc", 3, draws(0, "letters")))
    ['a', 'b', 'c']
    """
    indices: list[int] = []
    while len(indices) < count:
        index = int(next(numbers) * len(options))
        if index not in indices:
            indices.append(index)
    return [options[index] for index in indices]
