"""Calls in processes of this machine, which live on from call to call and share its CPUs and GPUs."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import InputError
from ..store.shelf import Shelf
from .base import Call, Executor, ExecutorSettings, Outcome, Resources, check_calls
from .worker import GRACE

# Seconds between looks at workers that died without closing their pipes.
LOOK = 1.0


class Worker:
    """
    A process that performs one call at a time.

    Parameters
    ----------
    settings : ExecutorSettings
    device : str, optional
        The GPU that it sees; all of them when absent.
    """

    def __init__(self, settings: ExecutorSettings, device: str | None) -> None:
        self.device, self.resources = device, Resources()
        self.call: Call | None = None
        self._read = b""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        if device is not None:
            environment["CUDA_VISIBLE_DEVICES"] = device
        with open(settings.jobs / "processes.log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "microtome.executors.worker", str(settings.root), settings.perform],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                # Ctrl-C is for the coordinator, which interrupts its workers.
                process_group=0,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._calls, self.answers = self.process.stdin, self.process.stdout
        os.set_blocking(self.answers.fileno(), False)

    def take(self, call: Call, resources: Resources) -> None:
        """Begin a call."""
        self.call, self.resources = call, resources
        with suppress(BrokenPipeError):  # it has died, which the next look finds
            self._calls.write(json.dumps(call).encode() + b"\n")
            self._calls.flush()

    def answer(self) -> Outcome | None:
        """The outcome of its call, if it has come."""
        while chunk := self.answers.read():
            self._read += chunk
        line, end, rest = self._read.partition(b"\n")
        if not end:
            return None
        self.call, self._read = None, rest
        return Outcome(**json.loads(line))

    def release(self) -> None:
        """Let it go: a process whose calls have no sender interrupts what it is at, and exits."""
        with suppress(BrokenPipeError):
            self._calls.close()

    def end(self, deadline: float) -> None:
        """Wait for its end until a moment of the monotonic clock, and kill it then."""
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.answers.close()


class ProcessesExecutor(Executor):
    """
    Performs calls in processes of this machine, as many at once as fit.

    Parameters
    ----------
    settings : ExecutorSettings
    """

    def __init__(self, settings: ExecutorSettings) -> None:
        super().__init__(settings)
        self._cpus, self._memory = _cpus(), _memory()
        self._most = settings.workers or self._cpus
        self._devices = _devices()[: settings.gpus]
        self._waiting: dict[Resources, deque[Call]] = {}
        self._workers: list[Worker] = []
        self._ended: list[Outcome] = []
        self._selector = selectors.DefaultSelector()

    def check(self, resources: Resources) -> None:
        """Raise if a call needs more than this machine has; with --workers, only GPUs count."""
        if resources.gpus > 1 or (resources.gpus and not self._devices):
            raise InputError(
                f"gpus must be at most {min(1, len(self._devices))} for a call in a process of this machine, "
                f"which has {len(self._devices)}, but got {resources.gpus:g}."
            )
        if self.settings.workers is None and (resources.cpus > self._cpus or resources.bytes > self._memory):
            raise InputError(
                f"a call must fit this machine, which has {self._cpus} CPUs and "
                f"{self._memory / 2**30:.1f}GB, but it needs {resources.sentence}; --workers 1 still runs it."
            )

    def submit(self, calls: Sequence[Call], resources: Resources) -> None:
        """Take calls, and begin those that fit."""
        check_calls(calls)
        self.check(resources)
        self._waiting.setdefault(resources, deque()).extend(calls)
        self._begin()

    def outcomes(self, timeout: float) -> list[Outcome]:
        """Wait for answers of workers, and for workers that die."""
        deadline = time.monotonic() + timeout
        while True:
            self._begin()
            left = 0.0 if self._ended else deadline - time.monotonic()
            busy = self._listen(min(max(left, 0.0), LOOK))
            if self._ended or left <= 0 or not busy:
                break
        self._begin()
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Interrupt all workers, wait until they have saved their state, and kill those that do not end."""
        self._waiting.clear()
        deadline = time.monotonic() + GRACE
        try:
            for worker in self._workers:
                worker.release()
            for worker in self._workers:
                worker.end(deadline)
        finally:  # a second Ctrl-C
            for worker in self._workers:
                worker.process.kill()
            self._workers.clear()
            self._selector.close()

    def _begin(self) -> None:
        """Give waiting calls to workers that are free."""
        for resources, calls in self._waiting.items():
            while calls and (worker := self._free(resources)) is not None:
                worker.take(calls.popleft(), resources)

    def _free(self, resources: Resources) -> Worker | None:
        """A worker for a call, where CPUs, memory and a GPU are free."""
        busy = [worker.resources for worker in self._workers if worker.call is not None]
        if len(busy) >= self._most:
            return None
        if busy and self.settings.workers is None:
            cpus = sum(part.cpus for part in (resources, *busy))
            if cpus > self._cpus or sum(part.bytes for part in (resources, *busy)) > self._memory:
                return None
        devices = self._roomy(resources.gpus)
        for worker in self._workers:
            if worker.call is None and worker.device in devices and worker.process.poll() is None:
                return worker
        if not devices or len(self._workers) >= self._most:
            return None
        workers = Counter(worker.device for worker in self._workers)
        device = min(devices, key=lambda name: workers[name])
        worker = Worker(self.settings, device)
        self._workers.append(worker)
        self._selector.register(worker.answers, selectors.EVENT_READ)
        return worker

    def _roomy(self, share: float) -> Sequence[str | None]:
        """GPUs of which a share is free; None stands for a machine without one."""
        taken: dict[str | None, float] = dict.fromkeys(self._devices or [None], 0.0)
        for worker in self._workers:
            if worker.call is not None:
                taken[worker.device] += worker.resources.gpus
        # Thirds add up to 1 only nearly.
        return [name for name, sum_of_shares in taken.items() if sum_of_shares + share <= 1 + 1e-6]

    def _listen(self, seconds: float) -> bool:
        """Take answers for a while; whether any worker was busy."""
        busy = [worker for worker in self._workers if worker.call is not None]
        if busy:
            self._selector.select(seconds)
        for worker in list(self._workers):
            ended = worker.process.poll() is not None  # before the last answer is read
            call = worker.call
            outcome = worker.answer()
            if outcome is not None:
                self._ended.append(outcome)
            if ended or (outcome is not None and outcome.broken):
                self._drop(worker)
                if outcome is None and call is not None:
                    self._ended.append(self._outcome_of_dead(worker, call))
        return bool(busy)

    def _drop(self, worker: Worker) -> None:
        self._selector.unregister(worker.answers)
        self._workers.remove(worker)
        worker.release()
        worker.end(time.monotonic())

    def _outcome_of_dead(self, worker: Worker, call: Call) -> Outcome:
        if Shelf(self.settings.root).look(call["address"]) is not None:
            return Outcome(address=call["address"], state="done")
        code = worker.process.returncode
        how = f"signal {-code}" if code < 0 else f"status {code}"
        how += " (as where memory runs out: [resources] memory)" if code == -signal.SIGKILL else ""
        return Outcome(
            address=call["address"], state="lost", message=f"its process must live on, but ended with {how}."
        )


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _devices(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name]
    folder = Path("/proc/driver/nvidia/gpus")
    return [str(number) for number in range(len(list(folder.iterdir())))] if folder.is_dir() else []
