"""Is an interrupt heard between two updates, and at once if it is repeated?"""

from __future__ import annotations

import os
import signal
import threading

import pytest

from microtome.training.optimization.progress import Stopping


def press(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def _twice(stopping: Stopping) -> None:
    press()
    assert stopping.asked
    with pytest.raises(KeyboardInterrupt):
        press()


@pytest.mark.usefixtures("heeding")
def test_the_first_interrupt_is_noted_and_the_second_stops() -> None:
    before = signal.getsignal(signal.SIGINT)
    stopping = Stopping()
    with pytest.raises(KeyboardInterrupt), stopping:
        _twice(stopping)
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt), Stopping():
        press()
    with pytest.raises(KeyboardInterrupt), Stopping(False):
        press()


def test_signals_of_others_are_left_alone() -> None:
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        with Stopping() as stopping:
            press()
        assert (seen, stopping.asked) == ([1], False)
    finally:
        signal.signal(signal.SIGINT, before)
    found = []

    def elsewhere() -> None:
        with Stopping() as stopping:
            found.append(stopping.asked)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [False]


def _both(number: int) -> None:
    press(number)
    press(number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_a_scheduler_sends_is_noted_however_often(number: int) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        stopping = Stopping()
        with pytest.raises(KeyboardInterrupt), stopping:
            _both(number)
        assert stopping.asked
        assert signal.getsignal(number) is signal.SIG_DFL
        # As under nohup.
        signal.signal(number, signal.SIG_IGN)
        with Stopping() as stopping:
            press(number)
        assert not stopping.asked
    finally:
        signal.signal(number, before)
