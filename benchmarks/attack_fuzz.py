"""Files that are changed at random: does every reader take them, or refuse them in one sentence?

A case is a number: it says which reader reads, which of its files is changed, and how. Several processes go
through the numbers side by side; where one dies, the case it was at is a crash, and another goes on after it.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attack_child import address_space, load_modules
from attack_mutations import mutated
from attack_readers import CURRENT, READERS, Reader

from microtome.randomness import generator

SECONDS = 20  # of processor time that a case may take; a case that waits ends after ten times as many
MEMORY = 2 << 30
_RENEWED = 3000  # cases after which a process is replaced by a fresh one


@dataclass(slots=True, kw_only=True)
class Fuzzed:
    """
    What came of the cases.

    Parameters
    ----------
    counts : dict of str to dict of str to int
        By reader: cases, and how many were read, refused and crashed.
    crashes : list of dict
        Reader, number of the case, file, and what happened.
    skipped : dict of str to str
        Readers that were left out, and why.
    """

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    crashes: list[dict[str, Any]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def fuzz(
    good: Path, place: Path, *, seconds: float, seed: int, processes: int, only: str = "", cases: int = 0
) -> Fuzzed:
    """
    Read changed files for some time.

    Parameters
    ----------
    good : Path
        The samples.
    place : Path
        Where files are changed; `crashes` there keeps those that no reader may fail at.
    seconds : float
    seed : int
    processes : int
    only : str
        A part of the names of readers.
    cases : int
        After how many to end, where that is earlier.

    Returns
    -------
    Fuzzed
    """
    done = Fuzzed()
    begun = time.monotonic()
    readers = _prepared(good, place, only, done)
    slots = [reader for reader in readers for _ in range(reader.often)]
    workers: dict[int, _Worker] = {}
    for number in range(processes):
        worker = _Worker(number=number, next=number, folder=place / f"worker-{number}")
        worker.begin(slots, seed, processes, begun + seconds, cases)
        workers[worker.process] = worker
    while workers:
        process, status = os.wait()
        worker = workers.pop(process, None)
        if worker is None:
            continue
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            crash = worker.interrupted(slots, code)
            done.crashes.append(crash)
            _keep(crash, slots, good, place, seed)
        worker.collect(done)
        if time.monotonic() < begun + seconds and not worker.finished:
            worker.begin(slots, seed, processes, begun + seconds, cases)
            workers[worker.process] = worker
    done.seconds = time.monotonic() - begun
    return done


def _prepared(good: Path, place: Path, only: str, done: Fuzzed) -> list[Reader]:
    """Make the samples of every reader, and read them once as they are."""
    readers = []
    for number, reader in enumerate(READERS):
        if only not in reader.name:
            continue
        if reader.missing:
            done.skipped[reader.name] = f"{', '.join(reader.missing)} is not installed"
            continue
        folder = place / "samples" / str(number) / "it"
        try:
            reader.make(good, folder)
            CURRENT.clear()
            reader.read(folder)
        except ImportError as error:
            done.skipped[reader.name] = str(error)
            continue
        readers.append(reader)
        done.counts[reader.name] = {"cases": 0, "read": 0, "refused": 0, "crashed": 0}
    return readers


@dataclass(slots=True, kw_only=True)
class _Worker:
    """A process that goes through its share of the numbers; this side of it."""

    number: int
    next: int
    folder: Path
    process: int = 0
    finished: bool = False

    def begin(self, slots: Sequence[Reader], seed: int, step: int, until: float, cases: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("at", "log"):
            (self.folder / name).write_bytes(b"")
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process = os.fork()
        if self.process == 0:
            try:
                _loop(self, slots, seed, step, until, cases)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)

    def interrupted(self, slots: Sequence[Reader], code: int) -> dict[str, Any]:
        """The crash of the case that a process died at."""
        number, _, file = (self.folder / "at").read_text().partition(" ")
        slow = -code in (signal.SIGPROF, signal.SIGALRM)
        what = "it took more than 20 seconds" if slow else f"it died of signal {-code}"
        reader = slots[int(number) % len(slots)]
        return {"reader": reader.name, "case": int(number), "file": file, "problem": what}

    def collect(self, done: Fuzzed) -> None:
        """Take over what the process has written down."""
        for line in (self.folder / "log").read_text().splitlines():
            told = json.loads(line)
            if "next" in told:
                self.next, self.finished = told["next"], told["finished"]
            elif "problem" in told:
                done.crashes.append(told)
            for name, counts in told.get("counts", {}).items():
                for key, value in counts.items():
                    done.counts[name][key] += value


def _loop(worker: _Worker, slots: Sequence[Reader], seed: int, step: int, until: float, cases: int) -> None:
    """Go through numbers, in a process of its own, and write down what came of them."""
    here = worker.folder.parent
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    limit = address_space() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    scratch = worker.folder / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(here / "samples", scratch, symlinks=True)
    numbers = {reader.name: str(number) for number, reader in enumerate(READERS)}
    log = (worker.folder / "log").open("a")
    at = (worker.folder / "at").open("w")
    number, first = worker.next, worker.next
    counts: dict[str, Counter[str]] = {}

    def flush(following: int, finished: bool) -> None:
        log.write(json.dumps({"next": following, "finished": finished, "counts": counts}) + "\n")
        log.flush()
        counts.clear()

    while time.monotonic() < until and number - first < _RENEWED * step and not (cases and number >= cases):
        reader = slots[number % len(slots)]
        folder = scratch / numbers[reader.name] / "it"
        file, content, original = draw(reader, folder, number, seed)
        at.seek(0)
        at.truncate()
        at.write(f"{number} {file.relative_to(folder)}")
        at.flush()
        # Written down before, so that a case at which the process dies is counted too.
        log.write(
            json.dumps({"next": number + step, "finished": False, "counts": {reader.name: {"cases": 1}}})
            + "\n"
        )
        log.flush()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(10 * SECONDS)
        outcome, problem = judged(reader, folder, file, content)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        file.write_bytes(original)
        counts.setdefault(reader.name, Counter())[outcome] += 1
        if problem:
            case = {
                "reader": reader.name,
                "case": number,
                "file": str(file.relative_to(folder)),
                "problem": problem,
            }
            log.write(json.dumps(case) + "\n")
            kept = worker.folder.parent / "crashes"
            kept.mkdir(exist_ok=True)
            (kept / f"{number}-{file.name}").write_bytes(content)
        number += step
        flush(number, False)
    flush(number, time.monotonic() >= until or bool(cases and number >= cases))


def draw(reader: Reader, folder: Path, number: int, seed: int) -> tuple[Path, bytes, bytes]:
    """The file that a case changes, with its new and its old content."""
    rng = generator(seed, "attack", "reader", str(number))
    files = sorted({path for pattern in reader.files for path in folder.glob(pattern) if path.is_file()})
    file = files[int(rng.integers(len(files)))]
    original = file.read_bytes()
    return file, mutated(file.name, original, rng), original


def judged(reader: Reader, folder: Path, file: Path, content: bytes) -> tuple[str, str]:
    """Let a reader read a changed file: "read", "refused" or "crashed", and what is wrong."""
    from microtome.errors import MicrotomeError

    file.write_bytes(content)
    CURRENT["folder"] = file.relative_to(folder).parts[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(folder)
    except MicrotomeError as error:
        sentence = str(error).strip()
        if "\n" in sentence or not sentence.endswith((".", "?")):
            return "crashed", f"the error is not one sentence: {sentence[-300:]!r}"
        return "refused", ""
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in place if "/microtome/" in frame.filename]
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"
        return "crashed", f"{type(error).__name__} at {where}: {str(error)[:200]}"
    return "read", ""


def _keep(crash: dict[str, Any], slots: Sequence[Reader], good: Path, place: Path, seed: int) -> None:
    """Write the file at which a process died."""
    reader = slots[crash["case"] % len(slots)]
    folder = place / "samples" / str(READERS.index(reader)) / "it"
    file, content, _ = draw(reader, folder, crash["case"], seed)
    (place / "crashes").mkdir(exist_ok=True)
    (place / "crashes" / f"{crash['case']}-{file.name}").write_bytes(content)


def warm(good: Path) -> None:
    """Import what the verbs of the samples imported, where a list of it is there."""
    names = good.parent / "modules.txt"
    if names.is_file():
        load_modules(sorted(names.read_text().split()))
