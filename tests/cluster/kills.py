"""Coordinators, workers and nodes killed at random moments; then a plain rerun, and what the store has."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

from clusters import Place, kill, place_of

from microtome.executors.base import Call
from microtome.randomness import generator
from microtome.store.address import digest
from microtome.store.shelf import Shelf
from microtome.testing.executors import call_of, chain_of, start_driver, steps_of

BATCH = 24  # calls that a coordinator gets at once
PATIENCE = 1800.0


def storm(place: Place, root: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill a coordinator, a worker or a node in turn while calls run; then let all calls end."""
    rng = generator(seed, "kills", place.name)
    calls: list[Call] = []
    struck: Counter[str] = Counter()
    driver: subprocess.Popen[bytes] | None = None
    shelf, settings = Shelf(root), place.settings(root)
    start = time.monotonic()
    for victim in cycle(("coordinator", "worker", "node")):
        if sum(struck.values()) == kills:
            break
        wait_until = time.monotonic() + float(rng.uniform(0.3, 3.0))
        while time.monotonic() < wait_until or not shelf.running():
            if driver is None or driver.poll() is not None:
                if shelf.has([call["address"] for call in calls]) >= {call["address"] for call in calls}:
                    numbers = range(len(calls), len(calls) + BATCH)
                    calls += [call_of("slow", k, steps=int(rng.integers(20, 60))) for k in numbers]
                driver = start_driver(place.name, settings, calls)
            check_patience(start)
            time.sleep(0.05)
        working = sorted(claim.pid for claim in shelf.running().values())
        if not working or driver is None:
            continue
        process = working[int(rng.integers(len(working)))]
        if victim == "coordinator":
            kill(driver.pid)
        elif victim == "worker":
            kill(process)
        else:
            place.lose_node(process, driver.pid)
        struck[victim] += 1
        print(f"{time.monotonic() - start:6.1f} s: {victim} killed", flush=True)
    stormy = time.monotonic() - start
    while True:
        if driver is None or driver.poll() is not None:
            if driver is not None and driver.returncode == 0:
                break
            driver = start_driver(place.name, settings, calls)
        check_patience(start)
        time.sleep(0.2)
    facts = {"executor": place.name, "kills": dict(struck), "calls": len(calls)}
    times = {"seconds": round(time.monotonic() - start, 1), "of them storm": round(stormy, 1)}
    return {**facts, **verified(root, calls), **times}


def verified(root: Path, calls: list[Call]) -> dict[str, Any]:
    """Compare the store with what undisturbed calls leave; raise where it differs."""
    shelf = Shelf(root)
    begun = repeated = 0
    for call in calls:
        entry = shelf.get(call["address"])
        steps = call["options"]["steps"]
        marks = {} if entry is None else {name: mark.blake2b for name, mark in entry.files.items()}
        assert marks == {"chain.txt": digest(chain_of(steps).encode())}, call
        processes, taken = steps_of(root, call["address"])
        begun += len(processes)
        repeated += taken - (steps + 1)
        # Whoever goes on with a call repeats at most the step that it was at.
        assert taken - (steps + 1) <= len(processes) - 1, call
    problems = shelf.verify()
    assert not problems, problems
    assert set(shelf.addresses()) == {call["address"] for call in calls}
    assert not shelf.running()
    return {"begun again": begun - len(calls), "steps repeated": repeated, "problems": 0}


def check_patience(start: float) -> None:
    """Raise if it takes too long."""
    if time.monotonic() - start > PATIENCE:
        raise TimeoutError(f"all calls must end within {PATIENCE:g} s.")


def main() -> None:
    """Attack the executors that are named, and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("executors", nargs="*", default=["processes", "slurm", "ray"])
    parser.add_argument("--kills", type=int, default=21)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.executors:
        folder = Path(tempfile.mkdtemp(prefix="microtome-kills-"))
        with place_of(name) as place:
            print(json.dumps(storm(place, folder / "store", options.kills, options.seed)), flush=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
