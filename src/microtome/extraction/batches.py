"""Which examples run together? Those of like length, as many as fit the memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ..errors import WorkError

Work = Callable[[Sequence[int]], None]

# Tokens of a batch, padding included. Caches suffer above the first; the second fills a large card.
CPU_TOKENS, CUDA_TOKENS = 4096, 65536


def buckets(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """
    Group examples of like length.

    Parameters
    ----------
    lengths : sequence of int
        Tokens of each example.
    budget : int
        Tokens of a batch at most, padding included; a longer example runs alone.

    Yields
    ------
    list of int
        Places of examples, longest first, so that memory that does not suffice shows at once.

    Examples
    --------
    >>> list(buckets([3, 9, 4, 1], 12))
    [[1], [2, 0, 3]]
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda k: (-lengths[k], k)):
        if batch and (len(batch) + 1) * lengths[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


class Budget:
    """
    How many tokens run at once: as given, or halved each time the memory runs out.

    Parameters
    ----------
    tokens : int
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def run(
        self, batch: Sequence[int], lengths: Sequence[int], work: Callable[[Sequence[int]], None]
    ) -> None:
        """Do the work on a batch, in smaller and smaller parts where it does not fit."""
        waiting = [list(batch)]
        while waiting:
            part = waiting.pop(0)
            try:
                work(part)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if len(part) == 1:
                    raise WorkError(
                        f"one example of {lengths[part[0]]} tokens must fit the memory, but it ran out; try "
                        "a smaller longest=."
                    ) from error
                _release()
                self.tokens = max(self.tokens // 2, 1)
                half = (len(part) + 1) // 2
                waiting[:0] = [part[:half], part[half:]]


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; torch says it in several ways."""
    return isinstance(error, MemoryError) or bool(
        re.search(r"out of memory|can't allocate memory|DefaultCPUAllocator", str(error))
    )


def _release() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
