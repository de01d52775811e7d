"""Interruption of trainings by signals, which take effect between two updates."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Ctrl-C; what a scheduler such as Slurm sends when the time is up; what a closed terminal sends.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
INTERRUPTED = 130


class Stopping:
    """
    Defers signals to stop (Ctrl-C, SIGTERM, SIGHUP) while a training runs; owns their handlers.

    The first signal is only recorded, for the loop to see between two updates, and takes effect at the end of
    the block as KeyboardInterrupt; a second Ctrl-C stops at once. Signals are left alone in other threads,
    and where they have another handler or are ignored, as SIGHUP is under nohup.

    Parameters
    ----------
    here : bool
        Whether signals are deferred at all.

    Examples
    --------
    >>> with Stopping() as stopping:
    ...     stopping.asked
    False
    """

    def __init__(self, here: bool = True) -> None:
        self.asked = False
        self._here = here
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if self._here and threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                default_handlers = (
                    signal.default_int_handler,
                    *(() if number == signal.SIGINT else (signal.SIG_DFL,)),
                )
                if signal.getsignal(number) in default_handlers:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
        if self.asked and kind is None:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Schedulers may send several signals at once; only a person insists.
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True


def in_child(function: Callable[..., Any], *given: Any) -> Any:
    """Run a function in a process of a pool, which exits when it is interrupted."""
    try:
        return function(*given)
    except KeyboardInterrupt:
        # Otherwise the pool would give the process its next task.
        os._exit(INTERRUPTED)


@contextmanager
def stopping_children(pool: ProcessPoolExecutor) -> Iterator[None]:
    """Forward an interrupt to the processes of a pool, each of which saves its state before it exits."""
    try:
        yield
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise
