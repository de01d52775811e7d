"""The verb `demo`: small encoders of the package taken apart in a few minutes."""

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
        demonstration = demonstrate(
            out, plan, tell=screen.note, progress=progress, command=context.obj or "microtome demo"
        )
    if json:
        screen.result(_document(demonstration), "")
        return
    _show(screen, demonstration)


def _show(screen: Screen, demonstration: Demonstration) -> None:
    for findings in demonstration.findings:
        screen.sentences(
            [f"{findings.name} ({findings.title})", *(f"- {text}" for text in findings.sentences), ""]
        )
    if not demonstration.unseen:
        screen.sentences(["No model was exported: no cut was shown to be safe.", ""])
    for model in demonstration.unseen:
        screen.sentences([model.sentence(), ""])
    count = len(demonstration.document["findings"])
    screen.sentences([f"The report, with {count} findings in all: {demonstration.page}"])
    screen.note(f"Done in {demonstration.seconds:.0f} s.")


def _document(demonstration: Demonstration) -> dict[str, Any]:
    from dataclasses import asdict

    from ..findings.results import plain

    document = {
        "format": "microtome/demo/1",
        "report": str(demonstration.page),
        "findings": [asdict(findings) for findings in demonstration.findings],
        "exported": [
            {
                "name": model.name,
                "folder": str(model.folder),
                "kept": model.kept,
                "depth": model.depth,
                **asdict(model.drop),
                "safe": model.drop.safe,
                "sentence": model.sentence(),
            }
            for model in demonstration.unseen
        ],
        "seconds": demonstration.seconds,
    }
    return plain(document)
