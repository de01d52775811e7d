"""Batching of examples by length within a token budget."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ..errors import WorkError
from ..lazy import torch

# Tokens per batch, padding included. Beyond the first, CPU caches overflow; the second fills a large GPU.
CPU_TOKENS, CUDA_TOKENS = 4096, 65536


def buckets(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """
    Group examples of similar length.

    Parameters
    ----------
    lengths : sequence of int
        The number of tokens of each example.
    budget : int
        The maximum number of tokens in a batch, padding included; a longer example is a batch by itself.

    Yields
    ------
    list of int
        Indices of examples, longest first, so that a lack of memory shows at once.

    Examples
    --------
    >>> list(buckets([3, 9, 4, 1], 12))
    [[1], [2, 0, 3]]
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda k: (-lengths[k], k)):
        if batch and (len(batch) + 1) * lengths[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


class Budget:
    """
    The number of tokens per batch, halved each time memory runs out.

    Parameters
    ----------
    tokens : int
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def run(
        self, batch: Sequence[int], lengths: Sequence[int], work: Callable[[Sequence[int]], None]
    ) -> None:
        """Do the work on a batch, splitting it into smaller parts where it does not fit into memory."""
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
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
                self.tokens = max(self.tokens // 2, 1)
                half = (len(part) + 1) // 2
                waiting[:0] = [part[:half], part[half:]]


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch reports it in several ways."""
    return isinstance(error, MemoryError) or bool(
        re.search(r"out of memory|can't allocate memory|DefaultCPUAllocator", str(error))
    )
