"""Parallel processing of chunks of rows, one thread per chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from ...lazy import torch

Result = TypeVar("Result")

PART = 4096  # rows per chunk, so that intermediate results fit in the cache
FAR = 1 << 18  # the same on other devices than the CPU


@contextmanager
def workers(device: torch.device) -> Iterator[Executor | None]:
    """
    Provide a pool with as many threads as torch has on the CPU; None for one thread, or on another device.

    Operations on a chunk are too small to be parallelized: while the pool is open, torch is single-threaded.

    Parameters
    ----------
    device : torch.device

    Yields
    ------
    Executor or None
    """
    count = torch.get_num_threads()
    if device.type != "cpu" or count == 1:
        yield None
        return
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            torch.set_num_threads(1)
            yield pool
    finally:
        torch.set_num_threads(count)


def in_parts(pool: Executor | None, rows: torch.Tensor, work: Callable[[slice], Result]) -> list[Result]:
    """
    Apply a function to chunks of rows.

    Parameters
    ----------
    pool : Executor, optional
    rows : Tensor of shape (layers, rows, ...)
    work : callable
        Called with a slice of the rows.

    Returns
    -------
    list
        Results in the order of the rows, for any number of threads.
    """
    step = PART if rows.device.type == "cpu" else FAR
    parts = [slice(begin, begin + step) for begin in range(0, rows.shape[1], step)]
    return list(map(work, parts) if pool is None or len(parts) == 1 else pool.map(work, parts))
