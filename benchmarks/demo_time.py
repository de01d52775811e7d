"""How much processor time does the demonstration take, step by step, and when is the first picture there?

Each version of the package runs `microtome demo` into an empty folder, in a process of its own, in turns with
the others; the first one is the unit. Start-up counts, installation does not. Linux only. Run it as

    python benchmarks/demo_time.py [--source OLDER/src] [--rounds N] [-- OPTIONS OF THE DEMONSTRATION]

`--startup` measures what is waited for before any command does something instead, beside bare Python.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN as CHILDREN
from threading import Thread

POLL = 0.05  # seconds
PICTURE = "picture.svg"
STARTUP = {
    "python -c pass": ("-c", "pass"),
    "import typer": ("-c", "import typer"),
    "import microtome": ("-c", "import microtome"),
    "microtome --help": ("-m", "microtome", "--help"),
    "microtome demo --help": ("-m", "microtome", "demo", "--help"),
}


def processor_seconds(process: int) -> float:
    """Seconds of a running process, user and system."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(
    source: Path, options: Sequence[str], keep: Path | None = None
) -> tuple[list[tuple[str, float, float]], tuple[float, float]]:
    """
    Run the demonstration once.

    Returns
    -------
    steps : list of (str, float, float)
        What it said, with the processor's seconds and the clock's when it said so; last the end.
    picture : (float, float)
        The same for the first picture.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, start = Path(folder) / "demo", time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "microtome", "demo", "--out", str(out), *options],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        steps: list[tuple[str, float, float]] = []
        picture = (float("nan"), float("nan"))

        def listen() -> None:
            assert process.stderr is not None
            with process.stderr as lines:
                for line in lines:
                    if line.startswith("["):
                        spent = processor_seconds(process.pid)
                        steps.append((line.split("] ", 1)[1].strip(), spent, time.monotonic() - start))

        listener = Thread(target=listen)
        listener.start()
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if picture[0] != picture[0] and (out / PICTURE).exists():
                picture = (processor_seconds(process.pid), time.monotonic() - start)
            time.sleep(POLL)
        # It ended, but nobody has waited for it: its times are still there.
        steps.append(("the end", processor_seconds(process.pid), time.monotonic() - start))
        listener.join()
        if process.wait():
            raise SystemExit(f"the demonstration of {source} failed.")
        if keep is not None:
            shutil.copytree(out, keep)
    return steps, picture


def startup(source: Path, rounds: int) -> None:
    """Start Python in several ways in turns, and print medians of the processor's time."""
    spent: dict[str, list[float]] = {name: [] for name in STARTUP}
    for _ in range(rounds):
        for name, words in STARTUP.items():
            environment, before = {**os.environ, "PYTHONPATH": str(source)}, resource.getrusage(CHILDREN)
            subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
            after = resource.getrusage(CHILDREN)
            spent[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    unit = statistics.median(spent["python -c pass"])
    print("| what | CPU ms | ratio |\n| --- | --- | --- |")
    for name, values in spent.items():
        middle = statistics.median(values)
        print(f"| {name} | {1000 * middle:.0f} | {middle / unit:.1f} |")


def main() -> None:
    """Run each version in turns, and print what the steps took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--source", type=Path, action="append", help="the src folder of another version")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a new folder for what the last one writes")
    parser.add_argument("--startup", action="store_true", help="measure the start of Python alone")
    parser.add_argument("options", nargs="*", help="options of the demonstration, after --")
    given = parser.parse_args()
    here = Path(__file__).resolve().parents[1] / "src"
    if given.startup:
        startup(here, given.rounds)
        return
    sources = [*(given.source or ()), here]
    totals: dict[Path, list[float]] = {source: [] for source in sources}
    for number in range(given.rounds):
        for source in sources:
            last = number == given.rounds - 1 and source == here
            steps, picture = run(source, given.options, given.keep if last else None)
            totals[source].append(steps[-1][1])
            print(f"\n{source}, round {number + 1}\n\n| when | CPU seconds | seconds |\n| --- | --- | --- |")
            for what, spent, passed in sorted([("first picture", *picture), *steps], key=lambda row: row[2]):
                print(f"| {what} | {spent:.1f} | {passed:.1f} |", flush=True)
    unit = statistics.median(totals[sources[0]])
    for source, values in totals.items():
        middle = statistics.median(values)
        count = len(values)
        print(f"\n{source}: {middle:.1f} CPU seconds (median of {count}), {middle / unit:.2f} of the first")


if __name__ == "__main__":
    main()
