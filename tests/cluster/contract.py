"""The contract of executors on real clusters: of twelve calls, one is killed, and one is preempted."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from clusters import kill, place_of

from microtome.executors.base import ExecutorSettings, Resources
from microtome.executors.table import open_executor
from microtome.testing.executors import call_of, check_executor, steps_of


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
            if name == "slurm":
                print(json.dumps(outlast(place.settings(folder / "limit"))), flush=True)
        states = list(result.states.values())
        facts = {"executor": name, "seconds": round(time.monotonic() - start, 1)}
        facts |= {state: states.count(state) for state in ("done", "failed")}
        print(json.dumps({**facts, "performed": sum(result.runs.values()), "entries": len(result.entries)}))
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
