"""Work goes on where it was killed, is done by one process at a time, and survives a disk that refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import microtome
from microtome.errors import InputError, WorkError
from microtome.store.address import address
from microtome.store.shelf import Shelf

SOURCE = Path(microtome.__file__).parents[1]


def write(content: str = "content", name: str = "a.txt") -> Any:
    return lambda folder: (folder / name).write_text(content)


def fail(folder: Path) -> None:
    raise AssertionError(f"asked to write {folder} again")


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


def run(code: str, *arguments: object) -> str:
    running = start(code, *arguments)
    out, said = running.communicate(timeout=120)
    assert running.returncode == 0, said
    return out


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "store")


def test_work_is_kept_until_it_is_finished(shelf: Shelf) -> None:
    order: dict[str, Any] = {"kind": "note", "specification": {"n": 1}}

    def interrupted() -> None:
        with shelf.work(**order) as work:
            write("half", "a")(work.folder)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    name = address({"n": 1})
    assert shelf.get(name) is None
    (left,) = shelf.partial()
    assert (left.address, left.running, left.resumable, left.bytes) == (name, False, True, 4)
    with Shelf(shelf.root, "again").work(name, **order) as work:
        assert work.entry is None
        assert (work.folder / "a").read_text() == "half"
        assert shelf.partial()[0].running
        write("whole", "b")(work.folder)
        entry = work.finish({"device": "cpu"}, seconds=12.5)
        assert work.entry == entry
        assert not shelf.partial()
    assert entry == shelf.get(work.address)
    assert set(entry.files) == {"a", "b"}
    assert entry.provenance["seconds"] == 12.5
    assert entry.provenance["command"] == "again"
    assert entry.provenance["device"] == "cpu"
    with shelf.work(**order) as work:
        assert work.entry == entry
        with pytest.raises(InputError, match="the folder of a work must be asked for before it is finished"):
            _ = work.folder
        with pytest.raises(InputError, match="is already in the store"):
            work.finish()
    assert shelf.verify() == []


def test_a_second_worker_waits_and_finds_it_finished(shelf: Shelf) -> None:
    waits, seen = threading.Event(), []

    def second() -> None:
        with shelf.work(kind="note", specification={}, waiting=waits.set) as work:
            seen.append(work.entry)

    thread = threading.Thread(target=second)
    with shelf.work(kind="note", specification={}) as work:
        thread.start()
        assert waits.wait(30)
        write()(work.folder)
        entry = work.finish()
    thread.join()
    assert seen == [entry]


KILLED = """
import sys
from microtome.store.shelf import Shelf
with Shelf(sys.argv[1]).work(kind="note", specification={"n": 1}) as work:
    (work.folder / "first").write_text("kept")
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_killed_worker_hands_over(shelf: Shelf) -> None:
    other = start(KILLED, shelf.root)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert [one.running for one in shelf.partial()] == [True]

        def kill() -> None:
            other.send_signal(signal.SIGKILL)

        with shelf.work(kind="note", specification={"n": 1}, waiting=kill) as work:
            assert (work.folder / "first").read_text() == "kept"
            work.finish()
    finally:
        other.kill()
        other.communicate()
    assert shelf.verify() == []


def test_the_first_to_finish_is_kept(shelf: Shelf) -> None:
    with shelf.work(kind="note", specification={}) as work:
        write("late")(work.folder)
        shelf.put(write("early"), kind="note", specification={})
        assert work.finish().path("a.txt").read_text() == "early"
    assert shelf.partial() == shelf.verify() == []


# Many at once

CROWD = """
import os, pathlib, sys, time
import numpy as np
from microtome.store.recording import ShardWriter
from microtome.store.shelf import Shelf

root, me, log = sys.argv[1], int(sys.argv[2]), sys.argv[3]
print("ready", flush=True)
sys.stdin.readline()
shelf = Shelf(root)
numbers = list(range(12))
for n in numbers[me:] + numbers[:me]:
    content = bytes([n]) * (1000 * n + 1)
    def write(folder):
        for name in ("a", "b"):
            (folder / name).write_bytes(content)
    entry = shelf.put(write, kind="shared", specification={"put": n})
    assert entry.path("b").read_bytes() == content
    with shelf.work(kind="stack", specification={"work": n}) as work:
        if work.entry is None:
            with open(log, "ab", buffering=0) as file:
                file.write(b"%d\\n" % n)
            writer = ShardWriter(work.folder, [("x", 3)], "float16")
            for k in range(3):
                writer.write({"x": np.full((k + 1, 3), n, dtype=np.float32)})
            writer.finish()
            work.finish()
    shelf.put(write, kind="own", specification={"put": n, "by": me})
"""


