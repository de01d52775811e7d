"""What happens to bad requests, killed work and broken files? An attack on every verb, function and reader.

    PYTHONPATH=src python benchmarks/attack.py --processes 2 --json benchmarks/results/attack.json
    PYTHONPATH=src python benchmarks/attack.py --only readers --seconds 3600 --processes 16 --json read.json
    PYTHONPATH=src python benchmarks/attack.py --only none --json benchmarks/results/attack.json \
        --merge read.json --markdown docs/reliability.md

`commands` types bad command lines, `calls` makes bad calls of the Python interface, `kills` ends every verb
with SIGKILL and SIGTERM and starts it again, `readers` changes files at random and reads them. All of it is
drawn from `--seed`. The sections that were run replace those of the file of `--json`; the others stay. The
script returns 1 where something did not go as promised, and says what.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

SECTIONS = ("commands", "calls", "kills", "readers")
FORMAT = "microtome/attack/1"


def main(words: Sequence[str] | None = None) -> int:
    told = parser().parse_args(words)
    chosen = (
        SECTIONS if told.only == "all" else tuple(name for name in told.only.split(",") if name != "none")
    )
    if unknown := set(chosen) - set(SECTIONS):
        raise SystemExit(f"--only must name some of {', '.join(SECTIONS)}, but got {', '.join(unknown)}.")
    document: dict[str, Any] = {"format": FORMAT}
    for file in (told.json, told.merge):
        if file is not None and file.is_file():
            document |= json.loads(file.read_text())
    if chosen:
        with tempfile.TemporaryDirectory(prefix="attack-") as folder:
            document |= attacked(chosen, told, Path(folder))
    if told.json is not None:
        told.json.parent.mkdir(parents=True, exist_ok=True)
        told.json.write_text(json.dumps(document, indent=1) + "\n")
    if told.markdown is not None:
        told.markdown.write_text(filled(told.markdown.read_text(), document))
    print(table(document))
    wrong = [problem for name in chosen for problem in problems(name, document[name])]
    for problem in wrong[:200]:
        print(f"PROBLEM {problem}")
    return 1 if wrong else 0


def parser() -> argparse.ArgumentParser:
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--only", default="all", help="commands, calls, kills, readers, or none; with commas")
    read.add_argument("--seconds", type=float, default=3600.0, help="of the readers")
    read.add_argument("--cases", type=int, default=0, help="of the readers, where that is earlier")
    read.add_argument("--commands", type=int, default=600, help="command lines; 0 for all there are")
    read.add_argument("--shells", type=int, default=24, help="command lines that are typed into a shell too")
    read.add_argument("--calls", type=int, default=600, help="calls; 0 for all there are")
    read.add_argument("--kills", type=int, default=60, help="SIGKILL over all verbs")
    read.add_argument("--terms", type=int, default=20, help="SIGTERM over all verbs")
    read.add_argument("--verbs", default="", help="the verbs that are killed; all when absent")
    read.add_argument("--reader", default="", help="a part of the names of readers; all when absent")
    read.add_argument("--seed", type=int, default=0)
    read.add_argument("--processes", type=int, default=1)
    read.add_argument("--json", type=Path, help="where the figures go")
    read.add_argument("--merge", type=Path, help="figures of another run, to be taken over")
    read.add_argument("--markdown", type=Path, help="a page whose table between marks is renewed")
    read.add_argument("--crashes", type=Path, help="a folder for files at which a reader failed")
    return read


def attacked(chosen: Sequence[str], told: argparse.Namespace, place: Path) -> dict[str, Any]:
    """Run sections of the attack; their figures."""
    import attack_child
    import attack_samples

    attack_child.prepare()
    attack_samples.make_ground(place)
    runs: Mapping[str, Callable[[argparse.Namespace, Path], dict[str, Any]]] = {
        "commands": _commands,
        "calls": _calls,
        "kills": _kills,
        "readers": _readers,
    }
    found = {}
    for name in chosen:
        begun = time.monotonic()
        section = runs[name](told, place)
        section |= {
            "seed": told.seed,
            "processes": told.processes,
            "minutes": (time.monotonic() - begun) / 60,
        }
        found[name] = {**section, "cores": os.cpu_count(), "python": platform.python_version()}
    return found


def _commands(told: argparse.Namespace, place: Path) -> dict[str, Any]:
    import attack_commands

    return attack_commands.attack(
        place,
        place / "commands",
        count=told.commands,
        shells=told.shells,
        seed=told.seed,
        processes=told.processes,
    )


def _calls(told: argparse.Namespace, place: Path) -> dict[str, Any]:
    import attack_calls

    return attack_calls.attack(
        place, place / "calls", count=told.calls, seed=told.seed, processes=told.processes
    )


def _kills(told: argparse.Namespace, place: Path) -> dict[str, Any]:
    import attack_kills

    verbs = told.verbs.split(",") if told.verbs else None
    return attack_kills.attack(
        place,
        place / "kills",
        kills=told.kills,
        terms=told.terms,
        seed=told.seed,
        processes=told.processes,
        verbs=verbs,
    )


def _readers(told: argparse.Namespace, place: Path) -> dict[str, Any]:
    import attack_fuzz

    work = place / "readers"
    work.mkdir()
    done = attack_fuzz.fuzz(
        place / "good",
        work,
        seconds=told.seconds,
        seed=told.seed,
        processes=told.processes,
        only=told.reader,
        cases=told.cases,
    )
    if told.crashes is not None and (work / "crashes").is_dir():
        told.crashes.mkdir(parents=True, exist_ok=True)
        for file in (work / "crashes").iterdir():
            (told.crashes / file.name).write_bytes(file.read_bytes())
    return asdict(done)


def problems(name: str, section: Mapping[str, Any]) -> list[str]:
    """What did not go as promised, a line each."""
    if name == "readers":
        return [
            f"{one['reader']}, case {one['case']}, {one['file']}: {one['problem']}"
            for one in section["crashes"]
        ]
    if name == "kills":
        return [f"{one['verb']}: {problem}" for one in section["verbs"] for problem in one["problems"]]
    return [
        f"{one.get('line') or one.get('call')}: {one['problem']}: {one['said']}"
        for one in section["problems"]
    ]


def table(document: Mapping[str, Any]) -> str:
    """The figures as tables of Markdown."""
    rows = [("attack", "how many", "what they were spread over", "not as promised")]
    if "commands" in document:
        one = document["commands"]
        rows.append(
            (
                "bad command lines",
                f"{one['lines']:,}",
                f"{one['verbs']} verbs, {one['kinds']} kinds; {one['typed into a shell']} also in a shell",
                f"{len(one['problems'])}",
            )
        )
    if "calls" in document:
        one = document["calls"]
        rows.append(
            ("bad calls", f"{one['calls']:,}", f"{one['functions']} functions", f"{len(one['problems'])}")
        )
    if "kills" in document:
        one = document["kills"]
        wrong = len(problems("kills", one))
        for key, name in (("kills", "kill -9"), ("terms", "SIGTERM")):
            count = sum(verb[key] for verb in one["verbs"])
            rows.append((name, f"{count}", f"{len(one['verbs'])} verbs", f"{wrong}"))
    if "readers" in document:
        one = document["readers"]
        total = sum(counts["cases"] for counts in one["counts"].values())
        about = (
            f"{len(one['counts'])} readers, {one['seconds'] / 60:.0f} minutes on {one['processes']} processes"
        )
        rows.append(("changed files", f"{total:,}", about, f"{len(one['crashes'])}"))
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "| --- | ---: | --- | ---: |")
    if "readers" in document:
        lines += [
            "",
            "| files of | changed | read | refused | crashed |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        for name, counts in document["readers"]["counts"].items():
            cells = [f"{counts[key]:,}" for key in ("cases", "read", "refused")]
            crashed = sum(one["reader"] == name for one in document["readers"]["crashes"])
            lines.append(f"| {name} | {' | '.join(cells)} | {crashed} |")
        for name, why in document["readers"]["skipped"].items():
            lines.append(f"| {name} | left out: {why} | | | |")
    return "\n".join(lines)


def filled(page: str, document: Mapping[str, Any]) -> str:
    """A page with its table renewed."""
    pattern = r"(<!-- attack -->\n).*?(<!-- /attack -->)"
    changed, count = re.subn(
        pattern, lambda found: f"{found[1]}{table(document)}\n{found[2]}", page, flags=re.S
    )
    if not count:
        raise SystemExit(
            "the page must have the marks <!-- attack --> and <!-- /attack -->, but it has none."
        )
    return changed


if __name__ == "__main__":
    sys.exit(main())
