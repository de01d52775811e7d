"""How long do all questions about one model and one task take, from the checkpoint to the page?

The commands that a user types: fine-tune with two seeds, a map of the fine-tuned model beside the base model
with intervals, truncation, skipping of every span, and the report. Each runs in a process of its own on an
empty store, in turn with the code of another commit where `--before` names its checkout. Run it as

    PYTHONPATH=src python benchmarks/pipeline.py --model FOLDER --task rte --data DIR --before CHECKOUT
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine import Table

NOW = Path(__file__).resolve().parent.parent
MARKS = ("<!-- pipeline -->", "<!-- /pipeline -->")


def commands(model: str, task: Sequence[str], out: Path, training: Sequence[str]) -> dict[str, list[str]]:
    """What a user types; the options are the same in both versions of the code."""
    tuned = [str(out / "tuned" / f"seed-{seed}") for seed in (1, 2)]
    return {
        "fine-tune, 2 seeds": [
            "finetune",
            model,
            *task,
            "--seeds",
            "1,2",
            *training,
            "--out",
            str(out / "tuned"),
        ],
        "map, with intervals": [
            "compare",
            model,
            tuned[0],
            "--on",
            str(out / "text.txt"),
            "--out",
            str(out / "map"),
        ],
        "truncation": ["truncate", *tuned, *task, "--arms", "untuned,tuned", "--out", str(out / "truncated")],
        "skipping": ["skip", *tuned, *task, "--out", str(out / "skipped")],
        "report": ["report", str(out)],
    }


def run_once(checkout: Path, chosen: argparse.Namespace) -> dict[str, float]:
    """Seconds of each command."""
    seconds = {}
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out"
        out.mkdir()
        (out / "text.txt").write_text("\n".join(_sentences(chosen)))
        environment = {
            **os.environ,
            "PYTHONPATH": str(checkout / "src"),
            "MICROTOME_STORE": str(Path(place) / "store"),
        }
        task = ["--task", chosen.task, *(["--data", str(chosen.data)] if chosen.data else [])]
        task += ["--device", chosen.device]
        training = ["--train-size", str(chosen.train_size), "--set", f"epochs={chosen.epochs}"]
        for name, words in commands(chosen.model, task, out, training).items():
            words += ["--device", chosen.device] if words[0] == "compare" else []
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", "microtome", *words, "--quiet"],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            seconds[name] = time.perf_counter() - start
            if done.returncode:
                raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")
    return seconds


def _sentences(chosen: argparse.Namespace) -> list[str]:
    import microtome as mt

    task = mt.task(chosen.task, data=chosen.data)
    return [item.texts[0].replace("\n", " ") for item in task.split("train").items[: chosen.texts]]


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Run all commands in turn with both versions; seconds by version and command."""
    checkouts = {"now": NOW} | ({} if chosen.before is None else {"before": chosen.before.resolve()})
    found: dict[str, list[dict[str, float]]] = {version: [] for version in checkouts}
    for _ in range(chosen.rounds):
        for version, checkout in checkouts.items():
            found[version].append(run_once(checkout, chosen))
            print(version, json.dumps(found[version][-1]), flush=True)
    return {
        "seconds": found,
        "machine": _machine(chosen.device),
        "case": f"{Path(chosen.model).name} on {chosen.task}, {chosen.train_size:,} training examples, "
        f"{chosen.epochs:g} epochs, {chosen.texts:,} texts for the map",
    }


def _machine(device: str) -> str:
    import torch

    name = f"{os.cpu_count()} cores" if device == "cpu" else f"one {torch.cuda.get_device_name()}"
    return f"{name}, torch {torch.__version__}, Python {platform.python_version()}"


def tables(found: Mapping[str, Any]) -> list[Table]:
    """Write the figures as a table."""
    medians = {
        version: {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        for version, runs in found["seconds"].items()
    }
    now, before = medians["now"], medians.get("before")
    rows = [
        (
            name,
            f"{100 * now[name] / sum(now.values()):.0f} %",
            f"{before[name] / now[name]:.1f}" if before else "",
        )
        for name in now
    ]
    total = f"{sum(before.values()) / sum(now.values()):.1f}" if before else ""
    rows.append((f"all: {sum(now.values()):.0f} s", "100 %", total))
    rounds = len(found["seconds"]["now"])
    return [
        Table(
            title="All questions about one model and one task",
            header=("command", "share of the time", "before : now"),
            rows=tuple(rows),
            note=f"{found['case']}; {found['machine']}; medians of {rounds} interleaved rounds, starts of "
            "processes included.",
        )
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="All questions about one model and one task.")
    parser.add_argument("--model", default="zoo:masked")
    parser.add_argument("--task", default="rte")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--train-size", type=int, default=2_000)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--texts", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--before", type=Path, help="checkout of another commit")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--load", type=Path, help="figures of an earlier run, instead of measuring")
    parser.add_argument("--markdown", type=Path, help="a page with the marks")
    chosen = parser.parse_args(arguments)
    found = measure(chosen) if chosen.load is None else json.loads(chosen.load.read_text())
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1))
    text = "\n\n".join(table.markdown() for table in tables(found))
    print(text)
    if chosen.markdown is not None:
        before, _, rest = chosen.markdown.read_text().partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        chosen.markdown.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
