"""What a job of Slurm is: a file of calls, and the public command that performs them."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .base import ExecutorSettings, Resources
from .worker import GRACE


class Job:
    """
    A command, which is interrupted when the time of the job is up, and then started anew.

    Parameters
    ----------
    words : sequence of str
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)

    def __call__(self) -> int:
        """Run the command to its end, and return its exit status."""
        # The signal for this process would end the command without its state being saved.
        self._process = subprocess.Popen(self.words, preexec_fn=_ignore_user_signal)
        return self._process.wait()

    def checkpoint(self) -> Any:
        """Interrupt the command, which saves its state; submitit calls this before the time is up."""
        from submitit.helpers import DelayedSubmission

        self._process.terminate()
        deadline = time.monotonic() + GRACE
        while not self._ended():
            if time.monotonic() > deadline:
                self._process.kill()
                break
            time.sleep(0.1)
        return DelayedSubmission(Job(self.words))

    def _ended(self) -> bool:
        # This runs inside of a signal handler, which interrupts the wait of the call and its lock.
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def __reduce__(self) -> tuple[Any, ...]:
        return Job, (self.words,)


def words_of(file: Path, settings: ExecutorSettings, side_by_side: int) -> list[str]:
    """
    The command that performs a file of calls.

    Parameters
    ----------
    file : Path
    settings : ExecutorSettings
    side_by_side : int
        How many calls run at once.

    Returns
    -------
    list of str
    """
    command = [sys.executable, "-m", "microtome", "call", f"@{file}", "--store", os.fspath(settings.root)]
    return [*command, "--processes", str(side_by_side), "--function", settings.perform, "--quiet"]


def together(resources: Resources, count: int) -> int:
    """How many calls of a job run side by side: those that share one GPU."""
    return max(1, min(count, math.floor(1 / resources.gpus + 1e-6))) if 0 < resources.gpus < 1 else 1


def parameters_of(settings: ExecutorSettings, resources: Resources, name: str, count: int) -> dict[str, Any]:
    """
    The parameters of jobs in the words of submitit.

    Parameters
    ----------
    settings : ExecutorSettings
    resources : Resources
        Of one call.
    name : str
        Of the jobs.
    count : int
        The most calls of one job.

    Returns
    -------
    dict
    """
    width = together(resources, count)
    seconds = 60 * resources.minutes * math.ceil(count / width)
    parameters = {
        "job_name": name,
        "time": seconds // 60,
        "cpus_per_task": resources.cpus * width,
        "ntasks_per_node": 1,
        "mem": f"{math.ceil(resources.bytes * width / 2**20)}MB",
        "signal_delay_s": min(90, seconds // 4),
    }
    if resources.gpus:
        parameters["gpus_per_node"] = math.ceil(resources.gpus)
    if settings.partition is not None:
        parameters["partition"] = settings.partition
    if settings.workers is not None:
        parameters["array_parallelism"] = settings.workers
    return {**parameters, **settings.slurm}


def _ignore_user_signal() -> None:
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
