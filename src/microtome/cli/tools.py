"""Commands that are no experiments: dataclasses whose fields are their options."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..context import Context
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
    def run(self, context: Context) -> None:
        """Do it, and show the result; the context has the command that was typed."""


def tool(kind: type[Tool]) -> Callable[..., None]:
    """Make the command of a tool."""
    options = {f.name: (f, facts) for f, facts in options_of(kind)}
    summary = inspect.cleandoc(kind.__doc__ or "")

    def call(values: dict[str, Any], command: str) -> None:
        kind(**values).run(Context(command=command))

    return command_of(options, call, summary, panels=False)
