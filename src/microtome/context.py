"""What crosses every experiment: where results are kept, where the work runs, and how it is reported."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from .checks import check_level
from .runtime import duration, find_device

Progress = Callable[[str, int, int], None]
# Seconds between lines of progress.
BETWEEN = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """
    Settings that every experiment shares and that are no part of its question.

    Parameters
    ----------
    store : path, optional
        The folder of the store; `MICROTOME_STORE` or the user's cache when absent.
    device : {"auto", "cpu", "cuda"}
        "auto" is a GPU where there is one. Results name the device that was used.
    threads : int, optional
        Number of CPU threads; as many as torch takes when absent.
    level : float
        Coverage of intervals and bands.
    command : str
        The command that reproduces the result.
    progress : callable, optional
        Called with a label, the number of steps done and their total.

    Examples
    --------
    >>> Context(level=0.9).level
    0.9
    """

    store: str | os.PathLike[str] | None = None
    device: str = "auto"
    threads: int | None = None
    level: float = 0.95
    command: str = ""
    progress: Progress | None = None

    def __post_init__(self) -> None:
        check_level(self.level)

    def resolved(self) -> Context:
        """Name the device that "auto" stands for on this machine."""
        return replace(self, device=str(find_device(self.device)))

    def named(self, label: str) -> Context:
        """The same with a label before every message of progress, such as a seed."""
        if self.progress is None:
            return self
        report = self.progress
        return replace(self, progress=lambda what, done, total: report(f"{label}: {what}", done, total))

    def report(self, label: str, done: int, total: int) -> None:
        """Report progress, where somebody listens."""
        if self.progress is not None:
            self.progress(label, done, total)

    def reporting(self, progress: Progress | None) -> Context:
        """The same with another receiver of progress."""
        return replace(self, progress=progress)


# Results go to the usual places, and nobody listens.
SILENT = Context()


class ProgressLines:
    """
    Progress as a line now and then, with the time left, where there is no terminal for a bar.

    Parameters
    ----------
    write : callable
        Takes a line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write, self.told = write, time.monotonic()
        self.what, self.start, self.before = "", 0.0, 0

    def report(self, what: str, done: int, total: int) -> None:
        """Take a label, the number of steps done and their total, 0 where nobody knows it."""
        now = time.monotonic()
        if what != self.what:
            self.what, self.start, self.before = what, now, done
        if now - self.told < BETWEEN or done <= self.before:
            return
        self.told = now
        left = (now - self.start) / (done - self.before) * (total - done)
        self.write(f"{what}: {done:,}" + (f" of {total:,}, about {duration(left)} left" if total else ""))
