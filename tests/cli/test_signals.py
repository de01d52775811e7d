"""Does a training that a scheduler or a closed terminal ends keep its state, and end with the same bits?"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from pathlib import Path

import pytest

import microtome
import tiny
from microtome.cli import _interruptible, main
from microtome.store.shelf import Shelf

SOURCE = Path(microtome.__file__).parents[1]
UPDATES = 300
WORDS = [
    *("finetune", "bert", "--task", "mine", "--column", "text=words", "--column", "label=mood"),
    *("--set", f"steps={UPDATES}", "--set", "batch=1", "--set", "longest=8", "--recipe", "wu2020"),
    *("--threads", "1", "--seeds"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signals")
    tiny.save_checkpoint(folder / "bert", "bert")
    (folder / "mine").mkdir()
    for name in ("train", "validation"):
        rows = "".join(f"the cat {n} sleeps,{'up' if n % 2 else 'down'}\n" for n in range(24))
        (folder / "mine" / f"{name}.csv").write_text(f"words,mood\n{rows}")
    return folder


def interrupt(place: Path, words: list[str], number: int, seen: str) -> tuple[int, str]:
    """Send a signal to a command as soon as its progress, as a terminal shows it, says so."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "microtome", *words],
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(theirs)
    shown, sent = b"", False
    try:
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
            if not sent and re.search(seen.encode(), shown):
                sent = True
                running.send_signal(number)
        assert sent, shown.decode(errors="replace")
        return running.wait(timeout=60), shown.decode(errors="replace")
    finally:
        running.kill()
        running.wait()
        os.close(ours)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_training_goes_on_after_a_signal(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    number, store = getattr(signal, name), place / name
    words = [*WORDS, "1", "--store", str(store)]
    code, shown = interrupt(place, words, number, rf"[1-9]\d*/{UPDATES}")
    assert code == 130
    assert "microtome: interrupted; nothing is left running" in shown
    (left,) = Shelf(store).partial()
    assert (left.folder / "state.safetensors").is_file()
    assert not left.running
    assert main([*words, "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert 0 < run["course"]["resumed"] < UPDATES
    assert main([*WORDS, "1", "--store", str(place / "whole"), "--json"]) == 0
    (whole,) = json.loads(capsys.readouterr().out)["runs"]
    assert whole["course"]["resumed"] == 0
    assert weights(Path(run["folder"])) == weights(Path(whole["folder"]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_processes_of_a_pool_keep_their_state_too(place: Path) -> None:
    """Only the first process hears the signal, as after `kill`; a scheduler sends it to all."""
    store = place / "pool"
    running = subprocess.Popen(
        [sys.executable, "-m", "microtome", *WORDS, "1,2,3", "--at-once", "2", "--store", str(store)],
        cwd=place,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    try:
        while len([log for log in store.glob("partial/*/log.jsonl") if log.stat().st_size]) < 2:
            with suppress(subprocess.TimeoutExpired):
                running.wait(0.05)
                pytest.fail("it ended too early")
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=120)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130
    assert said.splitlines()[-1].startswith("microtome: interrupted; nothing is left running")
    left = Shelf(store).partial()
    assert [(one.folder / "state.safetensors").is_file() for one in left] == [True, True]
    assert not any(one.running for one in left)


def test_an_interrupt_inside_a_callback_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    class Thing:
        pass

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    def drop() -> None:
        things = [Thing()]
        kept.append(weakref.ref(things[0], interrupted))
        with _interruptible():
            things.clear()
            time.sleep(5)

    kept: list[weakref.ref[Thing]] = []
    with pytest.raises(KeyboardInterrupt):
        drop()
    assert kept[0]() is None
    assert capsys.readouterr().err == ""
