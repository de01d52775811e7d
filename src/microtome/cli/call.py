"""The command that performs one call of an experiment."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from ..context import Context
from ..errors import must
from ..options import option
from .show import QuietOption
from .tools import Tool


@dataclass(frozen=True, kw_only=True)
class CallTool(QuietOption, Tool):
    """Compute one piece of an experiment, and leave its outcome in the store."""

    text: str = option("The call, as Experiment.calls writes it.", argument=True, metavar="JSON")
    store: str | None = option("Folder of the store.", None, metavar="DIR")

    def run(self, context: Context) -> None:
        """Compute the piece."""
        from ..experiments.calls import perform

        try:
            request = json.loads(self.text)
        except ValueError as problem:
            raise must("a call", f"JSON ({problem})", self.text) from problem
        with self.screen.working() as progress:
            perform(request, replace(context, store=self.store, progress=progress))
