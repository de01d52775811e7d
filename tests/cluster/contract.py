"""The contract of executors on real clusters: of twelve calls, one is killed, and one is preempted."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clusters import kill, place_of

from microtome.errors import MicrotomeError
from microtome.executors.base import ExecutorSettings, Resources
from microtome.executors.table import open_executor
from microtome.store.shelf import Shelf
from microtome.testing.executors import call_of, check_executor, start_driver, steps_of


def outlast(settings: ExecutorSettings) -> dict[str, Any]:
    """Let a call run longer than its job may: it must be interrupted, requeued and done."""
    call, start = call_of("slow", 0, steps=1400), time.monotonic()
    with open_executor("slurm", settings) as executor:
        executor.submit([call], Resources(minutes=1))
        while not (outcomes := executor.outcomes(60.0)):
            pass
    processes, steps = steps_of(settings.root, call["address"])
    assert [outcome.state for outcome in outcomes] == ["done"], outcomes
    assert len(processes) > 1
    assert steps <= 1401 + len(processes) - 1
    seconds = round(time.monotonic() - start, 1)
    return {"executor": "slurm", "time limit, runs": len(processes), "steps": steps, "seconds": seconds}


def refuse(name: str, settings: ExecutorSettings) -> None:
    """Give a call that fits nowhere: it must be refused, in a sentence that says what it needs."""
    with open_executor(name, replace(settings, workers=None)) as executor:

        def give() -> None:
            executor.submit([call_of("plain", 0)], Resources(cpus=4096))
            executor.outcomes(60.0)

        with pytest.raises(MicrotomeError, match=r"must fit .*4096 CPUs, 0 GPUs and 4GB"):
            give()


def stop_one_of_two(settings: ExecutorSettings) -> dict[str, Any]:
    """Stop one of two coordinators of the same jobs, which go on; then stop the other, which ends them."""
    calls, shelf, jobs = (
        [call_of("slow", k, steps=4000) for k in range(2)],
        Shelf(settings.root),
        settings.jobs,
    )
    shelf.fail(calls[0]["address"], message="it failed before.", kind="InputError")
    coordinators = []
    for count in (1, 2):
        coordinators.append(start_driver("slurm", settings, calls))
        while not shelf.running() or len([*jobs.glob("slurm/*/waiting/*")]) < count:
            time.sleep(0.2)
    before = shelf.running()
    for coordinator, left in zip(coordinators, (before, {}), strict=True):
        coordinator.terminate()
        coordinator.wait(60)
        time.sleep(15)
        running = {address: claim.pid for address, claim in shelf.running().items()}
        assert running == {address: claim.pid for address, claim in left.items()}, running
    assert not shelf.addresses()
    return {"executor": "slurm", "stopped": "one of two coordinators", "jobs that went on": len(before)}


def main() -> None:
    """Check the executors that are named, and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("executors", nargs="*", default=["processes", "slurm", "ray"])
    for name in parser.parse_args().executors:
        folder = Path(tempfile.mkdtemp(prefix="microtome-contract-"))
        with place_of(name) as place:
            start = time.monotonic()
            interruptions = {"killed": kill, "preempted": place.preempt}
            result = check_executor(
                name, place.settings(folder / "store"), interruptions=interruptions, steps=200
            )
            refuse(name, place.settings(folder / "refused"))
            if name == "slurm":
                print(json.dumps(stop_one_of_two(place.settings(folder / "two"))), flush=True)
                print(json.dumps(outlast(place.settings(folder / "limit"))), flush=True)
        states = list(result.states.values())
        facts = {"executor": name, "seconds": round(time.monotonic() - start, 1)}
        facts |= {state: states.count(state) for state in ("done", "failed")}
        print(json.dumps({**facts, "performed": sum(result.runs.values()), "entries": len(result.entries)}))
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
