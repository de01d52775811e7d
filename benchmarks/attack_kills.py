"""Killed at any moment and started again: does every verb end with the same bits, in a sound store?"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attack_child import MEMORY, end_group, spread, start, wait_for
from attack_verbs import requests, typed

from microtome.randomness import generator

SECONDS = 3600.0
PATIENCE = 300.0  # seconds that a process may take to end after SIGTERM
VERBS = (
    *("similarity", "extract", "compare", "finetune", "evaluate", "truncate", "skip", "freeze", "reinit"),
    *("permute", "drop", "prune", "probe", "change", "domains", "localize", "tuning-methods"),
    *("trajectory", "pretrain"),
    *("report", "study run", "study report"),
)
_WITHOUT_STORE = ("similarity", "evaluate", "report", "pretrain", "study report")
# What a clock says, and what tells of the interruption itself.
_CLOCK = ("seconds", "created", "finished", "made", "speed", "started", "milliseconds", "resumed")
# `study run` counts as done before what was done before the interruption: "done" and "before".


@dataclass(slots=True, kw_only=True)
class Trial:
    """What came of killing one verb."""

    verb: str
    kills: int = 0
    terms: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


def attempt(verb: str, good: Path, place: Path, *, kills: int, terms: int, seed: int = 0) -> Trial:
    """
    Run a verb to its end; then kill it, start it again, and so on to its end, elsewhere.

    Parameters
    ----------
    verb : str
    good : Path
        The samples.
    place : Path
        Where both are done.
    kills, terms : int
        How many SIGKILL and SIGTERM.
    seed : int
        Of the moments.

    Returns
    -------
    Trial
    """
    trial = Trial(verb=verb)
    words = [*verb.split(), *requests(good)[verb], "--json"]
    words += [] if verb == "study run" else ["--out", "out.html" if verb == "report" else "out"]
    words += ["--store", str(good / "store")] if verb == "study report" else []
    words += [] if verb in _WITHOUT_STORE else ["--store", "store"]
    rng = generator(seed, "attack", "kills", verb)
    begun = time.monotonic()
    first = _scene(place / "whole")
    code, took, out, _ = _done(words, first)
    if code != 0:
        trial.problems.append(f"undisturbed, it ended with {code}")
        return trial
    reference = snapshot(first, out)
    second = _scene(place / "killed")
    order = [signal.SIGKILL] * kills + [signal.SIGTERM] * terms
    order = [order[k] for k in rng.permutation(len(order))]
    for _ in range(6 * len(order)):
        if not order:
            break
        ended, problem = _struck(words, second, order[0], rng.random() * took)
        if problem:
            trial.problems.append(problem)
        if ended:  # what was kept made it quicker than the moment: it begins elsewhere
            second, took = _scene(place / "killed"), 0.8 * took
            continue
        sent = order.pop(0)
        trial.kills += sent == signal.SIGKILL
        trial.terms += sent == signal.SIGTERM
    code, _, out, err = _done(words, second)
    if code != 0:
        trial.problems.append(f"started again, it ended with {code}: {err.strip()[-300:]}")
    else:
        trial.problems += differences(reference, snapshot(second, out))
        trial.problems += damage(second / "store")
    trial.seconds = time.monotonic() - begun
    return trial


def _scene(place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    (place / "here").mkdir(parents=True)
    return place / "here"


def _done(words: Sequence[str], here: Path) -> tuple[int, float, str, str]:
    """Run to the end: the exit status, the seconds, and what was written."""
    begun = time.monotonic()
    process, out, err = start(typed(list(words)), here, 4 * MEMORY)
    if not wait_for(process, begun + SECONDS):
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    end_group(process)
    return os.waitstatus_to_exitcode(status), time.monotonic() - begun, _take(out), _take(err)


def _struck(words: Sequence[str], here: Path, sent: signal.Signals, after: float) -> tuple[bool, str]:
    """Start, and send a signal after some seconds; whether it had ended before, and what is wrong."""
    process, out, err = start(typed(list(words)), here, 4 * MEMORY)
    ended = wait_for(process, time.monotonic() + after)
    problem = ""
    if not ended:
        os.kill(process, sent)
        if sent == signal.SIGTERM and not wait_for(process, time.monotonic() + PATIENCE):
            problem = f"SIGTERM did not end it within {PATIENCE:.0f} seconds"
            os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    end_group(process)
    _take(out)
    said = _take(err)
    if "Traceback" in said:
        problem = f"{sent.name} made it show a traceback: {said[-1500:]}"
    return ended, problem


def _take(path: Path) -> str:
    text = path.read_bytes().decode("utf-8", "replace")
    path.unlink()
    return text


def snapshot(here: Path, printed: str) -> dict[str, str]:
    """A digest of everything that a run wrote, without what a clock says."""
    found = (
        {"(printed)": _digest(json.dumps(timeless(json.loads(printed))).encode())} if printed.strip() else {}
    )
    for path in sorted(here.rglob("*")):
        name = str(path.relative_to(here))
        if not path.is_file() or name.startswith(("store/locks", "store/trash")) or path.name == "entry.json":
            continue
        # Results of a study name folders of the store, which is elsewhere in the other run.
        found[name] = _digest(_content(path).replace(os.fsencode(here), b"."))
    return found


def _content(path: Path) -> bytes:
    if path.suffix == ".json":
        return json.dumps(timeless(json.loads(path.read_bytes()))).encode()
    if path.suffix == ".jsonl":
        lines = [timeless(json.loads(line)) for line in path.read_text().splitlines()]
        return json.dumps(lines).encode()
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return json.dumps(timeless(pq.read_table(path).to_pydict()), default=str).encode()
    if path.name == "README.md":  # a card tells measured times
        return re.sub(rb"[^\n]* ms [^\n]*|[^\n]*Measured in turns[^\n]*", b"", path.read_bytes())
    return path.read_bytes()


def timeless(value: Any) -> Any:
    """A document without what a clock says."""
    if isinstance(value, Mapping):
        return {key: timeless(inner) for key, inner in value.items() if not _of_a_clock(str(key))}
    if isinstance(value, list):
        return [timeless(inner) for inner in value]
    return value


def _of_a_clock(key: str) -> bool:
    return key in ("done", "before") or any(word in key for word in _CLOCK)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def differences(reference: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """A sentence for each file that differs."""
    # Of a run that is kept by its answers alone the weights may still be there, or not any more.
    names = sorted(name for name in {*reference, *found} if not _may_be_absent(name, reference, found))
    wrong = [name for name in names if reference.get(name) != found.get(name)]
    return [
        f"{name} {'differs' if name in reference and name in found else 'is there once'}" for name in wrong
    ]


def _may_be_absent(name: str, reference: Mapping[str, str], found: Mapping[str, str]) -> bool:
    """Whether a file need not be in both: an entry of the store, or what a process was writing as it died."""
    temporary = Path(name).name.startswith(".") and name.endswith(".tmp")
    return (name in reference) != (name in found) and (name.startswith("store/") or temporary)


def damage(store: Path) -> list[str]:
    """What the store finds wrong with itself, and files of its entries that no record names."""
    from microtome.store.shelf import Shelf

    if not store.exists():
        return []
    shelf = Shelf(store)
    problems = list(shelf.verify())
    for entry in shelf.entries():
        there = {path.name for path in entry.folder.iterdir()}
        if there != {*entry.files, "entry.json"}:
            problems.append(f"{entry.address} holds {', '.join(sorted(there - set(entry.files)))}")
    return problems


def attack(
    ground: Path,
    place: Path,
    *,
    kills: int,
    terms: int,
    seed: int,
    processes: int,
    verbs: Sequence[str] | None,
) -> dict[str, Any]:
    """Kill verbs, and start them again; what came of it."""
    chosen = tuple(verbs or VERBS)

    def share(total: int, at: int) -> int:
        return total // len(chosen) + (at < total % len(chosen))

    def work(at: int, folder: Path) -> dict[str, Any]:
        wanted = {"kills": share(kills, at), "terms": share(terms, at)}
        return asdict(attempt(chosen[at], ground / "good", folder / chosen[at], **wanted, seed=seed))

    done = spread(range(len(chosen)), work, place, processes)
    return {"verbs": [{key: value for key, value in one.items() if key != "at"} for one in done]}
