"""A study through its command, while coordinators, workers and nodes are killed; then a plain rerun."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from clusters import Place, kill, place_of
from real import contents

from microtome.experiments.calls import PIECES_FILE
from microtome.randomness import generator
from microtome.store.shelf import Shelf

PATIENCE = 3600.0
LOOK = 0.05  # seconds between looks at claims
LAG = 5.0  # seconds in which workers of a killed coordinator or node may begin something, and end
STUDY = """
name = "storm"
device = "cpu"

[models]
masked = "zoo:masked"

[tasks]
moods = { task = "task", column = { text = "words", label = "mood" }, examples = 256 }

[finetune]
seeds = [1, 2, 3]
set = { steps = 200, batch = 16, longest = 16 }

[experiments.truncate]
arms = ["untuned", "tuned"]
head_seeds = [0]

[experiments.maps]
verb = "compare"
models = ["{model}", "{tuned}"]
on = "{text}"
rows = "mean"

[experiments.similarity]
left = "LAYERS"
"""


def make_study(folder: Path) -> Path:
    """Write a study with its task and an array."""
    (folder / "task").mkdir()
    for split, size in (("train", 256), ("validation", 64)):
        lines = [f"{('a dog never runs', 'the cat sleeps')[k % 2]} {k},{'du'[k % 2]}\n" for k in range(size)]
        (folder / "task" / f"{split}.csv").write_text(f"words,mood\n{''.join(lines)}")
    np.save(folder / "layers.npy", np.random.default_rng(0).normal(size=(4, 60, 8)))
    (folder / "study.toml").write_text(STUDY.replace("LAYERS", str(folder / "layers.npy")))
    return folder / "study.toml"


def start(study: Path, root: Path, on: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start `microtome study run`; its last output is beside the store."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    command = ["study", "run", str(study), "--store", str(root), "--on", on, "--json", "--quiet", *words]
    path = os.pathsep.join(filter(None, sys.path))
    with open(root.with_suffix(".json"), "wb") as answer, open(root.with_suffix(".log"), "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "microtome", *command],
            stdout=answer,
            stderr=log,
            env={**os.environ, "PYTHONPATH": path},
        )


def complete(study: Path, root: Path, on: str, **options: Any) -> dict[str, Any]:
    """Run a study to its end, and read what it says."""
    assert start(study, root, on, **options).wait(PATIENCE) == 0, root.with_suffix(".log")
    return json.loads(root.with_suffix(".json").read_bytes())


class Watch:
    """What is seen of a store from outside: who began what when, and which folders hold finished work."""

    def __init__(self, root: Path) -> None:
        self.shelf = Shelf(root)
        self.begun: dict[str, dict[tuple[int, float], float]] = {}
        self.finished: dict[str, int] = {}
        self.kills: list[tuple[float, float]] = []

    def look(self) -> list[int]:
        """Look again; the processes that work on something."""
        running = self.shelf.running()
        # Who has waited for a claim finds the entry, and begins nothing.
        for address in running.keys() - self.shelf.has(running):
            sign = running[address].pid, running[address].started
            self.begun.setdefault(address, {}).setdefault(sign, time.monotonic())
        for address in set(self.shelf.addresses()) - self.finished.keys():
            self.finished[address] = self.folder_of(address)
        return sorted({claim.pid for claim in running.values()})

    def folder_of(self, address: str) -> int:
        """The number of the folder of an entry, which another one in its place would not have."""
        return (self.shelf.root / "entries" / address[:2] / address).stat().st_ino

    def begun_again(self) -> int:
        """How often finished work was begun more than once; raise where nothing had cut it off."""
        self.look()
        assert {address: self.folder_of(address) for address in self.finished} == self.finished
        again = 0
        for address in self.finished.keys() & self.begun.keys():
            times = list(self.begun[address].values())
            for before, after in pairwise(times):
                cut_off = any(before <= end + LAG and start <= after for start, end in self.kills)
                assert cut_off, (address, times, self.kills)
            again += len(times) - 1
        return again


def storm(place: Place, study: Path, folder: Path, reference: dict[str, str], kills: int) -> dict[str, Any]:
    """Kill a coordinator, a worker or a node in turn, in as many runs of the study as it takes."""
    rng, victims = generator(0, "study", place.name), cycle(("coordinator", "worker", "node"))
    struck: Counter[str] = Counter()
    begun, stores, again, starts = time.monotonic(), 0, 0, 0
    while sum(struck.values()) < kills:
        root = folder / f"{place.name}-{stores}"
        watch, stores = Watch(root), stores + 1
        driver, starts = start(study, root, place.name, **place.options), starts + 1
        moment = time.monotonic() + float(rng.uniform(1.0, 10.0))
        while True:
            assert time.monotonic() - begun < PATIENCE, root
            working = watch.look()
            if driver.poll() is not None:
                if driver.returncode == 0:
                    break
                driver, starts = start(study, root, place.name, **place.options), starts + 1
            elif working and time.monotonic() > moment and sum(struck.values()) < kills:
                victim, process = next(victims), working[int(rng.integers(len(working)))]
                struck_at = time.monotonic()
                if victim == "coordinator":
                    kill(driver.pid)
                elif victim == "worker":
                    kill(process)
                else:
                    place.lose_node(process, driver.pid)
                watch.kills.append((struck_at, time.monotonic()))
                struck[victim] += 1
                print(f"{time.monotonic() - begun:6.1f} s: {victim} killed", flush=True)
                moment = time.monotonic() + float(rng.uniform(1.0, 10.0))
            time.sleep(LOOK)
        outcome = complete(study, root, place.name, **place.options)
        assert (outcome["done"], outcome["failures"], outcome["left_out"]) == (0, {}, []), outcome
        again += watch.begun_again()
        compare(results_of(root), reference)
        assert not watch.shelf.verify()
        assert not watch.shelf.failures()
    facts = {"executor": place.name, "kills": dict(struck), "stores": stores, "coordinators": starts}
    seconds = round(time.monotonic() - begun, 1)
    return {**facts, "files": len(reference), "begun again": again, "seconds": seconds}


def results_of(root: Path) -> dict[str, str]:
    """Digests of all files of entries, but of lists of parts, into which only several workers divide jobs."""
    return {key: digest for key, digest in contents(root).items() if not key.endswith(f"/{PIECES_FILE}")}


def compare(left: dict[str, str], reference: dict[str, str]) -> None:
    """Raise if entries have other files than those of an undisturbed run."""
    different = sorted(key for key in {*left, *reference} if left.get(key) != reference.get(key))
    assert not different, different


def main() -> None:
    """Run the study in this process, then disturbed with the executors that are named, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("executors", nargs="*", default=["processes", "slurm", "ray"])
    parser.add_argument("--kills", type=int, default=12)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="microtome-study-"))
    study, begun = make_study(folder), time.monotonic()
    results = complete(study, folder / "inline", "inline")["done"]
    reference = results_of(folder / "inline")
    facts = {"executor": "inline", "results": results, "files": len(reference)}
    print(json.dumps({**facts, "seconds": round(time.monotonic() - begun, 1)}), flush=True)
    for name in options.executors:
        with place_of(name) as place:
            line = storm(place, study, folder, reference, options.kills)
        print(json.dumps({**line, "load": [round(load, 1) for load in os.getloadavg()]}), flush=True)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
