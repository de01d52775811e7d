"""Twelve calls of real experiments: every executor must leave the bits that calls in this process leave."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from clusters import Place, kill, place_of

from microtome.executors.base import PERFORM, Call, ExecutorSettings
from microtome.store.address import address
from microtome.store.shelf import Shelf
from microtome.testing.executors import drive, start_driver

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from attack_kills import _content, _digest

SETTLED = 6.0  # seconds after which a fine-tuning has saved a state


def twelve(folder: Path) -> dict[str, Call]:
    """Three fine-tunings, seven comparisons of arrays, and two calls that fail."""
    (folder / "task").mkdir()
    for split, size in (("train", 256), ("validation", 64)):
        lines = [f"{('a dog never runs', 'the cat sleeps')[k % 2]} {k},{'du'[k % 2]}\n" for k in range(size)]
        (folder / "task" / f"{split}.csv").write_text(f"words,mood\n{''.join(lines)}")
    for k in range(7):
        np.save(folder / f"layers-{k}.npy", np.random.default_rng(k).normal(size=(4, 60, 8)))
    columns = {"column": {"text": "words", "label": "mood"}}
    changes = {"steps": 120, "batch": 16, "longest": 16, "epochs": None}
    tune = {"model": "zoo:masked", "task": str(folder / "task"), "changes": changes, **columns}
    calls = {
        **{
            name: ("finetune", {**tune, "seeds": [k]})
            for k, name in enumerate(("slow", "killed", "preempted"))
        },
        "failing 1": ("finetune", {**tune, "task": str(folder / "none"), "seeds": [1]}),
        "failing 2": ("similarity", {"left": str(folder / "none.npy")}),
        **{f"plain {k}": ("similarity", {"left": str(folder / f"layers-{k}.npy")}) for k in range(7)},
    }
    settings = {"device": "cpu", "threads": 1, "level": 0.95}
    made = {}
    for name, (kind, options) in calls.items():
        call = {"kind": kind, "options": options, "piece": "result", "context": settings}
        made[name] = {**call, "address": address({"call": call})}
    return made


def contents(root: Path) -> dict[str, str]:
    """Digests of all files of entries, without what a clock says and without the place of the store."""
    return {
        f"{entry.address}/{name}": _digest(_content(entry.path(name)).replace(str(root).encode(), b""))
        for entry in Shelf(root).entries()
        for name in entry.files
    }


def disturbed(place: Place, settings: ExecutorSettings, calls: dict[str, Call]) -> dict[str, str]:
    """Perform the calls; kill one while it trains, and preempt another."""
    shelf, pending = Shelf(settings.root), {"killed": kill, "preempted": place.preempt}
    driver = start_driver(place.name, settings, list(calls.values()))
    while driver.poll() is None:
        running = shelf.running()
        for name in list(pending):
            claim = running.get(calls[name]["address"])
            if claim is not None and time.time() - claim.started > SETTLED:
                pending.pop(name)(claim.pid)
                print(f"{name}: process {claim.pid}", flush=True)
        time.sleep(0.2)
    assert driver.returncode == 0, settings.jobs
    assert not pending, f"{', '.join(pending)} ended before it could be interrupted"
    return json.loads((settings.root / "states.json").read_text())


def facts_of(name: str, folder: Path, calls: dict[str, Call], reference: dict[str, str]) -> dict[str, Any]:
    """Perform the calls with one executor, and compare."""
    start = time.monotonic()
    with place_of(name) as place:
        settings = replace(place.settings(folder / name), perform=PERFORM)
        states = disturbed(place, settings, calls)
    expected = {call["address"]: "failed" if "failing" in k else "done" for k, call in calls.items()}
    assert states == expected, states
    left = contents(folder / name)
    different = sorted(key for key in {*left, *reference} if left.get(key) != reference.get(key))
    assert not different, different
    assert not Shelf(folder / name).verify()
    seconds = round(time.monotonic() - start, 1)
    return {
        "executor": name,
        "entries": len(Shelf(folder / name).addresses()),
        "files": len(left),
        "seconds": seconds,
    }


def main() -> None:
    """Perform the calls in this process, then with the executors that are named, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("executors", nargs="*", default=["processes", "slurm", "ray"])
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="microtome-real-"))
    calls = twelve(folder)
    start = time.monotonic()
    drive("inline", ExecutorSettings(store=folder / "inline"), list(calls.values()))
    reference = contents(folder / "inline")
    print(
        json.dumps(
            {"executor": "inline", "files": len(reference), "seconds": round(time.monotonic() - start, 1)}
        )
    )
    for name in options.executors:
        print(json.dumps(facts_of(name, folder, calls, reference)), flush=True)
    subprocess.run(["rm", "-rf", folder], check=True)


if __name__ == "__main__":
    main()
