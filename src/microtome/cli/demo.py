"""What can be found out in a few minutes? The verb `demo`, on small encoders that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..reading import read_numbers
from .show import JsonOption, QuietOption, Screen, ThreadsOption

if TYPE_CHECKING:
    from ..demonstration.running import Demonstration


def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(help="The folder to write into; what is there already is not computed again.")
    ] = Path("demo"),
    seeds: Annotated[str, typer.Option(help="Seeds of fine-tuning, as 1,2 or 1-3.")] = "1,2",
    quick: Annotated[
        bool,
        typer.Option("--quick", metavar="", help="Fewer examples and updates: done sooner, and less sure."),
    ] = False,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fine-tune small encoders of the package, compare, cut and prune them, and write a report."""
    from dataclasses import replace

    from ..demonstration.plan import QUICK, WHOLE
    from ..demonstration.running import demonstrate
    from ..runtime import using_threads

    screen = Screen(json=json, quiet=quiet)
    plan = replace(QUICK if quick else WHOLE, seeds=tuple(read_numbers("--seeds", seeds)))
    with screen.working() as progress, using_threads(threads):
        found = demonstrate(
            out, plan, tell=screen.note, progress=progress, command=context.obj or "microtome demo"
        )
    if json:
        screen.result(_document(found), "")
        return
    _show(screen, found)


def _show(screen: Screen, found: Demonstration) -> None:
    for told in found.told:
        screen.sentences([f"{told.name} ({told.title})", *(f"- {text}" for text in told.sentences), ""])
    if not found.unseen:
        screen.sentences(["No model was exported: no cut was shown to be safe.", ""])
    for one in found.unseen:
        screen.sentences([one.sentence(), ""])
    more = len(found.document["findings"])
    screen.sentences([f"The report, with {more} findings in all: {found.page}"])
    screen.note(f"Done in {found.seconds:.0f} s.")


def _document(found: Demonstration) -> dict[str, Any]:
    from dataclasses import asdict

    from ..findings.results import plain

    told = {
        "format": "microtome/demo/1",
        "report": str(found.page),
        "findings": [asdict(one) for one in found.told],
        "exported": [
            {
                "name": one.name,
                "folder": str(one.folder),
                "kept": one.kept,
                "depth": one.depth,
                **asdict(one.drop),
                "safe": one.drop.safe,
                "sentence": one.sentence(),
            }
            for one in found.unseen
        ],
        "seconds": found.seconds,
    }
    return plain(told)
