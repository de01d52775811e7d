"""One process at a time holds a claim; who is dead or silent loses it, on file systems of all kinds."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import microtome
from microtome.store import claims, heartbeat
from microtome.store.claims import drop_part, hold, is_claimed, read_claims
from microtome.store.tokens import make_token

SOURCE = Path(microtome.__file__).parents[1]
HOLDER = (
    "import pathlib, sys\n"
    "from microtome.store.claims import hold\n"
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


def is_held(path: Path) -> bool:
    return path.name in read_claims(path.parent)


def test_a_claim_leaves_no_file_behind(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    begun = time.time()
    with hold(path) as token:
        assert token is not None
        assert is_claimed(path, token)
        claim = read_claims(tmp_path)["lock"]
        assert (claim.host, claim.pid) == (socket.gethostname(), os.getpid())
        assert begun - 1 < claim.started < time.time() + 1
        assert claim.silent < 5
        with hold(path, wait=False) as second:
            assert second is None
        assert is_held(path)
    assert not is_held(path)
    assert not is_claimed(path, token)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_loses_its_claim(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    other = start(HOLDER, path)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with hold(path, wait=False) as token:
            assert token is None
        said: list[str] = []

        def waiting() -> None:
            said.append("waits")
            other.send_signal(signal.SIGKILL)

        with hold(path, waiting=waiting) as token:
            assert token is not None
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
        with hold(path, wait=False) as token:
            assert token is None
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
        "from microtome.store.claims import hold\n"
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


def test_a_place_where_no_lock_can_be_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), hold(tmp_path / "nowhere" / "lock"):
        pass
    assert not is_held(tmp_path / "nowhere" / "lock")


# Other hosts


FOREIGN = "0123456789ab-77-5-"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT", 0.2)
    monkeypatch.setattr(claims, "STALE", 1.0)


def foreign(path: Path, chance: str = "00", at: float | None = None) -> str:
    """Leave the claim of a process on another host, whose clock may be another."""
    token = FOREIGN + chance
    facts = {"token": token, "host": "node7", "pid": 77, "started": 1.0}
    path.write_text(json.dumps(facts))
    if at is not None:
        os.utime(path, (at, at))
    return token


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("hours", [-5, 0, 5])
def test_a_claim_of_another_host_is_taken_over_once_it_is_silent(tmp_path: Path, hours: float) -> None:
    path = tmp_path / "lock"
    token = foreign(path, at=time.time() + hours * 3600)
    begun = time.monotonic()
    with hold(path) as mine:
        assert 1.0 < time.monotonic() - begun < 10
        assert mine is not None
        assert is_claimed(path, mine)
        assert not is_claimed(path, token)
        with hold(path, wait=False) as second:
            assert second is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("quick")
def test_a_clock_that_is_wrong_does_not_matter_while_there_are_signs(tmp_path: Path) -> None:
    path, ended = tmp_path / "lock", threading.Event()
    then = time.time() - 7200
    foreign(path, at=then)

    def signs() -> None:
        for beat in range(15):
            os.utime(path, (then + beat, then + beat))
            time.sleep(0.2)
        ended.set()

    thread = threading.Thread(target=signs)
    thread.start()
    with hold(path):
        assert ended.is_set()
    thread.join()


@pytest.mark.usefixtures("quick")
def test_of_many_that_wait_for_a_silent_one_a_single_one_succeeds(tmp_path: Path) -> None:
    path, inside, most, done = tmp_path / "lock", [0], [0], [0]

    def work() -> None:
        with hold(path):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.01)
            done[0] += 1
            inside[0] -= 1

    for chance in range(3):
        foreign(path, str(chance))
        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (most[0], done[0]) == (1, 48)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("quick")
def test_after_one_wait_other_silent_claims_are_known(tmp_path: Path) -> None:
    for number in range(20):
        foreign(tmp_path / f"lock-{number}", str(number))
    begun = time.monotonic()
    for number in range(20):
        with hold(tmp_path / f"lock-{number}"):
            pass
    assert time.monotonic() - begun < 6
    assert list(tmp_path.iterdir()) == []


def test_a_successor_that_comes_too_late_links_nothing_that_counts(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    foreign(path)
    late = claims._chain(str(path))
    path.unlink()  # the holder was only slow, and released it
    assert claims._create(str(path), late) is None
    with hold(path) as token:
        assert claims._create(str(path), late) is None
        assert token is not None
        assert is_claimed(path, token)
    assert list(tmp_path.iterdir()) == []


def test_a_holder_that_was_replaced_releases_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold(path):
        successor = claims._create(str(path), claims._chain(str(path)))
        assert successor is not None
    assert is_claimed(path, successor.token)


def test_a_process_number_that_was_given_again(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    machine, _, begun, chance = make_token().split("-")
    for pid, birth in ((os.getpid(), "1"), (2**22 - 1, begun)):
        facts = {"token": f"{machine}-{pid}-{birth}-{chance}", "host": "here", "pid": pid, "started": 1.0}
        path.write_text(json.dumps(facts))
        assert read_claims(tmp_path) == {}
        with hold(path, wait=False) as token:
            assert token is not None


def test_a_claim_without_a_sign_for_a_day_is_stale_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    foreign(path, at=time.time() - 90_000)
    with hold(path, wait=False) as token:
        assert token is not None


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_files_that_are_no_claims(tmp_path: Path, quick: None, content: str) -> None:
    path = tmp_path / "lock"
    path.write_text(content)
    assert read_claims(tmp_path) == {}
    with hold(path, wait=False) as token:
        assert token is None
    with hold(path) as token:
        assert token is not None


def test_a_chain_that_bites_its_tail(tmp_path: Path, quick: None) -> None:
    path = tmp_path / "lock"
    for name in ("lock", "lock."):
        (tmp_path / name).write_text("")
    with hold(path, wait=False) as token:
        assert token is None


def test_where_files_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    test_many_threads_pass_the_lock_on_one_by_one(tmp_path)


def test_an_answer_that_the_network_loses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def lose(source: str, target: str) -> None:
        real(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", lose)
    test_many_threads_pass_the_lock_on_one_by_one(tmp_path)


def test_what_is_left_of_claims_goes(tmp_path: Path) -> None:
    machine, _, begun, chance = make_token().split("-")
    dead = f"{machine}-{2**22 - 1}-{begun}-{chance}"
    with hold(tmp_path / "lock"):
        names = [f".{dead}", f".{make_token()}", f"lock.{FOREIGN}00"]
        for name in names:
            (tmp_path / name).write_text("{}")
            drop_part(tmp_path / name)
        assert {path.name for path in tmp_path.iterdir()} == {"lock", names[1]}


def test_a_thousand_claims_are_read_at_once(tmp_path: Path) -> None:
    for number in range(1000):
        foreign(tmp_path / f"lock-{number}", str(number))
    begun = time.perf_counter()
    assert len(read_claims(tmp_path)) == 1000
    assert time.perf_counter() - begun < 1
