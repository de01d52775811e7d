"""What nobody needs goes, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import microtome
from microtome.errors import InputError
from microtome.store.address import address
from microtome.store.entry import StoreEntry, write_entry
from microtome.store.shelf import Shelf

SOURCE = Path(microtome.__file__).parents[1]
AT_WORK = """
import sys
from microtome.store.shelf import Shelf
shelf = Shelf(sys.argv[1])
def put(folder):
    (folder / "a").write_text("put")
    print("ready", flush=True)
    sys.stdin.read()
if sys.argv[2] == "put":
    shelf.put(put, kind="note", specification={"n": "put"})
else:
    with shelf.work(kind="note", specification={"n": "work"}) as work:
        put(work.folder)
"""


def write(folder: Path) -> None:
    (folder / "a").write_text("0123456789")


def aged(shelf: Shelf, days: float, kind: str = "note") -> StoreEntry:
    entry = shelf.put(write, kind=kind, specification={"days": days, "kind": kind})
    created = (datetime.now(UTC) - timedelta(days=days)).isoformat()
    older = replace(entry, provenance={**entry.provenance, "created": created})
    write_entry(older)
    return older


def leave(shelf: Shelf, days: float = 0) -> str:
    """Leave a piece of work behind, as an interruption does."""
    with shelf.work(kind="note", specification={"left": days}) as work:
        write(work.folder)
        for path in (work.folder / "a", work.folder):
            then = path.stat().st_mtime - days * 86_400
            os.utime(path, (then, then))
        return work.address


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "store")


@pytest.fixture(params=["put", "work"])
def worker(shelf: Shelf, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(
        [sys.executable, "-c", AT_WORK, str(shelf.root), request.param],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield running
    finally:
        running.kill()
        running.communicate()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_without_an_age_no_entry_goes(shelf: Shelf) -> None:
    aged(shelf, 10_000)
    leave(shelf, 10_000)
    assert shelf.gc(grace_hours=0).removed == ()
    assert len(shelf.addresses()) == len(shelf.partial()) == 1


def test_entries_go_by_age_and_stay_by_kind(shelf: Shelf) -> None:
    old, young = aged(shelf, 31), aged(shelf, 29)
    kept = aged(shelf, 31, "encoder")
    would = shelf.gc(grace_hours=0, older_than_days=30, keep=["encoder"], dry_run=True)
    assert would.dry_run
    assert len(shelf.addresses()) == 3
    done = shelf.gc(grace_hours=0, older_than_days=30, keep=["encoder"])
    assert done.removed == would.removed
    (removed,) = done.removed
    assert (removed.what, removed.name, removed.kind) == ("entry", old.address, "note")
    assert done.bytes == removed.bytes > 10
    assert set(shelf.addresses()) == {young.address, kept.address}
    assert shelf.verify() == []
    assert names(shelf.root / "trash") == []
    assert shelf.gc(grace_hours=0, older_than_days=30, keep=["encoder"]).removed == ()
    assert len(shelf.gc(grace_hours=0, older_than_days=0).removed) == 2


def test_an_entry_that_cannot_be_read_is_not_judged(shelf: Shelf) -> None:
    entry = aged(shelf, 100)
    (entry.folder / "entry.json").write_text("{")
    assert shelf.gc(grace_hours=0, older_than_days=1).removed == ()
    assert shelf.addresses() == [entry.address]


def test_interrupted_work_goes_on_request(shelf: Shelf) -> None:
    old, young = leave(shelf, 31), leave(shelf)
    assert shelf.gc(grace_hours=0, older_than_days=30).removed == ()
    assert len(shelf.gc(grace_hours=0, older_than_days=30, partial=True, dry_run=True).removed) == 1
    (removed,) = shelf.gc(grace_hours=0, older_than_days=30, partial=True).removed
    assert (removed.what, removed.name, removed.bytes) == ("work", old, 10)
    assert names(shelf.root / "partial") == [young]
    assert [one.name for one in shelf.gc(grace_hours=0, partial=True).removed] == [young]
    assert names(shelf.root / "partial") == names(shelf.root / "locks") == names(shelf.root / "trash") == []


def test_work_that_is_going_on_never_goes(shelf: Shelf, worker: subprocess.Popen[str]) -> None:
    assert shelf.gc(grace_hours=0, older_than_days=0, partial=True, dry_run=True).removed == ()
    assert shelf.gc(grace_hours=0, older_than_days=0, partial=True).removed == ()
    (going,) = shelf.partial()
    assert going.running
    assert (going.folder / "a").read_text() == "put"
    worker.communicate("", timeout=60)
    assert worker.returncode == 0
    assert shelf.get(address({"n": "put"})) is not None or [one.running for one in shelf.partial()] == [False]


def test_what_a_killed_process_has_left(shelf: Shelf, worker: subprocess.Popen[str]) -> None:
    worker.kill()
    worker.communicate()
    (left,) = shelf.partial()
    assert not left.running
    assert len(names(shelf.root / "locks")) == 1
    swept = shelf.gc(grace_hours=0)
    # What `put` had begun is of no use; what `work` had begun is.
    assert len(swept.removed) == (not left.resumable)
    assert len(shelf.gc(grace_hours=0, partial=True).removed) == left.resumable
    assert names(shelf.root / "partial") == names(shelf.root / "locks") == names(shelf.root / "trash") == []
    assert shelf.verify() == []


def test_an_interrupted_removal_is_completed(shelf: Shelf) -> None:
    entry = aged(shelf, 0)
    entry.folder.rename(shelf.root / "trash" / f"{entry.address}.0123abcd")
    (shelf.root / "trash" / "file").write_text("12345")
    (shelf.root / "trash" / "link").symlink_to(shelf.root / "format.json")
    assert len(shelf.gc(grace_hours=0, dry_run=True).removed) == 3
    swept = shelf.gc(grace_hours=0)
    assert {(one.what, one.name) for one in swept.removed} == {
        *(("trash", name) for name in (entry.address, "file", "link"))
    }
    assert names(shelf.root / "trash") == []
    assert (shelf.root / "format.json").exists()


def test_folders_of_others_stay(shelf: Shelf) -> None:
    leave(shelf)
    (shelf.root / "partial" / "notes").mkdir()
    (shelf.root / "mine").mkdir()
    shelf.gc(grace_hours=0, older_than_days=0, partial=True)
    assert names(shelf.root / "partial") == ["notes"]
    assert (shelf.root / "mine").is_dir()


@pytest.mark.parametrize(("hours", "removed"), [(1, 0), (25, 1)])
def test_work_of_another_host_goes_after_a_day_without_a_sign(
    shelf: Shelf, hours: float, removed: int
) -> None:
    name = leave(shelf, 2)
    claim = shelf.root / "locks" / name
    token = "0123456789ab-77-5-00"
    claim.write_text(json.dumps({"token": token, "host": "node7", "pid": 77, "started": 1.0}))
    then = time.time() - hours * 3600
    os.utime(claim, (then, then))
    (shelf.root / "partial" / name).rename(shelf.root / "partial" / f"{name}.{token}")
    (left,) = shelf.partial()
    assert (left.address, left.resumable, left.running) == (name, True, False)
    assert len(shelf.gc(grace_hours=0, partial=True).removed) == removed
    assert len(shelf.partial()) == len(names(shelf.root / "locks")) == 1 - removed


@pytest.mark.parametrize("days", [-1, float("nan"), float("inf")])
def test_ages_that_are_none(shelf: Shelf, days: float) -> None:
    with pytest.raises(InputError, match="older_than_days must be a number of days, at least 0, but got"):
        shelf.gc(grace_hours=0, older_than_days=days)


def test_one_kind_to_keep_is_still_a_sequence(shelf: Shelf) -> None:
    kinds: Any = "note"
    with pytest.raises(InputError, match="keep must be a sequence of kinds, but got 'note'"):
        shelf.gc(grace_hours=0, older_than_days=1, keep=kinds)


def test_what_is_young_stays(shelf: Shelf) -> None:
    """Work that goes on may still read an entry that was just made, or that it has just looked up."""
    old, read, work = aged(shelf, 31), aged(shelf, 32), leave(shelf)
    for entry in (old, read):
        for path in (*entry.folder.iterdir(), entry.folder):
            os.utime(path, (0, 0))
    assert shelf.get(read.address) == read
    swept = shelf.gc(older_than_days=0, partial=True)
    assert [one.name for one in swept.removed] == [old.address]
    assert swept.young == 2
    assert shelf.addresses() == [read.address]
    assert [one.address for one in shelf.partial()] == [work]
    assert len(shelf.gc(older_than_days=0, partial=True, grace_hours=0).removed) == 2


@pytest.mark.parametrize("hours", [-1, float("nan"), float("inf")])
def test_a_grace_that_is_none(shelf: Shelf, hours: float) -> None:
    with pytest.raises(InputError, match="grace_hours must be a number of hours, at least 0, but got"):
        shelf.gc(grace_hours=hours)
