"""Have numbers moved? About fifty commands and calls, on drawn inputs, against what they once gave.

    python benchmarks/golden.py --write benchmarks/results/golden.json
    python benchmarks/golden.py --compare benchmarks/results/golden.json

All verbs and experiments, one thread, no network, a few minutes. What is kept: numbers, truth values and
digests, but no words, times, paths or versions. `--compare` prints every place where the numbers of today are
others, and exits with 1 if there is one; places that are new are only counted. Places that are to differ are
named in `golden-allowed.json` beside the numbers, each with the reason; one that no longer differs there is
told too. Numbers must be equal to the last bit on the machine that made them; `--tolerance 1e-6` is for
others, where digests are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import io
import json
import math
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# Before any library reads it.
os.environ["OMP_NUM_THREADS"] = "1"

import golden_cases
import golden_inputs
import numpy as np

ALLOWED = "golden-allowed.json"
# Longer lists of numbers are kept as a digest and their beginning.
LONGEST, SHOWN = 130, 3
DIGEST = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}")
# What a clock, a place or a version decides.
IGNORED = re.compile(
    r"(^|_)(seconds|finished|created|made|time|times|speed|latency|milliseconds|memory|bytes|size_mb|"
    r"address|folder|folders|path|paths|command|threads|processes|microtome|python|torch|transformers|numpy|"
    r"references|resumed)$"
)
# Of a provenance: places in the store, which depend on how it is addressed.
ADDRESSES = {"runs", "activations", "address", "entries"}


def numbers(document: Any) -> Any:
    """What is kept of a document: numbers, truth values and digests; None for what has none of them."""
    if isinstance(document, np.ndarray):
        document = document.tolist()
    if isinstance(document, np.generic):
        document = document.item()
    if isinstance(document, Mapping):
        inside = {
            str(k): digests(v) if k == "provenance" else numbers(v)
            for k, v in document.items()
            if not IGNORED.search(str(k))
        }
        return {k: v for k, v in inside.items() if v is not None} or None
    if isinstance(document, (list, tuple)):
        if (flat := _flat(document)) is not None and len(flat) > LONGEST:
            return {
                "count": len(flat),
                "sha256": hashlib.sha256(np.array(flat, dtype="<f8").tobytes()).hexdigest(),
                "first": [_shown(value) for value in flat[:SHOWN]],
            }
        inside = [numbers(value) for value in document]
        return inside if any(value is not None for value in inside) else None
    if isinstance(document, str):
        return document if DIGEST.fullmatch(document) else None
    return _shown(document) if isinstance(document, (bool, int, float)) else None


def digests(document: Any) -> dict[str, bool] | None:
    """Digests of models, texts and rows, whatever their names; numbers of a provenance are settings."""
    known = {
        value: True
        for place, value in places(document)
        if isinstance(value, str) and DIGEST.fullmatch(value) and not ADDRESSES & {*place.split("/")}
    }
    return dict(sorted(known.items())) or None


def _shown(value: Any) -> Any:
    """A number as JSON can hold it."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _flat(values: Any) -> list[float] | None:
    """All numbers of nested lists of nothing else; empty cells are no number."""
    out: list[float] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            inside = _flat(value)
            if inside is None:
                return None
            out += inside
        elif value is None or isinstance(value, (int, float)):
            out.append(math.nan if value is None else float(value))
        else:
            return None
    return out


def run_command(words: str) -> Any:
    """Run a command as the shell would; its numbers, or the code with which it ended."""
    from microtome.cli import main

    store = (
        [] if words.split()[0] in ("similarity", "evaluate", "report", "pretrain") else ["--store", "store"]
    )
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words.split(), *store, "--json"])
    if code:
        print(f"  ended with {code}: {err.getvalue().strip().splitlines()[-1:]}", file=sys.stderr)
        return {"exit": code}
    return numbers(json.loads(out.getvalue()))


def run_call(call: Any) -> Any:
    try:
        return numbers(call())
    except Exception as error:
        print(f"  {type(error).__name__}: {error}", file=sys.stderr)
        return {"error": True}


