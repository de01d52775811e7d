"""Claims of a live process are touched, and the thread that does so is in nobody's way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import microtome

SOURCE = Path(microtome.__file__).parents[1]
BEGIN = """
import os, pathlib, sys, threading, time
from microtome.store import heartbeat
from microtome.store.claims import hold
heartbeat.BEAT = 0.1
place = pathlib.Path(sys.argv[1])

def signs(path, seconds=1.0):
    before, count, end = 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        sign = path.stat().st_mtime_ns
        count += sign != before
        before = sign
        time.sleep(0.01)
    return count
"""


def run(code: str, place: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code, str(place)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_thread_touches_all_claims_and_ends_with_the_last(tmp_path: Path) -> None:
    code = """
with hold(place / "a"), hold(place / "b"):
    assert threading.active_count() == 2
    assert min(signs(place / "a"), signs(place / "b")) > 3
time.sleep(1)
assert threading.active_count() == 1
with hold(place / "a"):
    assert signs(place / "a") > 3
"""
    run(code, tmp_path)


def test_the_thread_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    run("heartbeat.BEAT = 3600; held = hold(place / 'a'); held.__enter__()", tmp_path)


def test_a_forked_child_has_a_thread_of_its_own_and_releases_nothing(tmp_path: Path) -> None:
    code = """
with hold(place / "a"):
    if not os.fork():
        with hold(place / "b"):
            print(threading.active_count(), signs(place / "b") > 3, flush=True)
    else:
        os.wait()
        print((place / "a").exists(), signs(place / "a") > 3, (place / "b").exists())
"""
    assert run(code, tmp_path) == "2 True\nTrue True False\n"


def test_the_package_needs_no_thread(tmp_path: Path) -> None:
    code = (
        "import microtome, sys, threading; print(threading.active_count(), 'microtome.store' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=True,
    )
    assert done.stdout == "1 False\n"
