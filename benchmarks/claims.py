"""
What do claims on pieces of work cost, and how soon is the work of a dead host taken over?

    PYTHONPATH=src python benchmarks/claims.py --json benchmarks/results/claims.json

A claim is made and released in a folder of `--place`; 1,000 live claims are listed, and 10,000 addresses are
looked up of which half have an entry. A process under another host name (`unshare --uts`, as root) is killed
in the middle of its work, and another waits for it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from microtome.store.address import address
from microtome.store.claims import hold
from microtome.store.shelf import Shelf

HOLDER = """
import sys
from microtome.store.shelf import Shelf
with Shelf(sys.argv[1]).work(kind="note", specification={}) as work:
    (work.folder / "state").write_text("kept")
    print("ready", flush=True)
    sys.stdin.read()
"""


def median(call: Callable[[int], object], rounds: int) -> float:
    """The median time of a call in milliseconds."""
    times: list[float] = []
    for number in range(rounds):
        begun = time.perf_counter()
        call(number)
        times.append(1000 * (time.perf_counter() - begun))
    return round(statistics.median(times), 3)


def claim(place: Path, number: int) -> None:
    """Make a claim, and release it."""
    with hold(place / f"claim-{number}"):
        pass


def listed(place: Path, rounds: int) -> dict[str, float]:
    """Milliseconds to list 1,000 live claims, and to look 10,000 addresses up."""
    shelf = Shelf(place / "store")
    addresses = [address({"n": n}) for n in range(10_000)]
    with ExitStack() as stack:
        for name in addresses[:1000]:
            stack.enter_context(shelf.alone(name))
        running = median(lambda _: shelf.running(), rounds)
    for name in addresses[::2]:
        (shelf.root / "entries" / name[:2] / name).mkdir(parents=True)
    return {"running of 1,000": running, "has of 10,000": median(lambda _: shelf.has(addresses), rounds)}


def taken_over(place: Path, host: str) -> float:
    """Seconds from the death of a process to its work being taken over."""
    words = [sys.executable, "-c", HOLDER, str(place / "shared")]
    if host:
        words = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host, *words]
    pipe = subprocess.PIPE
    holder = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    if holder.stdout is None or holder.stdout.readline() != "ready\n":
        raise RuntimeError("the holder did not start")
    os.killpg(holder.pid, signal.SIGKILL)
    begun = time.monotonic()
    with Shelf(place / "shared").work(kind="note", specification={}) as work:
        took = time.monotonic() - begun
        if (work.folder / "state").read_text() != "kept":
            raise RuntimeError("what was done before is lost")
    holder.communicate()
    return round(took, 2)


def main() -> None:
    """Measure, and print."""
    form = argparse.RawDescriptionHelpFormatter
    read = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    read.add_argument("--place", type=Path, help="a folder; that of temporary files when absent")
    read.add_argument("--rounds", type=int, default=200)
    read.add_argument("--no-hosts", action="store_true", help="without the 40 seconds of the killed host")
    read.add_argument("--json", type=Path)
    options = read.parse_args()
    with tempfile.TemporaryDirectory(dir=options.place) as name:
        place = Path(name)
        figures = {
            "milliseconds": {
                "claim and release": median(lambda number: claim(place, number), options.rounds),
                **listed(place, max(1, options.rounds // 10)),
            },
            "seconds to take over": {
                "a killed process": taken_over(place, ""),
                **({} if options.no_hosts else {"a killed host": taken_over(place, "node1")}),
            },
            "rounds": options.rounds,
            "cores": os.cpu_count(),
        }
    print(json.dumps(figures, indent=1))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