def record(only: str = "") -> dict[str, Any]:
    """Run the cases in a folder of their own: all, or those whose names begin with one of `only`."""
    import torch

    torch.set_num_threads(1)
    out: dict[str, Any] = {}
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["MICROTOME_STORE"] = str(Path(folder) / "store")
        golden_inputs.make(Path(folder))
        os.chdir(folder)
        try:
            cases: list[tuple[str, Any]] = [*golden_cases.COMMANDS.items(), *golden_cases.CALLS.items()]
            for name, case in cases:
                if not wanted(name, only):
                    continue
                start = time.monotonic()
                out[name] = run_command(case) if isinstance(case, str) else run_call(case)
                print(f"{name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
        finally:
            os.chdir(here)
    return out


def wanted(name: str, only: str) -> bool:
    """Whether a name begins with one of those between semicolons."""
    return name.startswith(tuple(only.split(";")))


def places(document: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, truth value and digest with its place, as "skip/spans/0/values"."""
    if isinstance(document, Mapping):
        for name, value in document.items():
            yield from places(value, f"{place}/{name}" if place else name)
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from places(value, f"{place}/{number}")
    else:
        yield place, document


def differences(
    before: Any, after: Any, tolerance: float = 0.0
) -> tuple[dict[str, tuple[Any, Any]], list[str]]:
    """Places that hold something else now, with both values, and places that are new."""
    old, new = dict(places(before)), dict(places(after))
    changed = {
        place: (value, new.get(place, "absent"))
        for place, value in old.items()
        if not same(value, new.get(place, "absent"), tolerance)
    }
    return changed, [place for place in new if place not in old]


def same(before: Any, after: Any, tolerance: float) -> bool:
    if before == after and isinstance(before, bool) == isinstance(after, bool):
        return True
    if not tolerance:
        return False
    if isinstance(before, (int, float)) and isinstance(after, (int, float)):
        return math.isclose(before, after, rel_tol=tolerance, abs_tol=tolerance)
    return isinstance(before, str) and isinstance(after, str) and bool(DIGEST.fullmatch(before))


def compare(before: Any, after: Any, allowed: Mapping[str, str], tolerance: float = 0.0) -> int:
    """Print what differs; how many differences no entry of `allowed` covers."""
    changed, fresh = differences(before, after, tolerance)
    covered = {place: pattern for place in changed for pattern in allowed if fnmatch.fnmatch(place, pattern)}
    for place, (old, new) in changed.items():
        if place not in covered:
            print(f"{place}: {old} -> {new}")
    for pattern, reason in allowed.items():
        count = sum(fnmatch.fnmatch(place, pattern) for place in changed)
        print(f"allowed: {pattern}: {count} differ ({reason})")
    moved = len(changed) - len(covered)
    whole = len(dict(places(before)))
    print(f"{whole} numbers, {moved} moved, {len(covered)} moved as allowed, {len(fresh)} new")
    return moved


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Numbers of every verb, against what they once were.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FILE")
    what.add_argument("--compare", type=Path, metavar="FILE")
    parser.add_argument("--allowed", type=Path, help=f"when absent, {ALLOWED} beside FILE")
    parser.add_argument(
        "--only",
        default="",
        help="beginnings of names of cases, ; between them; some read what earlier ones write",
    )
    parser.add_argument("--tolerance", type=float, default=0.0, help="relative and absolute")
    asked = parser.parse_args(arguments)
    given: Path = (asked.write or asked.compare).absolute()
    if asked.compare:
        before = json.loads(given.read_text())
        allowed = asked.allowed or given.with_name(ALLOWED)
        reasons = json.loads(allowed.read_text()) if allowed.exists() else {}
        before = {name: value for name, value in before.items() if wanted(name, asked.only)}
        return int(compare(before, record(asked.only), reasons, asked.tolerance) > 0)
    given.write_text(json.dumps(record(asked.only), indent=0, separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
