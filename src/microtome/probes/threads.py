"""How do rows get all cores? In parts, one thread each: none of them ever waits for another inside a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

Result = TypeVar("Result")

PART = 4096  # rows that are looked at together: what is computed of them stays in memory that is near
FAR = 1 << 18  # the same on other devices than the CPU


@contextmanager
def workers(device: torch.device) -> Iterator[Executor | None]:
    """
    Lend as many threads as torch has on the CPU; none where there is one, or on another device.

    Operations on a part are too small to be shared. While threads are lent, each of them runs its own.

    Parameters
    ----------
    device : torch.device

    Yields
    ------
    Executor or None
    """
    import torch

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
    Do something for some rows at a time.

    Parameters
    ----------
    pool : Executor, optional
    rows : Tensor of shape (layers, rows, ...)
    work : callable
        Given a slice of the rows.

    Returns
    -------
    list
        In the order of the rows, however many threads there are.
    """
    step = PART if rows.device.type == "cpu" else FAR
    parts = [slice(begin, begin + step) for begin in range(0, rows.shape[1], step)]
    return list(map(work, parts) if pool is None or len(parts) == 1 else pool.map(work, parts))
