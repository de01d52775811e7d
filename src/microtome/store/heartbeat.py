"""The sign of life of a process: a thread that touches the files of its claims."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

BEAT = 10.0  # seconds


class Heartbeat:
    """The thread that touches the claims of this process; it ends when there are none."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin without claims, as a forked child does: its parent keeps what it holds."""
        self._guard, self._files, self._running = threading.Lock(), set[str](), False

    def add(self, file: str) -> None:
        """Keep a claim alive from now on."""
        with self._guard:
            self._files.add(file)
            if not self._running:
                threading.Thread(target=self._beat, name="microtome heartbeat", daemon=True).start()
                self._running = True

    def drop(self, file: str) -> None:
        """Keep a claim alive no longer."""
        with self._guard:
            self._files.discard(file)

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT)
            with self._guard:
                files = tuple(self._files)
                self._running = bool(files)
            if not files:
                return
            for file in files:
                with suppress(OSError):  # released or taken over meanwhile, or the disk is away for now
                    os.utime(file)


HEARTBEAT = Heartbeat()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HEARTBEAT.reset)
