"""The verb `report`: one page on all results of a folder, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .show import JsonOption, QuietOption, Screen

# Findings that are printed beside the path of the page.
SHOWN = 8


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="What verbs wrote with --out, at any depth.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The page; report.html in the folder when absent.", show_default=False)
    ] = None,
    show: Annotated[bool, typer.Option("--open", metavar="", help="Open the page in the browser.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write one page on all results of a folder: what was found, maps and curves, and how to repeat it."""
    import datetime

    from ..report.collecting import collect
    from ..report.making import PAGE
    from ..report.writing import write_page

    screen = Screen(json=json, quiet=quiet)
    document = collect(folder, date=datetime.date.today().isoformat())
    page = write_page(document, folder / PAGE if out is None else out)
    for source in document["provenance"]:
        problem = dict(source["facts"]).get("problem")
        if problem:
            screen.note(f"warning: {source['file']} was left out. {problem}")
    if show:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            screen.note("warning: no browser could be opened.")
    if json:
        screen.result(document, "")
        return
    findings = document["findings"]
    count = len(findings) - SHOWN
    screen.sentences(
        [
            f"Written to {page}",
            *(finding["text"] for finding in findings[:SHOWN]),
            *([f"More on the page: {count} {'finding' if count == 1 else 'findings'}."] if count > 0 else []),
        ]
    )
