"""Contract tests for executors: twelve calls, some of which fail, are killed, are preempted or are slow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ..context import Context
from ..errors import InputError
from ..executors.base import Call, ExecutorSettings, Resources
from ..executors.table import open_executor
from ..store.address import address, digest
from ..store.layout import StoreLayout
from ..store.shelf import Shelf

PERFORM = f"{__name__}:perform"
DEFAULTS = Resources()
STEP = 0.05  # seconds of a step of a slow call
LOSSES = 20  # so often is a lost call given again
PATIENCE = 600.0  # seconds until the twelve calls must have ended
Interruption = Callable[[int], None]  # of the process that performs a call
# Processes in which a call has broken the GPU: there, CUDA fails for good.
_BROKEN: set[int] = set()


def call_of(kind: str, number: int, *, steps: int = 0) -> dict[str, Any]:
    """
    Make a call for `perform`.

    Parameters
    ----------
    kind : {"plain", "failing", "slow", "killed", "preempted", "breaking"}
    number : int
        Distinguishes it from others of its kind.
    steps : int
        How many steps of `STEP` seconds it takes.

    Returns
    -------
    dict
    """
    options = {"number": number, "steps": steps}
    call = {"kind": kind, "options": options, "piece": "result", "context": {}}
    return {**call, "address": address({"call": call})}


def twelve_calls(steps: int = 40) -> list[dict[str, Any]]:
    """List the calls of the contract: seven plain ones, two that fail, and three of some steps."""
    long = [call_of(kind, 0, steps=steps) for kind in ("slow", "killed", "preempted")]
    return [*long, *(call_of("failing", k) for k in range(2)), *(call_of("plain", k) for k in range(7))]


def perform(call: Mapping[str, Any], context: Context) -> None:
    """
    Perform a call of `call_of`: a chain of hashes, which an interrupted call resumes.

    Parameters
    ----------
    call : mapping
    context : Context
    """
    options = call["options"]
    if call["kind"] == "failing":
        raise InputError(f"number must be that of a call that succeeds, but got {options['number']}.")
    if call["kind"] == "breaking":
        _BROKEN.add(os.getpid())
    if os.getpid() in _BROKEN:
        import torch

        raise torch.AcceleratorError("CUDA error: device-side assert triggered")
    shelf = Shelf(context.store)
    specification = {key: value for key, value in call.items() if key != "address"}
    with shelf.work(call["address"], kind="contract", specification=specification) as work:
        if work.entry is not None:
            return
        path = work.folder / "chain.txt"
        chain = path.read_text().splitlines() if path.exists() else []
        while len(chain) <= options["steps"]:
            with open(runs_of(shelf.root) / call["address"], "a") as file:
                file.write(f"{os.getpid()} {len(chain)}\n")
            time.sleep(STEP if options["steps"] else 0)
            chain.append(digest("".join(chain[-1:]).encode()))
            fresh = path.with_suffix(".tmp")
            fresh.write_text("".join(f"{line}\n" for line in chain))
            fresh.replace(path)
        work.finish()


def runs_of(root: Path) -> Path:
    """The folder that has a file per call, with a line per step: the process, and the step that it began."""
    folder = root / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def steps_of(root: Path, name: str) -> tuple[list[int], int]:
    """The processes that performed a call, in their order, and the number of steps that they began."""
    file = runs_of(root) / name
    lines = file.read_text().splitlines() if file.exists() else []
    processes = [int(line.split()[0]) for line in lines]
    return [process for process, _ in groupby(processes)], len(processes)


def chain_of(steps: int) -> str:
    """The content of the file that a call of some steps leaves."""
    links = [""]
    for _ in range(steps + 1):
        links.append(digest(links[-1].encode()))
    return "".join(f"{link}\n" for link in links[1:])


def drive(
    name: str, settings: ExecutorSettings, calls: Sequence[Call], resources: Resources = DEFAULTS
) -> dict[str, str]:
    """
    Perform calls, and give those again that are lost: the least that a coordinator does.

    Parameters
    ----------
    name : str
        Of the executor.
    settings : ExecutorSettings
    calls : sequence of mapping
    resources : Resources
        Of each call.

    Returns
    -------
    dict of str to str
        The state of each by address.
    """
    shelf = Shelf(settings.store)
    waiting = {call["address"]: call for call in calls if shelf.look(call["address"]) is None}
    states = {call["address"]: "done" for call in calls if call["address"] not in waiting}
    losses: Counter[str] = Counter()
    with open_executor(name, settings) as executor:
        executor.submit(list(waiting.values()), resources)
        while waiting:
            for outcome in executor.outcomes(10.0):
                losses[outcome.address] += outcome.state == "lost"
                if outcome.state == "lost" and losses[outcome.address] < LOSSES:
                    executor.submit([waiting[outcome.address]], resources)
                else:
                    states[outcome.address] = outcome.state
                    del waiting[outcome.address]
    return states


@dataclass(slots=True, kw_only=True)
class Rehearsal:
    """
    What came of the twelve calls.

    Parameters
    ----------
    states : dict of str to str
        By address.
    entries : dict of str to dict
        Checksums of the files of entries, by address and name.
    runs : dict of str to int
        How often each call was begun that succeeded.
    steps : dict of str to int
        How many steps of it were begun.
    starts : int
        How often the coordinator was started.
    """

    states: dict[str, str] = field(default_factory=dict)
    entries: dict[str, dict[str, str]] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    starts: int = 0


def rehearse(
    name: str,
    settings: ExecutorSettings,
    *,
    calls: Sequence[Call] = (),
    interruptions: Mapping[str, Interruption] | None = None,
    patience: float = PATIENCE,
) -> Rehearsal:
    """
    Let a coordinator of its own process perform calls, interrupt some, and start it again if it ends.

    Parameters
    ----------
    name : str
        Of the executor.
    settings : ExecutorSettings
        `perform` is that of this module.
    calls : sequence of mapping
        By default `twelve_calls`.
    interruptions : mapping of str to callable, optional
        By kind of call, what is done once to the process that performs the first of this kind; by default
        "killed" gets SIGKILL and "preempted" gets SIGTERM.
    patience : float
        Seconds until all must have ended.

    Returns
    -------
    Rehearsal
    """
    calls = calls or twelve_calls()
    store = settings.root
    pending = {"killed": _kill, "preempted": _terminate} if interruptions is None else dict(interruptions)
    deadline = time.monotonic() + patience
    result = Rehearsal(starts=1)
    process, interrupted = start_driver(name, settings, calls), False
    while True:
        for kind in list(pending):
            first = next(call["address"] for call in calls if call["kind"] == kind)
            processes, steps = steps_of(store, first)
            if steps > 1:  # a step is saved
                pending.pop(kind)(processes[-1])
                interrupted = True
        late = time.monotonic() > deadline
        if process.poll() == 0:
            break
        if late or (process.poll() is not None and not interrupted):
            process.terminate()
            process.wait()
            limit = f"end within {patience:g} s" if late else "be driven to their end"
            raise AssertionError(f"all calls must {limit}, see {settings.jobs / 'drive.log'}.")
        if process.poll() is not None:  # the inline executor ends with its call
            process, interrupted = start_driver(name, settings, calls), False
            result.starts += 1
        time.sleep(0.02)
    result.states = json.loads((store / "states.json").read_text())
    for entry in Shelf(store).entries():
        result.entries[entry.address] = {key: mark.blake2b for key, mark in entry.files.items()}
        begun, result.steps[entry.address] = steps_of(store, entry.address)
        result.runs[entry.address] = len(begun)
    return result


def check_executor(name: str, settings: ExecutorSettings, *, steps: int = 40, **rehearsing: Any) -> Rehearsal:
    """
    Raise if an executor does not keep its contract.

    Parameters
    ----------
    name : str
    settings : ExecutorSettings
        With a store that is new.
    steps : int
        Of long calls; they must last until they are interrupted.
    **rehearsing
        See `rehearse`.

    Returns
    -------
    Rehearsal
    """
    from .measures import ContractError

    calls = twelve_calls(steps)
    result = rehearse(name, replace(settings, perform=PERFORM), calls=calls, **rehearsing)
    expected = {c["address"]: "failed" if c["kind"] == "failing" else "done" for c in calls}
    if result.states != expected:
        raise ContractError(f"outcomes of {name} must be {expected}, but got {result.states}.")
    problems = Shelf(settings.root).verify()
    if problems:
        raise ContractError(f"the store must be sound after {name}, but got {problems[0]}")
    for call in calls:
        if call["kind"] == "failing":
            continue
        length = call["options"]["steps"] + 1
        checksum = digest(chain_of(length - 1).encode())
        if result.entries.get(call["address"]) != {"chain.txt": checksum}:
            raise ContractError(
                f"what {name} leaves of {call['kind']} must be what an undisturbed run leaves."
            )
        runs, begun = result.runs[call["address"]], result.steps[call["address"]]
        # A node that is lost cuts off its other calls too. Each costs at most the step that it was at.
        if runs < (2 if call["kind"] in ("killed", "preempted") else 1) or begun - length > runs - 1:
            raise ContractError(
                f"{name} must begin each of {length} steps of {call['kind']} once, and once more where it "
                f"was cut off, but it began {begun} in {runs} runs."
            )
    return result


def start_driver(name: str, settings: ExecutorSettings, calls: Sequence[Call]) -> subprocess.Popen[bytes]:
    """
    Start a process that performs calls with `drive`, and writes their states into the store's folder.

    Parameters
    ----------
    name : str
    settings : ExecutorSettings
    calls : sequence of mapping

    Returns
    -------
    Popen
    """
    order = {"name": name, "settings": asdict(settings), "calls": list(calls)}
    StoreLayout(root=settings.root).make()
    settings.jobs.mkdir(exist_ok=True)
    path = settings.jobs / "drive.json"
    path.write_text(json.dumps(order, default=str))
    with open(settings.jobs / "drive.log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, str(path)],
            stderr=log,
            stdout=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _terminate(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)


def _main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    settings = ExecutorSettings(**order["settings"])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    states = drive(order["name"], settings, order["calls"])
    (settings.root / "states.json").write_text(json.dumps(states))


if __name__ == "__main__":
    _main()
