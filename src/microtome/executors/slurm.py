"""
Calls as job arrays of Slurm.

What is true is in the store: an entry is a call that is done, a record of a failure is one that failed. Slurm
is only asked which jobs it still has (`squeue`; accounting is not needed). A call without either whose job is
gone is lost. Jobs outlive a coordinator that was killed: the next one finds them by their name.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import WorkError
from ..store.address import digest
from ..store.files import write_whole
from ..store.shelf import Shelf
from .base import Call, Executor, ExecutorSettings, Outcome, Resources, check_calls
from .jobs import Job, parameters_of, together, words_of

# Seconds between questions to Slurm, and between looks into the store.
ASK, LOOK = 5.0, 0.5
# So many questions must go without a job before it counts as gone.
ABSENCES = 2
# The most jobs of one array (Slurm's MaxArraySize is 1001), and in the queue (MaxJobCount is 10000).
LONGEST, MOST = 1000, 2000


@dataclass(slots=True, kw_only=True)
class Member:
    """
    One job of an array.

    Parameters
    ----------
    calls : dict of str to Call
        Those that have not ended, by address.
    attempts : dict of str to int
        Failures before, by address.
    begun : bool
        Whether it has ever run.
    absent : int
        So many questions ago did Slurm last have it.
    """

    calls: dict[str, Call]
    attempts: dict[str, int] = field(default_factory=dict)
    begun: bool = False
    absent: int = 0


class SlurmExecutor(Executor):
    """
    Performs calls in jobs of Slurm; owns those that it has submitted.

    Parameters
    ----------
    settings : ExecutorSettings
    """

    def __init__(self, settings: ExecutorSettings) -> None:
        import submitit  # noqa: F401 - found missing before any work is done

        super().__init__(settings)
        if shutil.which("sbatch") is None:
            raise WorkError("the executor slurm must find the commands of Slurm, but there is no sbatch.")
        self._name = f"microtome-{digest(str(settings.root).encode())[:8]}"
        self._folder = settings.jobs / "slurm"
        self._folder.mkdir(exist_ok=True)
        self._shelf = Shelf(settings.root)
        self._members: dict[str, Member] = {}
        self._waiting: dict[Resources, deque[Call]] = {}
        self._failures = self._shelf.failures()
        self._asked = 0.0
        self._adopted = self._adoptable()

    def submit(self, calls: Sequence[Call], resources: Resources) -> None:
        """Take calls; those that a job of an earlier coordinator still has are left to it."""
        check_calls(calls)
        for call in calls:
            key = self._adopted.pop(call["address"], None)
            if key is None:
                self._waiting.setdefault(resources, deque()).append(call)
            else:
                self._members.setdefault(key, Member(calls={})).calls[call["address"]] = call
        self._begin()

    def outcomes(self, timeout: float) -> list[Outcome]:
        """Look into the store for what has ended."""
        deadline = time.monotonic() + timeout
        while True:
            self._begin()
            ended = self._ended()
            left = deadline - time.monotonic()
            if ended or left <= 0 or not (self._members or any(self._waiting.values())):
                return ended
            time.sleep(min(LOOK, left))

    def close(self) -> None:
        """Cancel all jobs of calls that have not ended."""
        self._waiting.clear()
        names = sorted({f"--name={self._name}-{key.partition('/')[0]}" for key in self._members})
        self._members.clear()
        for name in names:
            subprocess.run(["scancel", "--me", name], capture_output=True, check=False)

    def _begin(self) -> None:
        """Submit arrays, as long as the queue is not too full."""
        for resources, calls in self._waiting.items():
            while calls and (room := min(LONGEST, MOST - len(self._members))) > 0:
                count = min(len(calls), room * self.settings.pack)
                if self._members and count < min(len(calls), LONGEST * self.settings.pack) // 2:
                    break  # arrays are better made when there is room for long ones
                self._array([calls.popleft() for _ in range(count)], resources)

    def _array(self, calls: Sequence[Call], resources: Resources) -> None:
        import submitit
        from submitit.core.utils import FailedJobError

        token, pack = secrets.token_hex(4), self.settings.pack
        folder = self._folder / token
        folder.mkdir()
        packs = [calls[start : start + pack] for start in range(0, len(calls), pack)]
        jobs = []
        for number, part in enumerate(packs):
            file = folder / f"calls-{number}.json"
            write_whole(file, [json.dumps(part).encode()])
            jobs.append(Job(words_of(file, self.settings, together(resources, len(part)))))
        self._failures = self._shelf.failures()
        executor = submitit.SlurmExecutor(folder=folder)
        name = f"{self._name}-{token}"
        executor.update_parameters(**parameters_of(self.settings, resources, name, len(packs[0])))
        try:
            with executor.batch():
                for job in jobs:
                    executor.submit(job)
        except FailedJobError as problem:
            raise WorkError(f"Slurm must take jobs of {self.settings.root}, but: {problem}") from problem
        for number, part in enumerate(packs):
            addresses = {call["address"]: call for call in part}
            attempts = {name: self._attempts(name) for name in addresses}
            self._members[f"{token}/{number}"] = Member(calls=addresses, attempts=attempts)

    def _adoptable(self) -> dict[str, str]:
        """Calls of jobs of this store that Slurm still has, with the job of each."""
        jobs = {}
        for key in self._queue() or ():
            token, _, number = key.partition("/")
            file = self._folder / token / f"calls-{number}.json"
            if file.exists():
                jobs |= {call["address"]: key for call in json.loads(file.read_bytes())}
        return jobs

    def _queue(self) -> dict[str, str] | None:
        """States of the jobs of this store that Slurm has, by array and number; None without an answer."""
        question = ["squeue", "--noheader", "--array", "--me", "--format=%i %T %j"]
        answer = subprocess.run(question, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            return None
        states = {}
        for line in answer.stdout.splitlines():
            job, state, name = line.split()
            if name.startswith(f"{self._name}-"):
                states[f"{name.rpartition('-')[2]}/{job.partition('_')[2] or 0}"] = state
        return states

    def _ended(self) -> list[Outcome]:
        """Calls that have ended since the last look."""
        now = time.monotonic()
        if now - self._asked >= ASK and self._members:
            self._asked = now
            states, self._failures = self._queue(), self._shelf.failures()
            for key, member in self._members.items() if states is not None else ():
                assert states is not None
                member.begun |= states.get(key, "GONE") not in ("PENDING", "CONFIGURING")
                member.absent = 0 if key in states else member.absent + 1
        begun = {key: member for key, member in self._members.items() if member.begun}
        done = self._shelf.has(address for member in begun.values() for address in member.calls)
        outcomes = []
        for key, member in begun.items():
            for address in list(member.calls):
                outcome = None
                if address in done:
                    outcome = Outcome(address=address, state="done")
                elif self._attempts(address) > member.attempts.get(address, 0):
                    outcome = Outcome(
                        address=address, state="failed", message=self._failures[address].message
                    )
                elif member.absent >= ABSENCES:
                    logs = self._folder / key.partition("/")[0]
                    message = f"its job must live on, but it is gone; see {logs}."
                    outcome = Outcome(address=address, state="lost", message=message)
                if outcome is not None:
                    outcomes.append(outcome)
                    del member.calls[address]
            if not member.calls:
                del self._members[key]
        return outcomes

    def _attempts(self, address: str) -> int:
        """So often had a call failed when the records were last read."""
        return self._failures[address].attempts if address in self._failures else 0
