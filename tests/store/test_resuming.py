"""Work that was taken over is done once and with the same bits, also where locks of files do not hold."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import microtome
from microtome.errors import WorkError
from microtome.store import claims
from microtome.store.shelf import Shelf
from microtome.store.tokens import make_token

SOURCE = Path(microtome.__file__).parents[1]
# A network file system whose locks hold nothing, as the system shows it to a process.
SHIM = """
#include <stdarg.h>
#include <dlfcn.h>
#define _GNU_SOURCE
#include <fcntl.h>
int flock(int file, int operation) { return 0; }
int lockf(int file, int command, off_t size) { return 0; }
"""
# Twenty steps; each is whole or absent, and the state says how many there are.
WORKER = """
import os, pathlib, sys, time
from microtome.store import claims, heartbeat
from microtome.store.files import write_whole
from microtome.store.shelf import Shelf

root, name, pause, stale = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
heartbeat.BEAT, claims.STALE = stale / 4, stale
log = pathlib.Path(root).parent / "log"
waiting = lambda: print("waits", flush=True)
with Shelf(root).work(kind="note", specification={"n": 1}, waiting=waiting) as work:
    if work.entry is None:
        state = work.folder / "state"
        done = int(state.read_text()) if state.exists() else 0
        for step in range(done, 20):
            with open(work.folder / "log", "r+b" if step else "wb") as file:
                file.seek(1000 * step)
                file.truncate()
                for piece in range(10):  # not whole at once, as libraries write
                    file.write(bytes([step]) * 100)
                    file.flush()
                    time.sleep(pause / 20)
            write_whole(state, [str(step + 1).encode()])
            with open(log, "a") as file:
                file.write(f"{name} {step}\\n")
            print("step", step, flush=True)
            time.sleep(pause / 2)
        print("steps are done", flush=True)
        time.sleep(pause)
        work.finish()
print("finished", flush=True)
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs gcc on Linux")
    place = tmp_path_factory.mktemp("shim")
    (place / "locks.c").write_text(SHIM)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", place / "locks.so", place / "locks.c"], check=True, cwd=place
    )
    return place / "locks.so"


class Crew:
    """Workers on one address; owns their processes."""

    def __init__(self, root: Path, shim: Path | None) -> None:
        self.root, self.processes = root, list[subprocess.Popen[str]]()
        self.environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        if shim is not None:
            self.environment["LD_PRELOAD"] = str(shim)

    def start(
        self, name: str, *, pause: float = 0.02, stale: float = 1.5, host: str = ""
    ) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", WORKER, str(self.root), name, str(pause), str(stale)]
        if host:
            words = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host, *words]
        running = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            start_new_session=True,
        )
        self.processes.append(running)
        return running

    def steps(self) -> list[tuple[str, int]]:
        """Who did which steps."""
        lines = (self.root.parent / "log").read_text().splitlines()
        return [(line.split()[0], int(line.split()[1])) for line in lines]


@pytest.fixture
def crew(tmp_path: Path, shim: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path / "store", shim)
    yield crew
    for running in crew.processes:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


def until(running: subprocess.Popen[str], line: str) -> None:
    assert running.stdout is not None
    for text in running.stdout:
        if text.strip() == line:
            return
    raise AssertionError(f"{line} never came: {running.communicate()[1]}")


def check(root: Path) -> None:
    """One entry with the bits of an undisturbed run, and nothing beside it."""
    shelf = Shelf(root)
    (entry,) = shelf.entries()
    assert entry.path("log").read_bytes() == b"".join(bytes([step]) * 1000 for step in range(20))
    assert entry.path("state").read_text() == "20"
    assert set(entry.files) == {"log", "state"}
    assert shelf.verify() == shelf.partial() == []
    for name in ("partial", "trash", "locks"):
        assert list((root / name).iterdir()) == []


def may_rename_hosts() -> bool:
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run(["unshare", "--uts", "hostname", "other"], check=False, capture_output=True).returncode
        == 0
    )


other_hosts = pytest.mark.skipif(not may_rename_hosts(), reason="needs a name of the host of its own")


