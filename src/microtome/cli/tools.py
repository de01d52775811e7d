"""Commands that are no experiments: dataclasses whose fields are their options."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from ..options import options_of
from .parsing import command_of
from .show import Screen


@dataclass(frozen=True, kw_only=True)
class Tool(ABC):
    """One command; a subclass declares its options and what it does."""

    @property
    def screen(self) -> Screen:
        """Where the result is shown."""
        return Screen(json=getattr(self, "json", False), quiet=getattr(self, "quiet", False))

    @abstractmethod
    def run(self, command: str) -> None:
        """Do it, and show the result; `command` is what was typed."""


def tool(kind: type[Tool]) -> Callable[..., None]:
    """Make the command of a tool."""
    options = {f.name: (f, facts) for f, facts in options_of(kind)}
    summary = inspect.cleandoc(kind.__doc__ or "")
    return command_of(options, lambda values, command: kind(**values).run(command), summary, panels=False)
