"""What does microtome cost, on this machine, beside its matrix products and beside other packages?

Runs the benchmarks one after the other, each in a process of its own with one thread, and shows their tables:

    PYTHONPATH=src python benchmarks/run.py
    PYTHONPATH=src python benchmarks/run.py --quick --only engine,memory
    PYTHONPATH=src python benchmarks/run.py --json bench.json --cuda cuda.json --markdown docs/performance.md

With `--markdown` the tables also go into a page, between marks such as `<!-- engine -->` and
`<!-- /engine -->`, or into a new file where there is none. A full run that misses a promise of `promises.py`
names it and ends with status 1.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import platform
import re
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine import Table
from promises import missed

# The modules, and what their `run` is given: in full, for a few minutes, and only to see that they work.
SECTIONS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "engine": (
        "engine",
        {
            "full": {},
            "quick": {"shapes": [(26, 5_000, 128)]},
            "smoke": {"shapes": [(3, 200, 16)], "repeats": 1},
        },
    ),
    "intervals": (
        "intervals",
        {
            "full": {},
            "quick": {"rows": (500, 1_500), "measures": ("debiased_cka",)},
            "smoke": {"rows": (120,), "layers": 3, "width": 16, "repeats": 1},
        },
    ),
    "peers": (
        "peers",
        {
            "full": {},
            "quick": {"shape": (2_000, 128), "map_shape": (13, 1_000, 256)},
            "smoke": {"shape": (100, 16), "map_shape": (3, 100, 16), "repeats": 1},
        },
    ),
    "memory": (
        "memory",
        {
            "full": {},
            "quick": {"rows": (10_000, 50_000)},
            "smoke": {"rows": (1_000, 2_000), "layers": 3, "width": 16},
        },
    ),
    "attention": (
        "attention_js",
        {"full": {}, "quick": {"sentences": 20, "few": 2}, "smoke": {"sentences": 1, "few": 1}},
    ),
    "extraction": (
        "extraction",
        {"full": {}, "quick": {"scale": "quick"}, "smoke": {"scale": "smoke", "repeats": 1}},
    ),
}
REPEATED = ("engine", "intervals", "peers", "attention", "extraction")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
MACHINE, CUDA = "machine", "cuda"


def machine() -> dict[str, Any]:
    """Say what the numbers were measured on."""
    names = ("torch", "numpy", "scipy", "scikit-learn", "numba")
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    model = platform.processor() or platform.machine()
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", cpu.read_text(), re.MULTILINE)
        model = found[1] if found else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "threads": 1,
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "versions": versions,
    }


def work(section: str, scale: str, repeats: int | None) -> Any:
    """Run one benchmark; called in a process of its own."""
    module, settings = SECTIONS[section]
    chosen = dict(settings[scale])
    if repeats is not None and section in REPEATED:
        chosen["repeats"] = repeats
    return importlib.import_module(module).run(**chosen)


def gather(sections: Sequence[str], scale: str, repeats: int | None = None) -> dict[str, Any]:
    """
    Run benchmarks one after the other.

    Parameters
    ----------
    sections : sequence of str
        Names in `SECTIONS`.
    scale : {"full", "quick", "smoke"}
    repeats : int, optional
        Rounds; as each benchmark has it when absent.

    Returns
    -------
    dict
        Plain data: `machine`, `scale`, and the result and seconds of each section.
    """
    # The number of threads is read when numpy is imported: only a fresh process can change it.
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    results: dict[str, Any] = {MACHINE: machine(), "scale": scale, "seconds": {}}
    for section in sections:
        started = time.perf_counter()
        print(f"{section} ...", file=sys.stderr, flush=True)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            results[section] = pool.submit(work, section, scale, repeats).result()
        results["seconds"][section] = round(time.perf_counter() - started, 1)
    return results


def tables(results: Mapping[str, Any]) -> dict[str, list[Table]]:
    """Show what `gather` found, by section."""
    shown: dict[str, list[Table]] = {}
    for section, (module, _) in SECTIONS.items():
        if section not in results:
            continue
        if section == "attention":
            shown[section] = [_attention_table(results[section])]
        else:
            shown[section] = importlib.import_module(module).tables(results[section])
    if CUDA in results:
        shown[CUDA] = importlib.import_module("cuda").tables(results[CUDA])
    return shown


def stamp(results: Mapping[str, Any]) -> str:
    """Say in a sentence on what, and with what, the numbers were measured."""
    found = results[MACHINE]
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items() if number)
    scale = {
        "full": "",
        "quick": " Smaller shapes than the full run.",
        "smoke": " These numbers mean nothing.",
    }
    return (
        f"Measured on {found['cpu']}, {found['cores']} cores, {found['threads']} thread used, load "
        f"{found['load']} at the start; {found['system']}, Python {found['python']}, {versions}. CPU is the "
        f"time of the process, wall the time that passed.{scale[results['scale']]}"
    )


def _attention_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    baseline = min(row["wall_s"] for row in rows if "two" in row["variant"])
    shown = [
        (
            row["variant"],
            str(row["sentences_run"]),
            f"{row['times_faster']:.1f}",
            f"{baseline / row['wall_s']:.1f}",
            f"{row['max_error']:.0e}",
        )
        for row in rows
    ]
    return Table(
        title="Jensen-Shannon divergences of all pairs of 144 x 144 heads",
        header=("what", "sentences run", "times faster, CPU", "times faster, wall", "largest error"),
        rows=tuple(shown),
        note=f"Times are for {max(row['sentences_run'] for row in rows)} sentences, scaled where fewer "
        "ran. Faster than the better of the two ways that take two divergences; the error is in nats.",
    )


def fill(text: str, shown: Mapping[str, Sequence[Table]], measured: str = "") -> str:
    """
    Put tables between their marks.

    Parameters
    ----------
    text : str
        A page with marks such as `<!-- engine -->` and `<!-- /engine -->`.
    shown : mapping of str to sequence of Table
        By section; sections without marks are left out.
    measured : str, optional
        A sentence that goes below the tables of each section, other than those of a CUDA device.

    Returns
    -------
    str
    """
    for section, found in shown.items():
        parts = [table.markdown() for table in found]
        parts += [f"{measured}\n"] if measured and section != CUDA else []
        marks = f"<!-- {section} -->", f"<!-- /{section} -->"
        pattern = re.compile(f"{re.escape(marks[0])}.*?{re.escape(marks[1])}", re.DOTALL)
        whole = "\n".join([marks[0], "", *parts, marks[1]])
        text = pattern.sub(lambda _, whole=whole: whole, text)
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the benchmarks and show their tables.")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_const", const="quick", dest="scale", help="a few minutes")
    scale.add_argument("--smoke", action="store_const", const="smoke", dest="scale", help="see that it works")
    scale.add_argument("--load", type=Path, help="results of an earlier --json to show instead of running")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas")
    parser.add_argument("--repeats", type=int, help="rounds")
    parser.add_argument("--json", type=Path, help="where to write all results")
    parser.add_argument("--cuda", type=Path, help="results of benchmarks/cuda.py to show with the others")
    parser.add_argument("--markdown", type=Path, help="the page to fill, or to write where there is none")
    chosen = parser.parse_args(arguments)
    sections = [name for name in chosen.only.split(",") if name]
    unknown = [name for name in sections if name not in SECTIONS]
    if unknown:
        parser.error(f"--only must name some of {', '.join(SECTIONS)}, but got {', '.join(unknown)}")
    page = ""
    if chosen.markdown is not None and chosen.markdown.exists():
        page = chosen.markdown.read_text(encoding="utf-8")
        if not any(f"<!-- /{name} -->" in page for name in (*SECTIONS, CUDA)):
            parser.error(f"--markdown must name a page with marks such as <!-- engine -->: {chosen.markdown}")
    if chosen.load is not None:
        results = json.loads(chosen.load.read_text(encoding="utf-8"))
    else:
        results = gather(sections, chosen.scale or "full", chosen.repeats)
    if chosen.cuda is not None:
        results[CUDA] = json.loads(chosen.cuda.read_text(encoding="utf-8"))
    shown, measured = tables(results), stamp(results)
    whole = "\n".join([measured, "", *(table.markdown() for found in shown.values() for table in found)])
    print(whole)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if chosen.markdown is not None:
        filled = fill(page, shown, measured) if page else f"# Benchmarks\n\n{whole}"
        chosen.markdown.write_text(filled, encoding="utf-8")
    # Smaller shapes were promised nothing.
    broken = missed(results) if results["scale"] == "full" else []
    print("\n".join(f"missed: {said}" for said in broken), end="\n" * bool(broken), file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
