"""Status of a study: which of its jobs are done, running, failed, ready or waiting, asked of the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..store.shelf import Shelf
from .estimates import StudyEstimate, estimate
from .grid import StudyGrid, StudyJob
from .values import Study

State = Literal["done", "running", "failed", "ready", "waiting"]
STATES: tuple[State, ...] = ("done", "running", "failed", "ready", "waiting")


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """
    A job and its state.

    Parameters
    ----------
    job : StudyJob
    state : {"done", "running", "failed", "ready", "waiting"}
        "waiting" for jobs that it needs.
    message : str
        Why it failed, or where it runs.
    """

    job: StudyJob
    state: State
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class StudyStatus:
    """
    The jobs of a study and their states.

    Parameters
    ----------
    study : Study
    jobs : tuple of JobStatus
    estimate : StudyEstimate
        Of what is not done yet.
    """

    study: Study
    jobs: tuple[JobStatus, ...]
    estimate: StudyEstimate

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of jobs in each state."""
        counts = Counter(status.state for status in self.jobs)
        return {state: counts[state] for state in STATES}

    def document(self) -> dict[str, Any]:
        """Plain data of the format microtome/study-status/1."""
        by_table: dict[str, Counter[str]] = {}
        for status in self.jobs:
            by_table.setdefault(status.job.table, Counter())[status.state] += 1
        return {
            "format": "microtome/study-status/1",
            "study": self.study.name,
            "jobs": len(self.jobs),
            "states": dict(self.counts),
            "experiments": {name: dict(states) for name, states in by_table.items()},
            "running": [_listed(status) for status in self.jobs if status.state == "running"],
            "failed": [_listed(status) for status in self.jobs if status.state == "failed"],
            "estimate": self.estimate.document(),
        }


def read_status(study: Study, shelf: Shelf) -> StudyStatus:
    """
    Ask the store for the states of all jobs.

    Parameters
    ----------
    study : Study
    shelf : Shelf

    Returns
    -------
    StudyStatus
    """
    grid = StudyGrid(study)
    grid.check()
    addresses = [job.address for job in grid.jobs]
    done = shelf.has(addresses)
    running, failures = shelf.running(), shelf.failures()
    # Of a job that is divided, parts run first.
    parts = {}
    if set(running) - set(addresses):
        undone = (job for job in grid.jobs if job.address not in done)
        parts = {
            job.address: part.address for job in undone for part in grid.parts(job) if part.address in running
        }
    jobs = []
    for job in grid.jobs:
        address = job.address
        state: State = "ready" if all(need in done for need in job.needs) else "waiting"
        message = ""
        if address in done:
            state = "done"
        elif address in running or address in parts:
            state, message = "running", running[parts.get(address, address)].host
        elif address in failures:
            state, message = "failed", failures[address].message
        jobs.append(JobStatus(job=job, state=state, message=message))
    left = [status.job for status in jobs if status.state != "done"]
    return StudyStatus(study=study, jobs=tuple(jobs), estimate=estimate(grid, left, shelf))


def _listed(status: JobStatus) -> dict[str, str]:
    return {"job": status.job.name, "address": status.job.address, "message": status.message}
