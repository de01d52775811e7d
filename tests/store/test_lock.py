"""One process at a time holds a lock, and a dead one holds none."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import microtome
from microtome.store.lock import hold, is_held

SOURCE = Path(microtome.__file__).parents[1]
HOLDER = (
    "import pathlib, sys\n"
    "from microtome.store.lock import hold\n"
    "with hold(pathlib.Path(sys.argv[1])):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


def start(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        start_new_session=True,
    )


def end(running: subprocess.Popen[str]) -> None:
    # With its children: a test that fails must not leave them waiting.
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.communicate()


def test_a_lock_leaves_no_file_behind(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold(path) as state:
        assert state == "held"
        assert is_held(path)
        with hold(path, wait=False) as second:
            assert second == "busy"
        assert is_held(path)
    assert not is_held(path)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    other = start(HOLDER, path)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with hold(path, wait=False) as state:
            assert state == "busy"
        said: list[str] = []

        def waiting() -> None:
            said.append("waits")
            other.send_signal(signal.SIGKILL)

        with hold(path, waiting=waiting) as state:
            assert state == "held"
        assert said == ["waits"]
    finally:
        end(other)
    assert not path.exists()


def test_who_waited_for_a_removed_file_holds_the_new_one(tmp_path: Path) -> None:
    path, waits, inside, leave = tmp_path / "lock", threading.Event(), threading.Event(), threading.Event()

    def second() -> None:
        with hold(path, waiting=waits.set):
            inside.set()
            leave.wait()

    thread = threading.Thread(target=second)
    try:
        with hold(path):
            thread.start()
            assert waits.wait(30)
        assert inside.wait(30)
        with hold(path, wait=False) as state:
            assert state == "busy"
    finally:
        leave.set()
    thread.join()
    assert not path.exists()


def test_many_threads_pass_the_lock_on_one_by_one(tmp_path: Path) -> None:
    # The file is removed and made again all the time; still no two are inside at once.
    path, inside, most, done = tmp_path / "lock", [0], [0], [0]

    def work() -> None:
        for _ in range(50):
            with hold(path):
                inside[0] += 1
                time.sleep(0)  # lets another in, if it can
                most[0] = max(most[0], inside[0])
                done[0] += 1
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most[0], done[0]) == (1, 400)
    assert not path.exists()


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys, time\n"
        "from microtome.store.lock import hold\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "with hold(path):\n"
        "    waiter = os.fork()\n"
        "    if not waiter:\n"
        "        print('waits', flush=True)\n"
        "        with hold(path):\n"
        "            print('held', flush=True)\n"
        "        os._exit(0)\n"
        "    sleeper = os.fork()\n"
        "    if not sleeper:\n"
        "        time.sleep(60)\n"
        "        os._exit(0)\n"
        "    time.sleep(0.5)\n"
        "os.waitpid(waiter, 0)\n"
        "os.kill(sleeper, 9)\n"
        "os.waitpid(sleeper, 0)\n"
    )
    running = start(code, tmp_path / "lock")
    try:
        out, _ = running.communicate(timeout=30)
    finally:
        end(running)
    assert out == "waits\nheld\n"


def test_where_there_are_no_locks_the_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with hold(tmp_path / "lock") as state:
        assert state == "unsupported"
    assert not is_held(tmp_path / "lock")


def test_a_place_where_no_lock_can_be_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), hold(tmp_path / "nowhere" / "lock"):
        pass
    assert not is_held(tmp_path / "nowhere" / "lock")
