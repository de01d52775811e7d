"""Processes on one machine: what runs at once, and what becomes of calls when processes end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from microtome.errors import InputError
from microtome.executors.base import ExecutorSettings, Outcome, Resources
from microtome.executors.processes import ProcessesExecutor, _devices
from microtome.executors.table import open_executor
from microtome.store.shelf import Shelf
from microtome.testing.executors import PERFORM, call_of, chain_of, drive, start_driver, steps_of


def settings(tmp_path: Path, workers: int | None = 2, gpus: int | None = None) -> ExecutorSettings:
    return ExecutorSettings(store=tmp_path / "store", workers=workers, gpus=gpus, perform=PERFORM)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def begun(tmp_path: Path, call: dict[str, Any]) -> int:
    """The process that performs a call, once it has saved a step."""
    store = tmp_path / "store"
    wait_for(lambda: steps_of(store, call["address"])[1] > 1)
    return steps_of(store, call["address"])[0][-1]


def test_a_killed_process_loses_its_call_alone_and_is_replaced(tmp_path: Path) -> None:
    calls = [call_of("slow", k, steps=400) for k in range(2)]
    with open_executor("processes", settings(tmp_path)) as executor:
        executor.submit(calls, Resources())
        os.kill(begun(tmp_path, calls[0]), signal.SIGKILL)
        (lost,) = executor.outcomes(60)
        assert (lost.address, lost.state) == (calls[0]["address"], "lost")
        assert "signal 9 (as where memory runs out: [resources] memory)" in lost.message
        executor.submit([call_of("plain", 1)], Resources())
        (done,) = executor.outcomes(60)
        assert done.state == "done"


def test_one_failure_is_one_sentence(tmp_path: Path) -> None:
    call = call_of("failing", 3)
    with open_executor("processes", settings(tmp_path)) as executor:
        executor.submit([call], Resources())
        (outcome,) = executor.outcomes(60)
    assert outcome == Outcome(
        address=call["address"],
        state="failed",
        message="number must be that of a call that succeeds, but got 3.",
        seconds=outcome.seconds,
    )
    assert Shelf(tmp_path / "store").failures()[call["address"]].message == outcome.message


def test_a_process_whose_gpu_is_broken_is_replaced(tmp_path: Path) -> None:
    calls = [call_of("breaking", 0), call_of("plain", 1), call_of("plain", 2)]
    with open_executor("processes", settings(tmp_path, workers=1)) as executor:
        executor.submit(calls, Resources())
        states: dict[str, str] = {}
        while len(states) < 3:
            states |= {outcome.address: outcome.state for outcome in executor.outcomes(60)}
    assert list(states.values()) == ["failed", "done", "done"]
    failures = Shelf(tmp_path / "store").failures()
    assert {address: record.attempts for address, record in failures.items()} == {calls[0]["address"]: 1}


def test_closing_interrupts_and_what_was_saved_is_resumed(tmp_path: Path) -> None:
    call = call_of("slow", 0, steps=40)
    with open_executor("processes", settings(tmp_path)) as executor:
        executor.submit([call], Resources())
        process = begun(tmp_path, call)
        assert executor.outcomes(0.5) == []
    assert not alive(process)
    steps = steps_of(tmp_path / "store", call["address"])[1]
    assert 1 < steps < 41
    assert set(drive("processes", settings(tmp_path), [call]).values()) == {"done"}
    entry = Shelf(tmp_path / "store").look(call["address"])
    assert entry is not None
    assert entry.path("chain.txt").read_text() == chain_of(40)
    # The step at which it was interrupted is the only one that was begun twice.
    assert steps_of(tmp_path / "store", call["address"])[1] <= 42


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_coordinator(number: int, tmp_path: Path) -> None:
    call = call_of("slow", 0, steps=1000)
    coordinator = start_driver("processes", settings(tmp_path), [call])
    process = begun(tmp_path, call)
    coordinator.send_signal(number)
    coordinator.wait(30)
    wait_for(lambda: not alive(process))


def test_as_many_calls_at_once_as_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Devices are names: the calls of this test need none.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert _devices() == ["4", "7"]
    calls = [call_of("slow", k, steps=20) for k in range(6)]
    with ProcessesExecutor(settings(tmp_path, workers=6)) as executor:
        executor.submit(calls, Resources(gpus=0.5))
        waiting = {call["address"] for call in calls}
        # Each process works on the part of a GPU, so that two fit on each.
        assert sorted(w.device or "" for w in executor._workers if w.call is not None) == ["4", "4", "7", "7"]
        while waiting:
            waiting -= {outcome.address for outcome in executor.outcomes(60)}
        assert len(executor._workers) == 4
        with pytest.raises(InputError, match="gpus must be at most 1"):
            executor.submit(calls, Resources(gpus=2))


@pytest.mark.parametrize("needs", [{"memory": "1000TB"}, {"cpus": 4096}])
def test_calls_that_are_larger_than_the_machine_are_refused(needs: dict[str, Any], tmp_path: Path) -> None:
    with ProcessesExecutor(settings(tmp_path, workers=None)) as executor:
        with pytest.raises(InputError, match=rf"which has \d+ CPUs.*needs.*{next(iter(needs.values()))}"):
            executor.submit([call_of("plain", 1)], Resources(**needs))
        assert executor.outcomes(1) == []
    with ProcessesExecutor(settings(tmp_path, workers=1)) as executor:
        executor.submit([call_of("plain", 1)], Resources(**needs))
        assert [outcome.state for outcome in executor.outcomes(60)] == ["done"]


def test_gpus_that_are_not_there_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with (
        open_executor("processes", settings(tmp_path)) as executor,
        pytest.raises(InputError, match=r"which has 0, but got 0\.25"),
    ):
        executor.submit([call_of("plain", 1)], Resources(gpus=0.25))
