"""Devices and threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .checks import whole_number
from .errors import InputError, must
from .lazy import torch

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