def test_the_locks_of_the_simulated_file_system_hold_nothing(crew: Crew, tmp_path: Path) -> None:
    code = (
        "import fcntl, sys\n"
        "files = [open(sys.argv[1], 'w') for _ in range(2)]\n"
        "for file in files:\n"
        "    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "file")]
    assert subprocess.run(words, check=False, env=crew.environment, timeout=60).returncode == 0
    plain = {key: value for key, value in crew.environment.items() if key != "LD_PRELOAD"}
    assert subprocess.run(words, check=False, env=plain, capture_output=True, timeout=60).returncode == 1


def test_two_workers_without_locks_do_it_once(crew: Crew) -> None:
    first = crew.start("first", pause=0.1)
    until(first, "step 0")
    second = crew.start("second", pause=0.1)
    until(second, "waits")
    claim = Shelf(crew.root).running()
    assert [(one.pid, one.silent < 2) for one in claim.values()] == [(first.pid, True)]
    for running in (first, second):
        _, problem = running.communicate(timeout=60)
        assert running.returncode == 0, problem
    assert crew.steps() == [("first", step) for step in range(20)]
    check(crew.root)


@other_hosts
def test_two_hosts_without_locks_do_it_once(crew: Crew) -> None:
    workers = [crew.start(f"w{number}", host=f"node{number}", pause=0.1) for number in range(4)]
    for running in workers:
        _, problem = running.communicate(timeout=120)
        assert running.returncode == 0, problem
    assert sorted(step for _, step in crew.steps()) == list(range(20))
    assert len({name for name, _ in crew.steps()}) == 1
    check(crew.root)


def take_over_from_a_killed_host(crew: Crew, stale: float) -> float:
    first = crew.start("first", host="node1", pause=0.2, stale=stale)
    until(first, "step 4")
    second = crew.start("second", stale=stale)
    until(second, "waits")
    os.killpg(first.pid, signal.SIGKILL)
    killed = time.monotonic()
    until(second, f"step {len(crew.steps())}")
    took = time.monotonic() - killed
    _, problem = second.communicate(timeout=60)
    assert second.returncode == 0, problem
    # It went on from where the first one was killed.
    assert [step for _, step in crew.steps()] == list(range(20))
    check(crew.root)
    return took


@other_hosts
def test_the_work_of_a_killed_host_goes_on(crew: Crew) -> None:
    assert take_over_from_a_killed_host(crew, 1.5) > 1


@other_hosts
@pytest.mark.slow
def test_the_work_of_a_killed_host_goes_on_within_a_minute(crew: Crew) -> None:
    assert take_over_from_a_killed_host(crew, claims.STALE) < 60


@pytest.mark.parametrize("moment", ["step 3", "steps are done"])
@pytest.mark.parametrize("host", ["", pytest.param("node1", marks=other_hosts)])
def test_who_was_stopped_and_goes_on_later_changes_nothing(crew: Crew, moment: str, host: str) -> None:
    first = crew.start("first", pause=0.3, host=host)
    until(first, moment)
    time.sleep(0.05)  # within the writing of a file
    os.kill(first.pid, signal.SIGSTOP)
    second = crew.start("second", pause=0.2)
    until(second, "steps are done" if moment == "steps are done" else "step 6")
    os.kill(first.pid, signal.SIGCONT)
    _, problem = second.communicate(timeout=60)
    assert second.returncode == 0, problem
    _, problem = first.communicate(timeout=60)
    # It finds that it was replaced, or the entry.
    assert first.returncode == 0 or "another took over" in problem, problem
    assert first.returncode == 1 or moment == "steps are done"
    check(crew.root)


def test_who_was_stopped_and_goes_on_after_the_end_finds_the_entry(crew: Crew) -> None:
    first = crew.start("first", pause=0.3)
    until(first, "steps are done")
    os.kill(first.pid, signal.SIGSTOP)
    second = crew.start("second")
    until(second, "finished")
    os.kill(first.pid, signal.SIGCONT)
    _, problem = first.communicate(timeout=60)
    assert first.returncode == 0, problem
    check(crew.root)


def test_files_of_a_holder_that_may_be_alive_are_copied(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "store")
    with shelf.work(kind="note", specification={}) as work:
        (work.folder / "open").write_text("so far")
        file = (work.folder / "open").open("a")
        # Another process has taken over.
        claim = claims._chain(str(shelf.root / "locks" / work.address))
        assert claims._create(str(shelf.root / "locks" / work.address), claim) is not None
        os.rename(work.folder, work.folder.with_name(f"{work.address}.0123456789ab-7-7-00"))
    (successor,) = (shelf.root / "locks").glob("*.*")
    (shelf.root / "locks" / work.address).unlink()
    successor.unlink()
    with shelf.work(kind="note", specification={}) as later:
        with file:
            file.write(", and on")
        assert (later.folder / "open").read_text() == "so far"
        assert [path.name for path in (shelf.root / "partial").iterdir()] == [later.folder.name]
        later.finish()
    assert shelf.partial() == shelf.verify() == []


def test_the_successor_of_two_goes_on_from_the_latest(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "store")
    with shelf.work(kind="note", specification={}) as work:
        (work.folder / "state").write_text("3")
    machine, _, begun, _ = make_token().split("-")
    newer = shelf.root / "partial" / f"{work.address}.{machine}-{2**22 - 1}-{begun}-00"
    newer.mkdir()
    (newer / "state").write_text("7")
    os.utime(shelf.root / "partial" / work.address, (1, 1))
    with shelf.work(kind="note", specification={}) as work:
        assert (work.folder / "state").read_text() == "7"
        assert len(list((shelf.root / "partial").iterdir())) == 1


def test_a_holder_that_was_replaced_says_so(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "store")

    def lose(finish: bool) -> None:
        with shelf.work(kind="note", specification={}) as work:
            shutil.rmtree(work.folder)
            if finish:
                work.finish()
            (work.folder / "state").write_text("4")

    for finish in (False, True):
        with pytest.raises(WorkError, match=r"another took over [0-9a-f]{40}; the same command goes on"):
            lose(finish)
    with shelf.work(kind="note", specification={}) as work:
        shutil.rmtree(work.folder)
        entry = shelf.put(lambda folder: None, kind="note", specification={})
        assert work.finish() == entry
