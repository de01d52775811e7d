"""What jobs of Slurm ask for, and how one is interrupted."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from microtome.executors.base import ExecutorSettings, Resources
from microtome.executors.jobs import Job, parameters_of, together, words_of


@pytest.mark.parametrize(
    "gpus, count, width", [(0, 8, 1), (1, 8, 1), (2, 8, 1), (0.5, 8, 2), (1 / 3, 8, 3), (0.25, 2, 2)]
)
def test_calls_that_share_a_gpu_run_side_by_side(gpus: float, count: int, width: int) -> None:
    assert together(Resources(gpus=gpus), count) == width


@pytest.mark.parametrize(
    "settings, resources, expected",
    [
        ({}, {}, {"cpus_per_task": 1, "time": 60, "mem": "4096MB", "signal_delay_s": 90}),
        # Eight calls, four of which share a GPU, take two turns.
        (
            {"pack": 8},
            {"gpus": 0.25, "cpus": 2, "minutes": 30},
            {"cpus_per_task": 8, "time": 60, "mem": "16384MB", "gpus_per_node": 1},
        ),
        ({"pack": 3}, {"minutes": 1}, {"time": 3, "signal_delay_s": 45}),
        (
            {"partition": "low", "workers": 7, "slurm": {"account": "me"}},
            {"gpus": 2},
            {"partition": "low", "array_parallelism": 7, "account": "me", "gpus_per_node": 2},
        ),
    ],
)
def test_a_job_asks_for_what_its_calls_need(
    settings: dict[str, Any], resources: dict[str, Any], expected: dict[str, Any], tmp_path: Path
) -> None:
    parameters = parameters_of(
        ExecutorSettings(store=tmp_path, **settings), Resources(**resources), "x", settings.get("pack", 1)
    )
    assert {name: parameters[name] for name in expected} == expected


def test_a_job_is_the_public_command(tmp_path: Path) -> None:
    words = words_of(tmp_path / "calls.json", ExecutorSettings(store=tmp_path), 2)
    assert words[1:4] == ["-m", "microtome", "call"]
    job = pickle.loads(pickle.dumps(Job(words)))
    assert job.words == words
    assert Job([sys.executable, "-c", "raise SystemExit(3)"])() == 3


def test_a_job_whose_time_is_up_interrupts_its_command(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    script = (
        "import signal, sys, time, pathlib\n"
        "place = pathlib.Path(sys.argv[1])\n"
        "def save(*_): (place / 'saved').touch(); raise SystemExit(130)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN\n"
        "(place / 'ready').touch(); time.sleep(60)\n"
    )
    job = Job([sys.executable, "-c", script, str(tmp_path)])
    again: list[Any] = []

    def strike() -> None:
        deadline = time.monotonic() + 30
        while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGUSR2)

    # As in a job: the signal interrupts the call that waits for the command.
    before = signal.signal(signal.SIGUSR2, lambda *_: again.append(job.checkpoint()))
    try:
        threading.Thread(target=strike).start()
        begun = time.monotonic()
        assert job() == 130
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert time.monotonic() - begun < 30
    assert (tmp_path / "saved").exists()
    assert again[0].function.words == job.words
