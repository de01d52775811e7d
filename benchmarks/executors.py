"""What executors cost: seconds a call, calls per second, two workers against one, and 100,000 calls."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from microtome.context import Context
from microtome.executors.base import ExecutorSettings, Resources
from microtome.executors.table import open_executor
from microtome.store.address import address, digest
from microtome.store.shelf import Shelf

# Hashes of a call that keeps a CPU busy, about a third of a second.
HASHES = 300_000


def perform(call: Mapping[str, Any], context: Context) -> None:
    """Do nothing, compute for a while, or leave a small entry in the store."""
    if call["kind"] == "meet":  # until as many processes are here as there are workers
        place = Path(call["place"])
        (place / str(os.getpid())).touch()
        while len(os.listdir(place)) < call["workers"]:
            time.sleep(0.01)
    if call["kind"] == "busy":
        content = b""
        for _ in range(HASHES):
            content = digest(content).encode()
    if call["kind"] == "entry":
        specification = {"kind": call["kind"], "number": call["number"]}
        with Shelf(context.store).work(
            call["address"], kind="benchmark", specification=specification
        ) as work:
            if work.entry is None:
                (work.folder / "result.json").write_text(json.dumps({"number": call["number"]}))
                work.finish()


def calls_of(kind: str, count: int) -> list[dict[str, Any]]:
    """Calls of one kind, each with its address."""
    return [
        {"kind": kind, "number": number, "address": address({"kind": kind, "number": number})}
        for number in range(count)
    ]


def seconds_of(name: str, kind: str, count: int, root: Path, workers: int | None = None) -> float:
    """Seconds from the first call to the last outcome, once all workers have started."""
    settings = ExecutorSettings(store=root, workers=workers, perform=f"{Path(__file__).stem}:perform")
    meeting = Path(tempfile.mkdtemp(prefix="microtome-meeting-"))
    with open_executor(name, settings) as executor:
        count_here = workers or 1
        meet = [
            {**call, "place": str(meeting), "workers": count_here} for call in calls_of("meet", count_here)
        ]
        for calls in (meet, calls_of(kind, count)):
            start = time.perf_counter()
            executor.submit(calls, Resources())
            left = len(calls)
            while left:
                outcomes = executor.outcomes(60.0)
                failed = [outcome.message for outcome in outcomes if outcome.state != "done"]
                assert not failed, failed[0]
                left -= len(outcomes)
        seconds = time.perf_counter() - start
    shutil.rmtree(meeting)
    return seconds


def overhead(root: Path) -> dict[str, Any]:
    """Milliseconds a call that does nothing, and a call that leaves an entry."""
    inline = [1000 * seconds_of("inline", "nothing", 200, root) / 200 for _ in range(5)]
    entries = 1000 * seconds_of("inline", "entry", 200, root / "entries") / 200
    return {
        "inline, ms a call": round(statistics.median(inline), 3),
        "inline with an entry, ms a call": round(entries, 2),
    }


def scaling(root: Path, rounds: int = 5) -> dict[str, Any]:
    """Two workers against one on calls that keep a CPU busy, in turns."""
    ratios = [
        seconds_of("processes", "busy", 12, root, 1) / seconds_of("processes", "busy", 12, root, 2)
        for _ in range(rounds)
    ]
    return {
        "two workers against one": round(statistics.median(ratios), 2),
        "each": [round(r, 2) for r in ratios],
    }


def simulation(root: Path, count: int, workers: int) -> dict[str, Any]:
    """Calls per second of the coordinator, of coordinator with store, and of looks into a large store."""
    nothing = seconds_of("processes", "nothing", count, root / "nothing", workers)
    place = root / "entries"
    entries = seconds_of("processes", "entry", count, place, workers)
    shelf, names = Shelf(place), [call["address"] for call in calls_of("entry", count)]
    looks = {}
    for asked in (1_000, 10_000, count):
        start = time.perf_counter()
        assert len(shelf.has(names[:asked])) == min(asked, count)
        looks[f"look for {min(asked, count)} entries, s"] = round(time.perf_counter() - start, 3)
    start = time.perf_counter()
    again = seconds_of("processes", "entry", min(count, 10_000), place, workers)
    return {
        "calls": count,
        "workers": workers,
        "calls per second": round(count / nothing),
        "entries per second": round(count / entries),
        "seconds": [round(nothing, 1), round(entries, 1)],
        "calls per second that are done already": round(min(count, 10_000) / again),
        **looks,
        "bytes of the store": sum(f.stat().st_size for f in (place / "entries").rglob("*") if f.is_file()),
    }


def main() -> None:
    """Measure, and print a line of JSON for each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="*", default=["overhead", "scaling", "simulation"])
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    for question in options.questions:
        root = Path(tempfile.mkdtemp(prefix="microtome-executors-"))
        load = os.getloadavg()[0]
        if question == "simulation":
            facts = simulation(root, options.calls, options.workers)
        else:
            facts = {"overhead": overhead, "scaling": scaling}[question](root)
        print(json.dumps({question: facts, "load before": round(load, 1)}), flush=True)
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
