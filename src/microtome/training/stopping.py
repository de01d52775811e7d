"""How is a training stopped without losing what it learned? After the update that runs, not within it."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Stopping:
    """
    Waits for an interrupt (Ctrl-C) while a training runs: owns the handler of the signal.

    The first interrupt is only noted, for the loop to see between two updates, and takes effect at the end of
    the block; a second one stops at once, as does the first where signals are someone else's: in another
    thread, or under another's handler.

    Parameters
    ----------
    here : bool
        Whether to wait at all.

    Examples
    --------
    >>> with Stopping() as stopping:
    ...     stopping.asked
    False
    """

    def __init__(self, here: bool = True) -> None:
        self.asked = False
        self._here, self._before = here, None

    def __enter__(self) -> Stopping:
        ours = self._here and threading.current_thread() is threading.main_thread()
        if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        if self.asked and kind is None:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
