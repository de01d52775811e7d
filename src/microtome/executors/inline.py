"""Calls in this process, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ..context import Context
from .base import Call, Executor, ExecutorSettings, Outcome, Resources, check_calls
from .worker import attempt


class InlineExecutor(Executor):
    """
    Performs one call whenever it is asked for outcomes.

    Parameters
    ----------
    settings : ExecutorSettings
    """

    def __init__(self, settings: ExecutorSettings) -> None:
        super().__init__(settings)
        self._waiting: deque[Call] = deque()

    def submit(self, calls: Sequence[Call], resources: Resources) -> None:
        """Take calls; resources are those of this process."""
        check_calls(calls)
        self._waiting.extend(calls)

    def outcomes(self, timeout: float) -> list[Outcome]:
        """Perform the next call, however long it takes."""
        if not self._waiting:
            return []
        context = Context(store=self.settings.root)
        return [attempt(self._waiting.popleft(), context, self.settings.perform)]

    def close(self) -> None:
        """Forget what is waiting."""
        self._waiting.clear()
