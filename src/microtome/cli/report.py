"""The verb `report`: one page on all results of a folder, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..context import Context
from ..options import option
from .show import JsonOption, QuietOption
from .tools import Tool

# Findings that are printed beside the path of the page.
SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class Report(QuietOption, JsonOption, Tool):
    """Write one page on all results of a folder: what was found, maps and curves, and how to repeat it."""

    folder: Path = option(
        "What verbs wrote with --out, at any depth.", argument=True, metavar="DIR", read=Path
    )
    out: Path | None = option(
        "The page; report.html in the folder when absent.", None, metavar="FILE", read=Path
    )
    show: bool = option("Open the page in the browser.", False, name="open")

    def run(self, context: Context) -> None:
        """Write the page, and print the first findings."""
        import datetime

        from ..report.collecting import collect
        from ..report.making import PAGE
        from ..report.writing import write_page

        screen = self.screen
        document = collect(self.folder, date=datetime.date.today().isoformat())
        page = write_page(document, self.folder / PAGE if self.out is None else self.out)
        for source in document["provenance"]:
            problem = dict(source["facts"]).get("problem")
            if problem:
                screen.note(f"warning: {source['file']} was left out. {problem}")
        if self.show:
            import webbrowser

            if not webbrowser.open(page.resolve().as_uri()):
                screen.note("warning: no browser could be opened.")
        sentences = [finding["text"] for finding in document["findings"]]
        count = len(sentences) - SHOWN
        more = [f"More on the page: {count} {'finding' if count == 1 else 'findings'}."] if count > 0 else []
        screen.listing(document, ([], [], [f"Written to {page}", *sentences[:SHOWN], *more]))
