"""Running of a study: jobs whose needs are done go to an executor, and what fails is tried once more."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..context import Context
from ..executors.base import Executor, ExecutorSettings, Outcome
from ..executors.table import open_executor
from ..store.shelf import Shelf
from .grid import StudyGrid, StudyJob
from .sources import fetch
from .values import Study

# Seconds between looks at workers.
WAIT = 5.0
# How often a call is started: a failure is tried once more, and a call whose worker died more often.
TRIES = {"failed": 2, "lost": 4}
# Results that are named of those that will fail for one reason.
SHOWN = 8
# Executors with several workers, for which jobs are divided into parts.
SINGLE = "inline"


@dataclass(frozen=True, kw_only=True)
class StudyOutcome:
    """
    How a run of a study ended.

    Parameters
    ----------
    study : Study
    store : path, optional
    done : int
        Jobs that were computed.
    before : int
        Jobs that the store had already.
    failures : dict of str to str
        Names of failed jobs, and why.
    left_out : tuple of str
        Names of jobs that need failed ones.
    seconds : float
    """

    study: Study
    store: Any
    done: int
    before: int
    failures: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """Plain data of the format microtome/study-run/1."""
        names = ("done", "before", "failures", "seconds")
        return {
            "format": "microtome/study-run/1",
            "study": self.study.name,
            **{name: getattr(self, name) for name in names},
            "left_out": list(self.left_out),
        }


def run_study(
    study: Study, on: str, context: Context, note: Callable[[str], object] = warnings.warn, **settings: Any
) -> StudyOutcome:
    """
    Run what the store does not have yet of a study.

    It can be stopped at any moment; the same call goes on from there. Several may run on one store.

    Parameters
    ----------
    study : Study
    on : str
        The name of an executor.
    context : Context
        Its store, and its progress, which is told of results.
    note : callable
        Called at once with what cannot be fetched.
    **settings
        Of `ExecutorSettings`, such as workers.

    Returns
    -------
    StudyOutcome
    """
    grid, shelf = StudyGrid(study), Shelf(context.store)
    grid.check()
    with open_executor(on, ExecutorSettings(store=shelf.root, **settings)) as executor:
        for resources in {grid.resources(job) for job in grid.jobs}:
            executor.check(resources)
        run = _StudyRun(grid, shelf, context, divided=on != SINGLE)
        run.fetch(note)
        return run.complete(executor)


class _StudyRun:
    """The state of a running study; it owns nothing but counts, since the store knows what is done."""

    def __init__(self, grid: StudyGrid, shelf: Shelf, context: Context, *, divided: bool) -> None:
        self.grid, self.shelf, self.context = grid, shelf, context
        jobs: list[StudyJob] = []
        self.parts: dict[str, list[str]] = {}
        for job in grid.jobs:
            parts = grid.parts(job) if divided else ()
            self.parts[job.address] = [part.address for part in parts]
            jobs += [*parts, job]
        self.jobs = {job.address: job for job in jobs}
        self.done = shelf.has(list(self.jobs))
        # Parts of a job that is done need not be.
        self.done |= {job.address for job in jobs if job.part_of in self.done}
        self.before = len(self.done & {job.address for job in grid.jobs})
        self.started: dict[str, int] = {}
        self.failed: dict[str, str] = {}

    def fetch(self, note: Callable[[str], object]) -> None:
        """Fetch models and tasks; results that need one that cannot be had fail, and are not started."""
        left = {a: job.call["options"] for a, job in self.jobs.items() if a not in self.done}
        for name, reason, users in fetch(self.grid.study, left):
            names = [self.jobs[address].name for address in users if not self.jobs[address].part_of]
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            note(f"{name} cannot be had, so that {', '.join(names[:SHOWN])}{more} will fail: {reason}")
            self.failed |= dict.fromkeys(users, reason)
        for address, reason in self.failed.items():
            self.shelf.fail(address, message=reason, kind="FetchError")

    def complete(self, executor: Executor) -> StudyOutcome:
        """Hand out jobs until none is left that can run."""
        start = time.monotonic()
        # A job is looked at again when one that it needs has ended.
        waiting: dict[str, set[str]] = {}
        followers: dict[str, list[str]] = {}
        for address, job in self.jobs.items():
            if address not in self.done:
                needs = {need for need in self._needs(job) if need not in self.done}
                waiting[address] = needs
                for need in needs:
                    followers.setdefault(need, []).append(address)
        ended = deque(self.failed)
        ready = [a for a, needs in waiting.items() if not needs and a not in self.failed]
        running = self._submit(executor, ready)
        while running or ended:
            for outcome in executor.outcomes(WAIT) if running else ():
                if outcome.address not in running:
                    continue
                if not self._settled(outcome):
                    self._submit(executor, [outcome.address])
                    continue
                running.discard(outcome.address)
                ended.append(outcome.address)
                self._report()
            ready = []
            while ended:
                address = ended.popleft()
                for follower in followers.get(address, ()):
                    waiting[follower].discard(address)
                    # A job can do without its parts; what failed in them will fail again in it.
                    blocked = any(need in self.failed for need in self.jobs[follower].needs)
                    if blocked and follower not in self.failed:
                        self.failed[follower] = ""
                        ended.append(follower)
                    elif not waiting[follower] and follower not in self.failed:
                        ready.append(follower)
            running |= self._submit(executor, ready)
        names = {address: job.name for address, job in self.jobs.items() if not job.part_of}
        return StudyOutcome(
            study=self.grid.study,
            store=self.shelf.root,
            done=sum(address in self.done for address in names) - self.before,
            before=self.before,
            failures={names[a]: message for a, message in self.failed.items() if message and a in names},
            left_out=tuple(names[a] for a, message in self.failed.items() if not message and a in names),
            seconds=round(time.monotonic() - start, 3),
        )

    def _needs(self, job: StudyJob) -> Iterable[str]:
        return (*job.needs, *self.parts.get(job.address, ()))

    def _submit(self, executor: Executor, addresses: list[str]) -> set[str]:
        """Start calls, those with the same needs together."""
        by_resources: dict[Any, list[Any]] = {}
        for address in addresses:
            job = self.jobs[address]
            self.started[address] = self.started.get(address, 0) + 1
            by_resources.setdefault(self.grid.resources(job), []).append(job.call)
        for resources, calls in by_resources.items():
            executor.submit(calls, resources)
        return set(addresses)

    def _settled(self, outcome: Outcome) -> bool:
        """Whether a call is over: it is done, or it has failed too often."""
        address = outcome.address
        if outcome.state == "done":
            self.done.add(address)
            return True
        if self.started[address] < TRIES[outcome.state]:
            return False
        self.failed[address] = outcome.message or "its worker died again and again."
        return True

    def _report(self) -> None:
        results = [address for address, job in self.jobs.items() if not job.part_of]
        ended = sum(address in self.done or address in self.failed for address in results)
        self.context.report("results", ended, len(results))
