"""Devices, threads and times."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from .checks import whole_number
from .errors import InputError, must
from .lazy import torch

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

# More than any processor has; so many threads that they cannot be made end the process in OpenMP.
MOST_THREADS = 1024


def find_device(name: Any) -> torch.device:
    """Find a torch device, or say that it is not there; "auto" is a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise must("device", "a torch device such as 'cpu' or 'cuda'", name) from error
    if device.type not in ("cpu", "cuda"):
        raise must("device", "'cpu' or 'cuda'", name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        here = f"only {count} CUDA device{'s' * (count > 1)} are here" if count else "no CUDA device is here"
        raise InputError(f"device must be one that this machine has, but got {name!r} and {here}.")
    return device


def name_device(name: Any) -> Any:
    """Name the device that "auto" stands for on this machine; other names stay as they are."""
    return str(find_device(name)) if name == "auto" else name


def copied(array: np.ndarray, device: Any) -> torch.Tensor:
    """Copy an array to a device, without waiting for it; on the CPU the tensor shares its memory."""
    return moved_to(torch.from_numpy(array), torch.device(device))


def moved_to(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a tensor to a device, without waiting for it; one that is there is returned."""
    if tensor.device.type == device.type:
        return tensor
    # From memory that the system may move, the copy would wait for all work on the GPU.
    return tensor.pin_memory().to(device, non_blocking=True)


@contextlib.contextmanager
def beside(device: torch.device) -> Iterator[None]:
    """Use a stream of a GPU of its own, so that nothing waits for what other threads run there later."""
    if device.type == "cpu":
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield


def ahead(items: Iterator[T]) -> Generator[T]:
    """
    Yield items while another thread makes the next one.

    Examples
    --------
    >>> list(ahead(iter([1, 2, 3])))
    [1, 2, 3]
    """
    end: Any = object()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, end)
        while (item := waiting.result()) is not end:
            waiting = pool.submit(next, items, end)
            yield item


@contextlib.contextmanager
def using_threads(threads: int | None) -> Iterator[None]:
    """Set the number of threads of torch and BLAS, and restore it afterwards."""
    if threads is None:
        yield
        return
    whole_number("threads", threads, 1)
    if threads > MOST_THREADS:
        raise must("threads", f"at most {MOST_THREADS}", threads)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with _numpy_threads(threads):
            yield
    finally:
        torch.set_num_threads(before)


def _numpy_threads(threads: int) -> contextlib.AbstractContextManager[Any]:
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # fine-tuning must run without it, and needs torch's threads alone
        return contextlib.nullcontext()
    return threadpool_limits(limits=threads, user_api="blas")


def duration(seconds: float) -> str:
    """
    Round a time that was estimated.

    Examples
    --------
    >>> duration(0.2), duration(80), duration(600), duration(9000)
    ('a second', '80 seconds', '10 minutes', '2.5 hours')
    """
    if seconds < 1:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
