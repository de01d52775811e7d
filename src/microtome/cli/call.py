"""The command that performs one call of an experiment."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..context import Context
from ..errors import must
from .show import Screen


def call(
    text: Annotated[str, typer.Argument(metavar="JSON", help="The call, as Experiment.calls writes it.")],
    store: Annotated[str | None, typer.Option(metavar="DIR", help="Folder of the store.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", metavar="", help="No progress.")] = False,
) -> None:
    """Compute one piece of an experiment, and leave its outcome in the store."""
    from ..experiments.calls import perform

    try:
        request = json.loads(text)
    except ValueError as problem:
        raise must("a call", f"JSON ({problem})", text) from problem
    with Screen(json=False, quiet=quiet).working() as progress:
        perform(request, Context(store=store, progress=progress))
