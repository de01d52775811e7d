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
from contextlib import ExitStack
from dataclasses import dataclass, field

from ..errors import WorkError
from ..store.address import digest
from ..store.claims import hold, read_claims
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
# The folder of an array in which coordinators that wait for it have claims.
CLAIMS = "waiting"
# Why a job is pending that no node will ever take.
NEVER = frozenset({"PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints"})


@dataclass(slots=True, kw_only=True)
class Member:
    """
    One job of an array.

    Parameters
    ----------
    calls : dict of str to Call
        Those that have not ended, by address.
    needs : str
        What each of them needs, in words.
    attempts : dict of str to int
        Failures before, by address.
    begun : bool
        Whether it has ever run.
    absent : int
        So many questions ago did Slurm last have it.
    """

    calls: dict[str, Call]
    needs: str
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
        self._claims, self._claimed = ExitStack(), set[str]()
        self._adopted = self._adoptable()

    def submit(self, calls: Sequence[Call], resources: Resources) -> None:
        """Take calls; those that a job of an earlier coordinator still has are left to it."""
        check_calls(calls)
        for call in calls:
            key = self._adopted.pop(call["address"], None)
            if key is None:
                self._waiting.setdefault(resources, deque()).append(call)
            else:
                member = self._members.setdefault(key, Member(calls={}, needs=resources.sentence))
                member.calls[call["address"]] = call
                member.attempts[call["address"]] = self._attempts(call["address"])
                self._claim(key.partition("/")[0])
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
        """Cancel all jobs of calls that have not ended, but those that another coordinator waits for."""
        self._waiting.clear()
        tokens = sorted({key.partition("/")[0] for key in self._members})
        self._members.clear()
        self._claims.close()
        for token in tokens:
            if not read_claims(self._folder / token / CLAIMS):
                name = f"--name={self._name}-{token}"
                subprocess.run(["scancel", "--me", name], capture_output=True, check=False)

    def _claim(self, token: str) -> None:
        """Tell other coordinators that this one waits for the jobs of an array."""
        if token not in self._claimed:
            folder = self._folder / token / CLAIMS
            folder.mkdir(exist_ok=True)
            self._claims.enter_context(hold(folder / secrets.token_hex(4)))
            self._claimed.add(token)

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
        self._claim(token)
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
            self._members[f"{token}/{number}"] = Member(
                calls=addresses, needs=resources.sentence, attempts=attempts
            )

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
        """
        States of the jobs of this store that Slurm has, by array and number; None without an answer.

        Raises if one of them will never run.
        """
        question = ["squeue", "--noheader", "--array", "--me", "--format=%i %T %j %r"]
        answer = subprocess.run(question, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            return None
        states = {}
        for line in answer.stdout.splitlines():
            job, state, name, reason = line.split(maxsplit=3)
            if name.startswith(f"{self._name}-"):
                states[key := f"{name.rpartition('-')[2]}/{job.partition('_')[2] or 0}"] = state
                if state == "PENDING" and reason in NEVER and key in self._members:
                    raise WorkError(
                        f"a call must fit a node of Slurm's partition, but job {job} would wait for ever "
                        f"({reason}): it needs {self._members[key].needs}."
                    )
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