def test_eight_processes_at_once(shelf: Shelf, tmp_path: Path) -> None:
    crowd = [start(CROWD, shelf.root, me, tmp_path / "log") for me in range(8)]
    try:
        for one in crowd:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in crowd:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        for one in crowd:
            _, said = one.communicate(timeout=240)
            assert one.returncode == 0, said
    finally:
        for one in crowd:
            one.kill()
            one.communicate()
    assert shelf.verify() == []
    kinds = [entry.kind for entry in shelf.entries()]
    assert {kind: kinds.count(kind) for kind in kinds} == {"shared": 12, "stack": 12, "own": 96}
    # Each piece of work was done once.
    assert sorted(map(int, (tmp_path / "log").read_text().split())) == list(range(12))
    for name in ("partial", "trash", "locks"):
        assert list((shelf.root / name).iterdir()) == []
    assert list(shelf.root.rglob("*.tmp")) == []


# A disk that refuses

FULL_DISK = """
import pathlib, resource, sys
from microtome.errors import WorkError
from microtome.store.shelf import Shelf
shelf = Shelf(sys.argv[1])
shelf.put(lambda folder: (folder / "a").write_bytes(b"x"), kind="note", specification={"n": 0})
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for n, size in ((1, 10_000_000), (2, 10)):
    try:
        shelf.put(lambda folder: (folder / "a").write_bytes(bytes(size)), kind="note", specification={"n": n})
    except WorkError as error:
        print(error)
try:
    with shelf.work(kind="note", specification={"n": 3}) as work:
        (work.folder / "first").write_bytes(b"first")
        (work.folder / "second").write_bytes(bytes(30_000))
except WorkError as error:
    print(error)
try:
    shelf.put(lambda folder: None, kind="note", specification={"long": "x" * 30_000})
except WorkError as error:
    print(error)
"""


def test_a_full_disk_is_told_in_one_sentence_and_nothing_is_lost(shelf: Shelf) -> None:
    put, work, record = run(FULL_DISK, shelf.root).splitlines()
    assert put == f"{shelf.root} must have room for what is written, but got: File too large."
    assert work == (
        f"{shelf.root} must have room for what is written, but got: File too large; what was done before is "
        "kept, and the same command goes on from there."
    )
    assert record.startswith(f"{shelf.root}/partial/")
    assert record.endswith("entry.json must have room for what is written, but got: File too large.")
    assert sorted(entry.specification["n"] for entry in shelf.entries()) == [0, 2]
    assert shelf.verify() == []
    assert [one.address for one in shelf.partial()] == [address({"n": 3})]
    with shelf.work(kind="note", specification={"n": 3}) as taken:
        assert (taken.folder / "first").read_bytes() == b"first"


def test_a_store_that_may_only_be_read(shelf: Shelf) -> None:
    entry = shelf.put(write(), kind="note", specification={"n": 0})
    before = files_of(shelf.root)
    folders = [shelf.root, *(path for path in shelf.root.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        if os.access(shelf.root, os.W_OK):
            pytest.skip("this user may write everywhere")
        reader = Shelf(shelf.root)
        assert reader.get(entry.address) == entry
        assert reader.verify() == []
        assert reader.put(fail, kind="note", specification={"n": 0}) == entry
        with reader.work(kind="note", specification={"n": 0}) as work:
            assert work.entry == entry
        words = "must be readable and writable, but got: .*Permission denied"
        with pytest.raises(WorkError, match=words):
            reader.put(write(), kind="note", specification={"n": 1})
        with pytest.raises(WorkError, match=words), reader.work(kind="note", specification={"n": 1}):
            pass
        with pytest.raises(WorkError, match=words):
            reader.remove(entry.address)
        with pytest.raises(WorkError, match=words):
            reader.gc(older_than_days=0)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert files_of(shelf.root) == before


def test_what_a_killed_process_was_writing_does_not_enter(shelf: Shelf) -> None:
    with shelf.work(kind="note", specification={"n": 5}) as work:
        for name in (".tmpAb12xY", ".state.safetensors.0123abcd.tmp"):
            (work.folder / name).write_text("half")
    with shelf.work(kind="note", specification={"n": 5}) as work:
        assert list(work.folder.iterdir()) == []
        for name in (".tmpAb12xY", ".entry.json.0123abcd.tmp", "whole"):
            (work.folder / name).write_text("half")
        assert set(work.finish().files) == {"whole"}
    assert shelf.verify() == []
